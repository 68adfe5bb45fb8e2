"""Coarse tasks: naps, which use no core, so that a busy machine can measure them; and greedy list scheduling.

A greedy list schedule (Graham, "Bounds on multiprocessing timing anomalies", 1969) hands the tasks out one by one, in
the order of their numbers, to the worker that is free first. It knows all that is waiting at every moment, and moving
a task takes it no time.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from ..harness.ranges import RangeBag
from ..synthetic.plain import relative

if TYPE_CHECKING:
    from apgas import ResizeRecord

ALWAYS: Final = float("inf")


def durations(count: int, mean_s: float, variance: float) -> list[float]:
    """Return how long ``count`` naps are, in s: their sum is ``count * mean_s``.

    They are drawn from a lognormal distribution with ``variance``, in squared means; 0: all are the same.
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
    """Return from when and until when each place could begin tasks, in s since ``zero_s`` of the records' clock."""
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

    def _compute(self, first: int, last: int, partial: Naps) -> None:
        for number in range(first, last):
            time.sleep(self._problem[number])
            partial.numbers.append(number)
