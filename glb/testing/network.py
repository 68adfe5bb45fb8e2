"""The network between simulated places: in order from one place to another, otherwise after any delay."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from random import Random
from typing import Final

from glb.testing.events import Loot, Wire

_PATIENCE: Final = 20
"""A message of a slow place is passed over so often, in the mean, before it is delivered."""


class Network:
    """What is under way.

    Args:
        rng: Decides what arrives next.
        slow: Places from and to which messages take long.
    """

    def __init__(self, rng: Random, slow: frozenset[int]) -> None:
        self.delivered: Counter[str] = Counter()
        self._rng = rng
        self._slow = slow
        self._queues: dict[tuple[int, int], deque[Wire]] = {}
        self._busy: list[tuple[int, int]] = []

    def __bool__(self) -> bool:
        return bool(self._busy)

    def send(self, sender: int, to: int, message: Wire) -> None:
        """Put ``message`` behind those that ``sender`` has sent to ``to``."""
        queue = self._queues.setdefault((sender, to), deque())
        if not queue:
            self._busy.append((sender, to))
        queue.append(message)

    def deliver(self) -> tuple[int, int, Wire]:
        """Take out the next message: sender, receiver, message."""
        index = self._rng.randrange(len(self._busy))
        if self._slow and len(self._busy) > 1 and not self._slow.isdisjoint(self._busy[index]):
            # often another link is taken instead, which may be a slow one, too
            index = index if self._rng.random() * _PATIENCE < 1 else self._rng.randrange(len(self._busy))
        pair = self._busy[index]
        queue = self._queues[pair]
        message = queue.popleft()
        if not queue:
            self._quiet(index)
        self.delivered[type(message).__name__] += 1
        return *pair, message

    def between(self, sender: int, to: int) -> Sequence[Wire]:
        """Return what is under way from ``sender`` to ``to``."""
        return self._queues.get((sender, to), ())

    def bags_to(self, place: int) -> bool:
        """Return whether a bag is under way to ``place``."""
        return any(
            isinstance(message, Loot) for pair in self._busy if pair[1] == place for message in self._queues[pair]
        )

    def cut_off(self, place: int) -> list[Wire]:
        """Lose all that is under way to ``place``, and the last of what it sent; return what is lost."""
        lost: list[Wire] = []
        for pair in [pair for pair in self._busy if place in pair]:
            queue = self._queues[pair]
            kept = self._rng.randint(0, len(queue)) if pair[0] == place and pair[1] != place else 0
            while len(queue) > kept:
                lost.append(queue.pop())
            if not queue:
                self._quiet(self._busy.index(pair))
        return lost

    def _quiet(self, index: int) -> None:
        last = self._busy.pop()
        if index < len(self._busy):
            self._busy[index] = last
