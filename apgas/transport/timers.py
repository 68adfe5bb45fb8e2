"""Callbacks that are due later."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from typing import Final

_COMPACT: Final = 64
_LONGEST_S: Final = 86400.0
"""Nobody is told to sleep for longer: epoll takes no more than some weeks."""


class Timer:
    """A callback due at ``due_s`` on the monotonic clock."""

    __slots__ = ("callback", "due_s")

    def __init__(self, due_s: float, callback: Callable[[], None]) -> None:
        self.due_s = due_s
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Do not run the callback any more."""
        self.callback = None


class Timers:
    """Timers by the time they are due, and by the order they were made in. All but ``ticket`` on one thread."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._sequence = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def ticket(self) -> int:
        """Return a number that tells timers of the same time apart. Any thread."""
        return next(self._sequence)

    def add(self, timer: Timer, ticket: int) -> None:
        """Add a timer; cancelled ones go now and then."""
        if len(self._heap) >= _COMPACT and len(self._heap).bit_count() == 1:
            self._heap = [kept for kept in self._heap if kept[2].callback is not None]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (timer.due_s, ticket, timer))

    def seconds_left(self) -> float | None:
        """Return the seconds until the next one is due, or until it is time to ask again; None: there is none."""
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
        if not self._heap:
            return None
        return min(max(0.0, self._heap[0][0] - time.monotonic()), _LONGEST_S)

    def take_due(self) -> list[Callable[[], None]]:
        """Return the callbacks that are due, once. One may cancel another: ask for each when its turn has come."""
        now_s = time.monotonic()
        due: list[Timer] = []
        while self._heap and self._heap[0][0] <= now_s:
            due.append(heapq.heappop(self._heap)[2])
        return [_once(timer) for timer in due]


def _once(timer: Timer) -> Callable[[], None]:
    def run() -> None:
        callback, timer.callback = timer.callback, None
        if callback is not None:
            callback()

    return run
