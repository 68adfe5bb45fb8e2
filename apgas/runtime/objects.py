"""What the references of ``apgas.runtime.refs`` lead to on one place."""

from __future__ import annotations

import itertools
import threading
from typing import Any, TypeAlias

Key: TypeAlias = tuple[int, int]
"""The place that made a ``PlaceLocal``, and its number there."""


class Objects:
    """The objects that one place keeps for references.

    Attributes:
        numbers: Of the references that this place makes.
        homed: The objects of its ``GlobalRef``s, by number.
        local: Its objects of ``PlaceLocal``s.
        states: Its objects of ``PlaceState``s.
        lock: Held while one of those is made.
    """

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.homed: dict[int, Any] = {}
        self.local: dict[Key, Any] = {}
        self.states: dict[object, Any] = {}
        self.lock = threading.RLock()
        self._lock = threading.Lock()
        self._making: dict[Key, threading.RLock] = {}

    def making(self, key: Key) -> threading.RLock:
        """The lock under which the object of ``key`` is made.

        One for each, not one for all: a factory may wait for another place, and that for another object here.
        """
        with self._lock:
            return self._making.setdefault(key, threading.RLock())
