"""Bounds what readers cost the daemon: what takes long to make is not made anew for each of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

LARGEST_SHARE: Final = 0.05
"""Of the daemon's time that goes into one thing, in the long run."""
_BURST_S: Final = 1.0
"""Time that may go into it at once."""

_T = TypeVar("_T")


class Paced(Generic[_T]):
    """Something that is made when asked for; the last one again, where making it has taken too much time lately.

    Args:
        make: Makes it.
        clock: Seconds.
    """

    def __init__(self, make: Callable[[], _T], clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._clock = clock
        self._last: list[_T] = []
        self._spent_s = 0.0
        self._at_s = clock()

    def get(self) -> _T:
        """Return it, as it is or recently was."""
        begun_s = self._clock()
        self._spent_s = max(0.0, self._spent_s - LARGEST_SHARE * (begun_s - self._at_s))
        self._at_s = begun_s
        if not self._last or self._spent_s < _BURST_S:
            self._last = [self._make()]
            self._spent_s += self._clock() - begun_s
        return self._last[0]
