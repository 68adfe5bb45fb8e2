"""Means over seeds with intervals, and one policy against another, seed by seed."""

from __future__ import annotations

import math
import zlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import numpy as np

from scheduler_bridge.experiments.ours.cells import COLUMNS, OTHERS, OWN, WITHOUT, without
from scheduler_bridge.experiments.outcome import DataTable, Value
from scheduler_bridge.experiments.sweep import Row

CONFIDENCE: Final = 95
_SAMPLES: Final = 5000
_ALIKE: Final = 0.005
"""Ratios that are no farther from 1 count as equal."""
_SHORT_S: Final = 60.0
"""Added to waits before they are compared: a wait of 0 or of 2 s makes no difference to users."""
_POINTS: Final = 1.0
"""Utilizations that differ by no more count as equal, in points."""
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


# The tables of the experiment ----------------------------------------------------------------------------------------

EVERY: Final = (*OTHERS, OWN)
LOWER: Final[Mapping[str, str]] = {
    "all_turnaround_s": "turnaround, s",
    "all_wait_s": "wait, s",
    "all_slowdown": "bounded slowdown",
    "rigid_turnaround_s": "turnaround of rigid jobs, s",
    "malleable_turnaround_s": "turnaround of malleable jobs, s",
}
"""What should be low."""
_RATIOS: Final = ("all_turnaround_s", "all_wait_s", "all_slowdown", "rigid_turnaround_s", "malleable_turnaround_s")
_FEW: Final = 10.0


def best(results: Results, workload: Workload, column: str, policies: Sequence[str] = EVERY) -> list[str]:
    """Policies with the lowest mean, and those of which it is not known that they are higher: best first."""
    means = {name: mean.value for name in policies if (mean := results.mean(workload, name, column)) is not None}
    ranked = sorted(means, key=lambda name: (means[name], name))
    if not ranked:
        return []
    first = ranked[0]
    return [first, *(name for name in ranked[1:] if _as_good(results.ratio([workload], name, first, column)))]


def _as_good(ratio: Estimate | None) -> bool:
    return ratio is not None and (ratio.low is not None and ratio.low <= 1.0)


def which(results: Results, labels: Mapping[str, str]) -> DataTable:
    """Which policy for which workload."""
    rows: list[tuple[Value, ...]] = []
    for workload in results.workloads:
        cells = [_named(results, workload, column) for column in LOWER]
        rows.append((labels[workload[0]], workload[1], *cells))
    title = f"Which policy for which workload: the lowest mean with its {CONFIDENCE} % interval, and who is as good"
    return DataTable("which-policy", title, ("workload", "malleable %", *LOWER.values()), tuple(rows))


def _named(results: Results, workload: Workload, column: str) -> str:
    if not (names := best(results, workload, column)):
        return "-"
    mean = results.mean(workload, names[0], column)
    text = f"{names[0]}: {shown(mean)}"
    if not (more := names[1:]):
        return text
    return f"{text}; also {', '.join(more)}" if len(more) < 4 else f"{text}; also {len(more)} others"


def shown(estimate: Estimate | None, digits: int | None = None) -> str:
    """A mean with its interval."""
    if estimate is None:
        return "-"
    digits = (2 if estimate.value < _FEW else 0) if digits is None else digits
    text = f"{estimate.value:,.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} ({estimate.low:,.{digits}f} to {estimate.high:,.{digits}f})"


def against(results: Results, tuned: Container[str]) -> DataTable:
    """The own policy against every other one, over all workloads, and over those whose traces are not ``tuned`` on."""
    unseen = [workload for workload in results.workloads if workload[0] not in tuned]
    rows: list[tuple[Value, ...]] = []
    for name in OTHERS:
        ratios = [shown(results.ratio(results.workloads, OWN, name, column), 2) for column in _RATIOS]
        ratios += [shown(results.ratio(unseen, OWN, name, column), 2) for column in _RATIOS[:2]]
        words = [results.standing([workload], name, OWN) for workload in results.workloads]
        counts = [words.count(word) for word in ("better", "mixed", "alike", "worse")]
        rows.append((name, *ratios, results.standing(results.workloads, name, OWN), *counts))
    columns = [f"{LOWER[column].removesuffix(', s')} x" for column in _RATIOS]
    columns += ["turnaround x, not tuned on", "wait x, not tuned on"]
    counted = ("it is, over all", "better on", "mixed on", "alike on", "worse on")
    title = f"{OWN} by the others: geometric mean of ratios over workloads; and how often the other is better on both"
    return DataTable("against", title, ("other policy", *columns, *counted), tuple(rows))


def ablation(results: Results) -> DataTable:
    """What each ingredient is worth."""
    rows: list[tuple[Value, ...]] = []
    for what in WITHOUT:
        name = without(what)
        measures = (*_RATIOS[:3], "wait_max_s", "resizes")
        ratios = [shown(results.ratio(results.workloads, name, OWN, measure), 2) for measure in measures]
        rows.append((what, *ratios))
    columns = ("with", "turnaround x", "wait x", "bounded slowdown x", "longest wait x", "resizes x")
    title = f"Each ingredient of {OWN} off: by what all of it gives, geometric mean over workloads"
    return DataTable("ablation", title, columns, tuple(rows))


def means(results: Results, labels: Mapping[str, str]) -> DataTable:
    """Every mean, with the ends of its interval for those that matter most."""
    rows: list[tuple[Value, ...]] = []
    both = ("all_turnaround_s", "all_wait_s", "utilization")
    for workload in results.workloads:
        for name in (*EVERY, *(without(what) for what in WITHOUT)):
            found = [results.mean(workload, name, column) for column in COLUMNS]
            ends: list[Value] = []
            for column in both:
                mean = results.mean(workload, name, column)
                ends += [None, None] if mean is None else [mean.low, mean.high]
            values = [None if one is None else one.value for one in found]
            rows.append((labels[workload[0]], workload[1], name, *values, *ends))
    columns = tuple(f"{column}, {end}" for column in both for end in ("low", "high"))
    title = f"Means over seeds; low and high are the ends of {CONFIDENCE} % intervals"
    return DataTable("means", title, ("workload", "malleable %", "policy", *COLUMNS, *columns), tuple(rows))
