"""The bags of the measures: one that notes when its place has processed how much, and naps."""

from __future__ import annotations

import heapq
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final, Self

from ..harness.ranges import RangeBag, Ranges
from ..synthetic.plain import relative

if TYPE_CHECKING:
    from apgas import ResizeRecord


# Coarse tasks: naps, which use no core, so that a busy machine can measure them; and greedy list scheduling ----------
#
# A greedy list schedule (Graham, "Bounds on multiprocessing timing anomalies", 1969) hands the tasks out one by one, in
# the order of their numbers, to the worker that is free first. It knows all that is waiting at every moment, and moving
# a task takes it no time.

ALWAYS: Final = float("inf")


def durations(count: int, mean_s: float, variance: float) -> list[float]:
    """Return how long ``count`` naps are, in s: their sum is ``count * mean_s``.

    Args:
        count: How many.
        mean_s: Seconds of a nap on average.
        variance: Of the lognormal distribution that they are drawn from, in squared means; 0: all are the same.
    """
    drawn = Random(1).choices(relative("lognormal", variance), k=count) if variance else [1.0] * count
    return [mean_s * count * each / sum(drawn) for each in drawn]


def greedy_s(lasting: Sequence[float], spans: Mapping[int, tuple[float, float]]) -> float:
    """Return when a greedy list schedule ends, in s.

    Args:
        lasting: Seconds of each task, in the order of the list.
        spans: From when and until when each worker begins tasks; it ends the last one that it has begun.
    """
    free = [(since, worker) for worker, (since, _) in spans.items()]
    heapq.heapify(free)
    ended = 0.0
    for seconds in lasting:
        while free[0][0] >= spans[free[0][1]][1]:
            heapq.heappop(free)
        since, worker = free[0]
        heapq.heapreplace(free, (since + seconds, worker))
        ended = max(ended, since + seconds)
    return ended


def spans(places: int, records: Sequence[ResizeRecord], zero_s: float) -> dict[int, tuple[float, float]]:
    """Return from when and until when each place could begin tasks, in s since ``zero_s``.

    Args:
        places: How many there were at first.
        records: The resizes.
        zero_s: When the computation began, on the clock of the records.
    """
    found = dict.fromkeys(range(places), (0.0, ALWAYS))
    for record in records:
        for place in record.places:
            if record.kind == "grow":
                found[place] = record.at_s + record.seconds - zero_s, ALWAYS
            else:
                found[place] = found[place][0], record.at_s - zero_s
    return found


@dataclass
class Naps:
    """Which naps were taken."""

    numbers: list[int] = field(default_factory=list)

    def merge(self, other: Naps) -> None:
        """Add those of ``other``."""
        self.numbers += other.numbers


class NapBag(RangeBag[Naps, list[float]]):
    """Naps by number.

    The problem is the seconds of each nap.
    """

    releases_gil = False
    result = Naps

    @classmethod
    def whole(cls, lasting: list[float]) -> NapBag:
        """Return the bag of all naps."""
        return cls(Ranges([(0, len(lasting))], 1), lasting)

    def _compute(self, first: int, last: int, partial: Naps) -> None:
        for number in range(first, last):
            time.sleep(self._problem[number])
            partial.numbers.append(number)


# A bag that notes when its place has processed how much --------------------------------------------------------------

_stamps: list[tuple[float, int]] = []


class StampedBag:
    """Another bag, whose calls of ``process`` leave a stamp on the place where they are.

    Args:
        inner: The bag.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.work: int = inner.work

    def __len__(self) -> int:
        """Return the number of tasks that are held."""
        return len(self.inner)

    def process(self, n: int) -> bool:
        """Process about ``n`` tasks, and note when that was."""
        more = bool(self.inner.process(n))
        done, self.work = self.inner.work - self.work, self.inner.work
        _stamps.append((time.monotonic(), done))
        return more

    def split(self, all: bool) -> Self | None:
        """Move tasks to a new bag."""
        part = self.inner.split(all)
        return None if part is None else type(self)(part)

    def merge(self, other: Self) -> None:
        """Take over the other's tasks."""
        self.inner.merge(other.inner)

    def is_empty(self) -> bool:
        """Return whether no task is left."""
        return bool(self.inner.is_empty())

    def is_splittable(self) -> bool:
        """Return whether ``split`` would yield a bag."""
        return bool(self.inner.is_splittable())

    def submit(self, result: Any) -> None:
        """Fold the partial result into ``result``."""
        self.inner.submit(result)


def take_stamps() -> list[tuple[float, int]]:
    """Return the stamps of this place since the last call: s of the machine's monotonic clock, tasks."""
    taken = _stamps[:]
    del _stamps[: len(taken)]
    return taken
