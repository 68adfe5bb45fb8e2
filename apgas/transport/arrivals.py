"""Keeps what arrives from each place in order while parts of it are still on their way. Io thread only."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

_logger = logging.getLogger(__name__)


class Arrival:
    """Something of a place that is to be done in its turn, once it is complete; ``always``: even after ``drop``."""

    __slots__ = ("act", "always", "complete")

    def __init__(self, act: Callable[[], None], *, complete: bool, always: bool = False) -> None:
        self.act = act
        self.complete = complete
        self.always = always


class Arrivals:
    """First in, first out per place; what is complete waits for what came before and is not.

    Attributes:
        waiting: The places of which something is incomplete, with all that waits.
    """

    def __init__(self) -> None:
        self.waiting: Final[dict[int, deque[Arrival]]] = {}

    def take(self, place: int, act: Callable[[], None], *, always: bool = False) -> None:
        """Do ``act`` in its turn: now, if nothing of ``place`` waits. ``always``: it is not to be dropped."""
        queue = self.waiting.get(place)
        if queue is None:
            _do(act)
        else:
            queue.append(Arrival(act, complete=True, always=always))

    def expect(self, place: int, act: Callable[[], None]) -> Arrival:
        """Keep the turn of ``act``, which is done after ``completed``."""
        arrival = Arrival(act, complete=False)
        self.waiting.setdefault(place, deque()).append(arrival)
        return arrival

    def completed(self, place: int, arrival: Arrival) -> None:
        """Do what has waited for ``arrival`` only."""
        arrival.complete = True
        queue = self.waiting.get(place)
        while queue and queue[0].complete:
            # what is done may send to ourselves, but never changes the queue of a place
            _do(queue.popleft().act)
        if queue is not None and not queue:
            del self.waiting[place]

    def drop(self, place: int) -> None:
        """Forget all of ``place`` that waits, for what is incomplete will not be completed any more."""
        for arrival in self.waiting.pop(place, ()):
            if arrival.always:
                _do(arrival.act)


def _do(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception:
        _logger.exception("what arrived could not be taken")
