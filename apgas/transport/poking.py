"""Wakes up MPI at other places for as long as somebody here waits for what they have to do within it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from apgas.transport.engine import LINGER_S, STUCK_S

_EVERY_S: Final = 0.8 * LINGER_S
"""So that those who are poked go on lingering until the next time."""


class Poking:
    """Pokes, again and again.

    Args:
        poke: Tells these places that MPI has to be called there.
        later: Runs something in so many seconds.
    """

    def __init__(
        self, poke: Callable[[Sequence[int]], None], later: Callable[[float, Callable[[], None]], object]
    ) -> None:
        self._poke = poke
        self._later = later

    def begin(self, places: Sequence[int], needed: Callable[[], bool]) -> None:
        """Poke ``places`` from some time after now on, while ``needed()``: most waits end before that."""
        self._later(STUCK_S, partial(self._again, places, needed))

    def until_left(self, places: Sequence[int]) -> Callable[[], None]:
        """Poke ``places`` until what is returned is called."""
        over = threading.Event()
        self.begin(places, lambda: not over.is_set())
        return over.set

    def _again(self, places: Sequence[int], needed: Callable[[], bool]) -> None:
        if needed():
            self._poke(places)
            self._later(_EVERY_S, partial(self._again, places, needed))
