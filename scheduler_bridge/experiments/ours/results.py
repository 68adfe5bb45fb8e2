"""Means over seeds with intervals, and one policy against another, seed by seed."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import numpy as np

from scheduler_bridge.experiments.sweep import Row

CONFIDENCE: Final = 95
_SAMPLES: Final = 5000
_ALIKE: Final = 0.005
"""Ratios so close to 1 count as equal."""
_SHORT_S: Final = 60.0
"""Added to waits before they are compared: whether somebody waits 0 or 2 s matters to nobody."""
_POINTS: Final = 1.0
"""Utilizations so close count as equal, in points."""
Workload: TypeAlias = tuple[str, int]
"""A trace and a share of malleable jobs in percent."""
Standing: TypeAlias = Literal["better", "worse", "mixed", "alike"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds.

    Attributes:
        value: The mean (of ratios: the geometric one).
        low: Lower end of its interval by the percentile bootstrap over seeds; None: there is one seed only.
        high: Upper end.
    """

    value: float
    low: float | None
    high: float | None

    def excludes(self, value: float) -> bool:
        """Whether the interval lies on one side of ``value``."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high


class Results:
    """What was simulated, by workload, policy and seed."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._figures = {
            ((row.cell.trace, row.cell.share), row.cell.policy, row.cell.seed): row.figures for row in rows
        }
        self.workloads: list[Workload] = list(dict.fromkeys(key[0] for key in self._figures))
        self._seeds: dict[tuple[Workload, str], list[int]] = {}
        for workload, policy, seed in self._figures:
            self._seeds.setdefault((workload, policy), []).append(seed)

    @property
    def seeds(self) -> int:
        """How many there are, at most."""
        return max(map(len, self._seeds.values()), default=0)

    def mean(self, workload: Workload, policy: str, column: str) -> Estimate | None:
        """The mean over seeds; None: there is no such number."""
        values = [value for value in self._values(workload, policy, column).values() if value is not None]
        return estimate(tuple(values)) if values else None

    def ratio(self, workloads: Sequence[Workload], policy: str, base: str, column: str) -> Estimate | None:
        """The geometric mean, over workloads and seeds, of what ``policy`` has by what ``base`` has.

        A seed's ratio is the mean over the workloads, and the interval is over the seeds.
        """
        by_seed: dict[int, list[float]] = {}
        for workload in workloads:
            ours, theirs = self._values(workload, policy, column), self._values(workload, base, column)
            for seed, value in ours.items():
                other = theirs.get(seed)
                if value is not None and other is not None:
                    by_seed.setdefault(seed, []).append(_log_ratio(value, other, column))
        logs = tuple(sum(of) / len(of) for of in by_seed.values())
        if not logs:
            return None
        found = estimate(logs)
        low, high = (None if end is None else math.exp(end) for end in (found.low, found.high))
        return Estimate(math.exp(found.value), low, high)

    def standing(self, workloads: Sequence[Workload], policy: str, base: str) -> Standing:
        """How ``policy`` does against ``base`` on mean turnaround and wait; better ones must use as many nodes."""
        found = [self.ratio(workloads, policy, base, f"all_{name}") for name in ("turnaround_s", "wait_s")]
        ratios = [one.value for one in found if one is not None]
        if len(ratios) < 2 or all(abs(ratio - 1) <= _ALIKE for ratio in ratios):
            return "alike"
        if all(ratio <= 1 + _ALIKE for ratio in ratios):
            return "better" if self._more_used(workloads, policy, base) >= -_POINTS else "mixed"
        return "worse" if all(ratio >= 1 - _ALIKE for ratio in ratios) else "mixed"

    def _more_used(self, workloads: Sequence[Workload], policy: str, base: str) -> float:
        """By how many points utilization is higher, on average."""
        pairs = [[self.mean(one, name, "utilization") for name in (policy, base)] for one in workloads]
        known = [ours.value - theirs.value for ours, theirs in pairs if ours is not None and theirs is not None]
        return sum(known) / len(known) if known else 0.0

    def _values(self, workload: Workload, policy: str, column: str) -> dict[int, float | None]:
        seeds = self._seeds.get((workload, policy), ())
        return {seed: self._figures[workload, policy, seed][column] for seed in seeds}


@lru_cache(maxsize=100_000)
def estimate(values: tuple[float, ...]) -> Estimate:
    """The mean of values with its interval; the same values always give the same."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return Estimate(mean, None, None)
    rng = np.random.default_rng(zlib.crc32(repr(values).encode()))
    means = np.array(values)[rng.integers(0, len(values), (_SAMPLES, len(values)))].mean(axis=1)
    rest = (100 - CONFIDENCE) / 2
    low, high = (float(end) for end in np.percentile(means, (rest, 100 - rest)))
    return Estimate(mean, low, high)


def _log_ratio(ours: float, theirs: float, column: str) -> float:
    short = _SHORT_S if "wait" in column else 0.0
    return math.log((ours + short) / (theirs + short)) if ours + short > 0 and theirs + short > 0 else 0.0
