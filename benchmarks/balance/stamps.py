"""A bag that notes when its place has processed how much."""

from __future__ import annotations

import time

from ..uts.bag import UtsBag

_stamps: list[tuple[float, int]] = []


class StampedBag(UtsBag):
    """Nodes of a tree; calls of ``process`` leave a stamp on the place where they are."""

    __slots__ = ()

    def process(self, n: int) -> bool:
        """Count about ``n`` nodes, and note when that was."""
        before = self.work
        more = super().process(n)
        _stamps.append((time.monotonic(), self.work - before))
        return more


def take_stamps() -> list[tuple[float, int]]:
    """Return the stamps of this place since the last call: s of the machine's monotonic clock, tasks."""
    taken = _stamps[:]
    del _stamps[: len(taken)]
    return taken
