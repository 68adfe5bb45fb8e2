"""Waits for events: asleep, or awake for a moment where the next one is about to come.

To wake a thread that sleeps on another core takes longer than a short message and its answer: the sender's system call
wakes the core, and the core the thread. So a thread whose last events have come in quick succession stays awake for as
long as the next one should take, and looks again and again. It gives its core away between two looks; where somebody
else wants that core, or the interpreter, a look takes long, and the thread goes to sleep as ever. Staying awake is for
``AWAKE_S`` at most and has to be earned by quick events in a row: by twice as many after each time that it was in vain,
by half as many after each time that it was not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final, TypeAlias

Events: TypeAlias = list[tuple[int, int]]
"""File descriptors, and what they are ready for."""

QUICK_S: Final = 200e-6
"""An event that comes within this time was quick; that of a round trip in which all sleep is."""
AWAKE_S: Final = 100e-6
"""For how long a thread stays awake, at most."""
LEAST_PRICE: Final = 2
"""So many quick events in a row make it worth while to stay awake, at first and where that pays."""
MOST_PRICE: Final = 256
"""Likewise, where it was in vain again and again."""
STALL_S: Final = 30e-6
"""A look that takes longer says that the core, or the interpreter, is wanted elsewhere."""


class Poller:
    """Asks for events. One thread at a time.

    Args:
        look: Waits for events for at most so many seconds, None without a limit: ``epoll.poll``.
        clock: In seconds, monotonic.
        give_way: Gives the core away to threads that are ready to run, if there are any.

    Attributes:
        price: How many quick events in a row have to come before it stays awake.
    """

    def __init__(
        self,
        look: Callable[[float | None], Events],
        clock: Callable[[], float] = time.monotonic,
        give_way: Callable[[], None] = os.sched_yield,
    ) -> None:
        self.price = LEAST_PRICE
        self._streak = 0
        self._look = look
        self._clock = clock
        self._give_way = give_way

    def poll(self, timeout_s: float | None) -> Events:
        """Wait for events for at most ``timeout_s``, None without a limit; returns none if that is over."""
        if timeout_s is not None and timeout_s <= AWAKE_S:
            return self._look(timeout_s)
        began_s = self._clock()
        if self._streak >= self.price:
            events = self._stay_awake(began_s)
            if events:
                self.price = max(self.price // 2, LEAST_PRICE)
                return events
            self.price = min(2 * self.price, MOST_PRICE)
            self._streak = 0
            return self._look(None if timeout_s is None else max(0.0, timeout_s - (self._clock() - began_s)))
        events = self._look(timeout_s)
        self._streak = self._streak + 1 if self._clock() - began_s < QUICK_S else 0
        return events

    def _stay_awake(self, began_s: float) -> Events:
        before_s = began_s
        while True:
            events = self._look(0.0)
            if events:
                return events
            self._give_way()
            now_s = self._clock()
            if now_s - began_s > AWAKE_S or now_s - before_s > STALL_S:
                return []
            before_s = now_s
