"""What the worker slots of a place do while they have no bag. Pure: the caller brings the time.

A slot that may have a worker and has none is idle: stealing while the place waits for the answer of a random victim,
starving otherwise (its lifelines are asked, or its siblings have nothing to spare). A slot whose number is not below
the wanted number of workers is closed, which is neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["stealing", "starving"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A slot was idle in one way, from ``began`` to ``ended`` (s)."""

    slot: int
    kind: Kind
    began: float
    ended: float


class Idleness:
    """The idle slots of one place.

    Args:
        workers: Slots; all are idle at first.
        now: Present time in s.
    """

    def __init__(self, workers: int, now: float) -> None:
        self._wanted = workers
        self._since: dict[int, float] = dict.fromkeys(range(workers), now)
        self._busy: set[int] = set()
        self._stealing = False

    def stealing(self, stealing: bool, now: float) -> list[Stretch]:
        """The place begins or ceases to ask random victims."""
        if stealing == self._stealing:
            return []
        ended = self.cut(now)
        self._stealing = stealing
        return ended

    def begins(self, slot: int, now: float) -> list[Stretch]:
        """A worker begins in ``slot``."""
        self._busy.add(slot)
        return self._end(slot, now)

    def ends(self, slot: int, now: float) -> None:
        """The worker in ``slot`` ends."""
        self._busy.discard(slot)
        if slot < self._wanted:
            self._since[slot] = now

    def want(self, workers: int, now: float) -> list[Stretch]:
        """There are to be so many workers."""
        self._wanted = workers
        closed = [slot for slot in self._since if slot >= workers]
        stretches = [stretch for slot in closed for stretch in self._end(slot, now)]
        for slot in range(workers):
            if slot not in self._busy:
                self._since.setdefault(slot, now)
        return stretches

    def cut(self, now: float) -> list[Stretch]:
        """End all stretches, and begin new ones."""
        stretches = [stretch for slot in list(self._since) for stretch in self._end(slot, now)]
        self._since |= {stretch.slot: now for stretch in stretches}
        return stretches

    def _end(self, slot: int, now: float) -> list[Stretch]:
        began = self._since.pop(slot, None)
        return [] if began is None else [Stretch(slot, "stealing" if self._stealing else "starving", began, now)]
