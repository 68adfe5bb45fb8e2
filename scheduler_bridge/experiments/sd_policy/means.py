"""Means over seeds of what was simulated, and changes against static backfill."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from scheduler_bridge.experiments.sd_policy.cells import LIMITS, STATIC, Jobs, replayed
from scheduler_bridge.experiments.sd_policy.traces import Trace
from scheduler_bridge.experiments.sweep import Row


class Means:
    """Means over seeds, by workload and policy."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            self._rows.setdefault((row.cell.trace, row.cell.policy), []).append(row)

    def known(self) -> list[tuple[str, str]]:
        """What there is: workload, policy."""
        return list(self._rows)

    def seeds(self, trace: str, policy: str) -> int:
        """How many simulations the means are of."""
        return len(self._rows.get((trace, policy), ()))

    def get(self, trace: str, policy: str, measure: str) -> float | None:
        """A mean; None: nothing was simulated."""
        values = [row.figures[measure] for row in self._rows.get((trace, policy), ())]
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if known else None

    def change(self, trace: str, policy: str, measure: str, before: str = STATIC) -> float | None:
        """The mean against that of another policy, in percent."""
        first, then = self.get(trace, before, measure), self.get(trace, policy, measure)
        return None if not first or then is None else 100 * (then / first - 1)

    def best(self, trace: str, measure: str) -> str | None:
        """The limit with the smallest mean, under the ideal model; None: one of them was not simulated."""
        values = {limit: self.get(trace, limit, measure) for limit in LIMITS}
        known = {limit: value for limit, value in values.items() if value is not None}
        return min(known, key=lambda limit: known[limit]) if len(known) == len(LIMITS) else None


# Gains of jobs and days [section 4.2, figures 4 to 7] ----------------------------------------------------------------
#
# Ratios by size and runtime of the jobs, and slowdowns by day.

LIMIT: Final = "10"
"""What the paper draws beside static backfill."""
SIZES: Final = (1, 2, 8, 32, 128, 512, 1024, math.inf)
"""Upper ends, in nodes [D: the paper names 512 and 1,024]."""
HOURS: Final = (1 / 6, 1, 4, 12, 24, math.inf)
"""Upper ends of runtimes on nodes of their own [D: the paper names 4 h, 12 h and a day]."""
FEW: Final = 20
"""A category of fewer jobs says nothing."""
CORNER: Final = (512, 4.0)
"""The small and short jobs of the paper: nodes, hours."""
_DAY_S: Final = 86_400.0
Kind: TypeAlias = Literal["slowdown", "runtime", "wait"]
KINDS: Final[tuple[Kind, ...]] = ("slowdown", "wait", "runtime")


@dataclass(frozen=True, slots=True)
class Category:
    """Jobs of like size and runtime, and the ratios of their means: static backfill by SD-Policy.

    Attributes:
        size: Index of its upper end in ``SIZES``.
        hours: Index of its upper end in ``HOURS``.
        jobs: How many there are.
        slowdown: Ratio of mean slowdowns; above 1, jobs gain.
        wait: Of mean waits; infinite where nobody waits any more, None where nobody has waited.
        runtime: Of mean runtimes; below 1, they run longer.
    """

    size: int
    hours: int
    jobs: int
    slowdown: float
    wait: float | None
    runtime: float

    @property
    def counts(self) -> bool:
        """Whether there are enough jobs."""
        return self.jobs >= FEW

    @property
    def is_small(self) -> bool:
        """Whether its jobs are those of which the paper says that they gain most."""
        return SIZES[self.size] <= CORNER[0] and HOURS[self.hours] <= CORNER[1]

    def ratio(self, kind: Kind) -> float | None:
        """One of its ratios."""
        return {"slowdown": self.slowdown, "wait": self.wait, "runtime": self.runtime}[kind]


@dataclass(frozen=True, slots=True)
class Day:
    """A day of submissions: its mean slowdowns, and how many of its jobs were started on nodes of others."""

    number: int
    static: float
    shared: float
    guests: int
    jobs: int


@dataclass(frozen=True, slots=True)
class Gains:
    """Who gains in a workload: its categories, by size and runtime, and its days."""

    trace: Trace
    categories: tuple[Category, ...]
    days: tuple[Day, ...]


def gains(trace: Trace, seed: int) -> Gains:
    """Compare static backfill with SD-Policy, job by job."""
    (static, _), (shared, _) = replayed(trace, STATIC, seed), replayed(trace, LIMIT, seed)
    return Gains(trace, categories(static, shared), days(static, shared))


def categories(static: Jobs, shared: Jobs) -> tuple[Category, ...]:
    """The categories that have jobs."""
    size = np.searchsorted(np.array(SIZES), static.nodes)
    hours = np.searchsorted(np.array(HOURS), static.static_s / 3600)
    found = []
    for row in range(len(SIZES)):
        for column in range(len(HOURS)):
            which = (size == row) & (hours == column)
            if which.any():
                before, after = static.wait_s[which].mean(), shared.wait_s[which].mean()
                wait = None if before == after == 0 else float(before / after) if after else math.inf
                slowdown = float(static.slowdown[which].mean() / shared.slowdown[which].mean())
                runtime = float(static.runtime_s[which].mean() / shared.runtime_s[which].mean())
                found.append(Category(row, column, int(which.sum()), slowdown, wait, runtime))
    return tuple(found)


def days(static: Jobs, shared: Jobs) -> tuple[Day, ...]:
    """The days on which jobs were submitted [D: a job counts on that day]."""
    day = np.floor((static.submit_s - static.submit_s.min()) / _DAY_S)
    found = []
    for number in np.unique(day):
        which = day == number
        before, after = (float(jobs.slowdown[which].mean()) for jobs in (static, shared))
        found.append(Day(int(number), before, after, int(shared.guest[which].sum()), int(which.sum())))
    return tuple(found)
