"""What the references of ``apgas.runtime.refs`` lead to on one place."""

from __future__ import annotations

import threading
from typing import Any

from apgas.core.messages import RefId


class Objects:
    """The objects that one place keeps for references.

    Attributes:
        homed: The objects of its ``GlobalRef``s.
        local: Its objects of ``PlaceLocal``s.
        states: Its objects of ``PlaceState``s.
        lock: Held while one of those is made.
    """

    def __init__(self) -> None:
        self.homed: dict[RefId, Any] = {}
        self.local: dict[RefId, Any] = {}
        self.states: dict[object, Any] = {}
        self.lock = threading.RLock()
        self._placed: set[RefId] = set()
        self._lock = threading.Lock()
        self._making: dict[RefId, threading.RLock] = {}

    def making(self, key: RefId) -> threading.RLock:
        """The lock under which the object of ``key`` is made.

        One for each, not one for all: a factory may wait for another place, and that for another object here.
        """
        with self._lock:
            return self._making.setdefault(key, threading.RLock())

    def place(self, ref: RefId) -> None:
        """Note that a ``PlaceLocal`` was made here: its objects are on all places."""
        self._placed.add(ref)

    def displace(self, ref: RefId) -> bool:
        """Note that ``ref`` is not used any more; returns whether it was a ``PlaceLocal``."""
        was_placed = ref in self._placed
        self._placed.discard(ref)
        return was_placed

    def free(self, ref: RefId) -> None:
        """Let the object of ``ref`` on this place go."""
        self.homed.pop(ref, None)
        self.local.pop(ref, None)
        with self._lock:
            self._making.pop(ref, None)
