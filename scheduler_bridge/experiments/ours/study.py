"""The experiment ``ours``: all policies on all workloads; which one for which, and what the own one is worth."""

from __future__ import annotations

import math
import zlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.patches import Rectangle

from scheduler_bridge.experiments import study
from scheduler_bridge.experiments.ours.cells import (
    COLUMNS,
    OTHERS,
    OWN,
    SEEDS,
    SHARES,
    WITHOUT,
    Trace,
    cells_of,
    simulated,
    traces,
    without,
)
from scheduler_bridge.experiments.real_workloads.cells import CORI_FILES, THETA_FILE, left_out
from scheduler_bridge.experiments.study_report import DataTable, Picture, StudyReport, Value, of_rows, there
from scheduler_bridge.experiments.sweep import Scale, Sweeping
from scheduler_bridge.report.charts import BarRow, Entry, sheet
from scheduler_bridge.report.words import plural

CONFIDENCE: Final = 95
_INTERVALS: Final = (
    f"Intervals are {CONFIDENCE} % percentile bootstraps over seeds; policies are compared seed by seed. A policy is "
    "named beside the best one where the interval of their ratio does not show that it is worse."
)
_BETTER: Final = (
    "A policy is better than another one if its mean turnaround and its mean wait are both lower, and its utilization "
    "is not lower by more than a point; differences up to 0.5 % are none. Waits are compared after adding 1 min."
)
_MODEL: Final = (
    "Walltimes are scaled where a job has another size than it asked for, and no job is killed. The first tenth of the "
    "submissions is warm-up, except in the batches. Malleable jobs have bounds by Amdahl's law (the rule "
    "amdahl); in KIT's twin and the Cirne form those of MEBF, of medium scalability. Resizes cost nothing, except in "
    "KIT's twin (MEBF's model, 10 s) and the batches (as measured with this project's runtime)."
)
_SD: Final = "sd-policy lets two jobs share a node of 48 cores, and does not resize; the others have nodes alone."
_NOT: Final = "easy-compat and malleable-compat repeat a published program with its faults, and are left out."
_TUNED: Final = (
    f"The parameters of {OWN} were chosen on the seeds 101 to 103 of Theta, KIT's twin, a twin of Cori Haswell, "
    "Lublin-Feitelson and the Cirne form, with other numbers of jobs; Cori KNL, Eagle, RICC and the batches were not "
    "looked at for it, nor was the log of Haswell, which counts as if it had been. Of a log there is one: its seeds "
    "draw which jobs are malleable."
)
_SHORT: Final = (
    "Small scale: short workloads and two seeds, so that the intervals are little more than both values; hardly "
    "anybody waits on the short cuts of logs and twins."
)


def run(data: Path | None, how: Sweeping) -> StudyReport:
    """Simulate what is not known yet and compare.

    At scale ``small`` there are short workloads, half of whose jobs are malleable, and two seeds; at ``full`` long ones
    and ten seeds.
    """
    found = traces(how.scale, data)
    cells = cells_of(SHARES[how.scale], SEEDS[how.scale], found)
    rows = how.rows(cells, partial(simulated, {trace.name: trace for trace in found}), COLUMNS)
    results = Results(rows)
    labels = {trace.name: trace.label for trace in found}
    figures = {
        "turnaround": draw_map(results, labels, "all_turnaround_s", "Mean turnaround"),
        "wait": draw_map(results, labels, "all_wait_s", "Mean wait + 1 min"),
        "trade": draw_trade(results),
        "ablation": draw_ablation(results),
    }
    tuned = {trace.name for trace in found if trace.tuned}
    over_all = [name for name in OTHERS if results.standing(results.workloads, name, OWN) == "better"]
    return StudyReport(
        "ours",
        "All policies on all workloads, and one of our own",
        _verdict(results, over_all),
        _remarks(found, how.scale),
        (which(results, labels), against(results, tuned), ablation(results), means(results, labels)),
        figures,
        passed=not over_all,
        provenance=of_rows(rows),
        data=there(data, (THETA_FILE, *CORI_FILES.values())),
    )


def _verdict(results: Results, over_all: Sequence[str]) -> str:
    there = [
        f"{name} on {trace} at {share} %"
        for trace, share in results.workloads
        for name in OTHERS
        if results.standing([(trace, share)], name, OWN) == "better"
    ]
    first = f"Over all workloads, {_listed(over_all)} better than {OWN} on both wait and turnaround."
    return f"{first} On single workloads: {_listed(there)}."


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "no policy is"
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _remarks(found: Sequence[Trace], scale: Scale) -> tuple[str, ...]:
    remarks = [_INTERVALS, _BETTER, _MODEL, _TUNED, _SD, _NOT]
    if (missing := left_out(trace.name for trace in found)) is not None:
        remarks.append(missing)
    if scale == "small":
        remarks.append(_SHORT)
    return tuple(remarks)


# Means over seeds with intervals, and one policy against another, seed by seed ---------------------------------------

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


class Results(study.Means):
    """Means with their intervals, and ratios seed by seed."""

    @cached_property
    def workloads(self) -> list[Workload]:
        """What was simulated."""
        return list(dict.fromkeys((trace, share) for trace, _, share in self.known()))

    def mean(self, workload: Workload, policy: str, column: str) -> Estimate | None:
        """The mean over seeds; None: there is no such number."""
        values = self._values(workload, policy, column).values()
        return estimate(tuple(values)) if values else None

    def ratio(self, workloads: Sequence[Workload], policy: str, base: str, column: str) -> Estimate | None:
        """The geometric mean, over workloads and seeds, of what ``policy`` has by what ``base`` has.

        A seed's ratio is the mean over the workloads, and the interval is over the seeds.
        """
        by_seed: dict[int, list[float]] = {}
        for workload in workloads:
            ours, theirs = self._values(workload, policy, column), self._values(workload, base, column)
            for seed, value in ours.items():
                if seed in theirs:
                    by_seed.setdefault(seed, []).append(_log_ratio(value, theirs[seed], column))
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

    def _values(self, workload: Workload, policy: str, column: str) -> dict[int, float]:
        trace, share = workload
        return self.by_seed(trace, policy, column, share)


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


# Tables --------------------------------------------------------------------------------------------------------------

EVERY: Final = (*OTHERS, OWN)
LOWER: Final[Mapping[str, str]] = {
    "all_turnaround_s": "turnaround, s",
    "all_wait_s": "wait, s",
    "all_slowdown": "bounded slowdown",
    "rigid_turnaround_s": "turnaround of rigid jobs, s",
    "malleable_turnaround_s": "turnaround of malleable jobs, s",
}
"""What should be low."""
_FEW: Final = 10.0


def best(results: Results, workload: Workload, column: str) -> list[str]:
    """Policies with the lowest mean, and those of which it is not known that they are higher: best first."""
    means = {name: mean.value for name in EVERY if (mean := results.mean(workload, name, column)) is not None}
    ranked = sorted(means, key=lambda name: (means[name], name))
    if not ranked:
        return []
    first = ranked[0]
    ratios = {name: results.ratio([workload], name, first, column) for name in ranked[1:]}
    return [first, *(name for name, of in ratios.items() if of is not None and of.low is not None and of.low <= 1.0)]


def which(results: Results, labels: Mapping[str, str]) -> DataTable:
    """Which policy for which workload."""
    rows: list[tuple[Value, ...]] = []
    for workload in results.workloads:
        cells = [_named(results, workload, column) for column in LOWER]
        rows.append((labels[workload[0]], workload[1], *cells))
    title = f"Which policy for which workload: the lowest mean with its {CONFIDENCE} % interval, and who is as good"
    return DataTable("which-policy", title, ("workload", "malleable %", *LOWER.values()), rows)


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
        ratios = [shown(results.ratio(results.workloads, OWN, name, column), 2) for column in LOWER]
        ratios += [shown(results.ratio(unseen, OWN, name, column), 2) for column in ("all_turnaround_s", "all_wait_s")]
        words = [results.standing([workload], name, OWN) for workload in results.workloads]
        counts = [words.count(word) for word in ("better", "mixed", "alike", "worse")]
        rows.append((name, *ratios, results.standing(results.workloads, name, OWN), *counts))
    columns = [f"{measure.removesuffix(', s')} x" for measure in LOWER.values()]
    columns += ["turnaround x, not tuned on", "wait x, not tuned on"]
    counted = ("it is, over all", "better on", "mixed on", "alike on", "worse on")
    title = f"{OWN} by the others: geometric mean of ratios over workloads; and how often the other is better on both"
    return DataTable("against", title, ("other policy", *columns, *counted), rows)


def ablation(results: Results) -> DataTable:
    """What each ingredient is worth."""
    measures = ("all_turnaround_s", "all_wait_s", "all_slowdown", "wait_max_s", "resizes")
    rows = tuple(
        (what, *(shown(results.ratio(results.workloads, without(what), OWN, name), 2) for name in measures))
        for what in WITHOUT
    )
    columns = ("with", "turnaround x", "wait x", "bounded slowdown x", "longest wait x", "resizes x")
    title = f"Each ingredient of {OWN} off: by what all of it gives, geometric mean over workloads"
    return DataTable("ablation", title, columns, rows)


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
    return DataTable("means", title, ("workload", "malleable %", "policy", *COLUMNS, *columns), rows)


# Figures -------------------------------------------------------------------------------------------------------------

_BASE: Final = "easy"
_RANGE: Final = (0.2, 2.0)
_DARK: Final = 0.62


def draw_map(results: Results, labels: Mapping[str, str], column: str, title: str) -> Picture:
    """A row a workload, a column a policy: its mean by that of EASY; the lowest of a row is framed."""
    rows, names = results.workloads, EVERY
    figure = sheet(1.9 + 0.36 * len(rows))
    figure.suptitle(f"{title}, by that under EASY (framed: the lowest)", fontweight="bold")
    axes = figure.subplots()
    ratios = [[results.ratio([row], name, _BASE, column) for name in names] for row in rows]
    table = np.array([[ratio and ratio.value for ratio in line] for line in ratios], dtype=float)  # None becomes NaN
    norm = TwoSlopeNorm(0.0, math.log(_RANGE[0]), math.log(_RANGE[1]))
    picture = axes.imshow(np.log(np.clip(table, *_RANGE)), cmap="RdBu_r", norm=norm, aspect="auto")
    for y, line in enumerate(table):
        for x, value in enumerate(line):
            if not math.isnan(value):
                strong = abs(float(norm(math.log(min(max(value, _RANGE[0]), _RANGE[1])))) - 0.5) * 2 > _DARK
                axes.text(x, y, f"{value:.2f}", ha="center", va="center", fontsize=8, color="w" if strong else "k")
        if not np.isnan(line).all():
            lowest = np.nanmin(line)
            for column_number in np.flatnonzero(line <= lowest * 1.0005).tolist():
                corner = column_number - 0.47, y - 0.45
                axes.add_patch(Rectangle(corner, 0.94, 0.9, fill=False, edgecolor="k", linewidth=1.6))
    axes.set_xticks(range(len(names)), names, rotation=35, ha="right", fontsize=9)
    axes.set_yticks(range(len(rows)), [f"{labels[name]}, {share} % malleable" for name, share in rows], fontsize=8)
    axes.get_xticklabels()[-1].set_fontweight("bold")
    bar = figure.colorbar(picture, ax=axes, shrink=0.9, ticks=[math.log(at) for at in (0.2, 0.35, 0.6, 1.0, 1.4, 2.0)])
    bar.ax.set_yticklabels(["0.2 or less", "0.35", "0.6", "1", "1.4", "2 or more"], fontsize=8)
    seeds = results.most_seeds()
    return Picture(
        figure,
        f"Means over {seeds} seeds by those under EASY, workload by workload; framed: the lowest of a row.",
        f"A map with a row for each workload and a column for each policy: {title.lower()} by that under EASY.",
    )


def draw_trade(results: Results) -> Picture:
    """Turnaround and wait over all workloads, against EASY's; the policy with the lowest turnaround comes first."""
    ratios = {name: results.ratio(results.workloads, name, _BASE, "all_turnaround_s") for name in EVERY}
    known = {name: ratio.value for name, ratio in ratios.items() if ratio is not None}
    names = sorted(known, key=lambda name: (known[name], name))
    finding = f"Turnaround is lowest under {names[0]}" if names else "Turnaround and wait"
    return _draw_changes(results, zip(names, names, strict=True), _BASE, finding, "left of the line, it is better")


def draw_ablation(results: Results) -> Picture:
    """What it costs to leave an ingredient out."""
    names = [(what, without(what)) for what in WITHOUT]
    return _draw_changes(
        results, names, OWN, f"{OWN} with an ingredient off", "right of the line, the ingredient helps"
    )


def _draw_changes(results: Results, names: Iterable[tuple[str, str]], base: str, finding: str, side: str) -> Picture:
    """How far geometric means are from those under a policy, in percent, with their intervals."""

    def entry(policy: str, column: str) -> Entry:
        ratio = results.ratio(results.workloads, policy, base, column)
        ends = (None, None, None) if ratio is None else (ratio.value, ratio.low, ratio.high)
        value, low, high = (None if end is None else 100 * (end - 1) for end in ends)
        return Entry(value, None if low is None or high is None else (low, high))

    columns = {"all_turnaround_s": "turnaround", "all_wait_s": "wait + 1 min"}
    over = f"geometric means over all workloads and {plural(results.most_seeds(), 'seed')}"
    return study.draw_bars(
        list(columns.values()),
        [BarRow(label, [entry(policy, column) for column in columns]) for label, policy in names],
        "{:+.1f} %".format,
        finding,
        f"Changes of {over} against {base}: {side}. Lines: {CONFIDENCE} % intervals.",
        f"{over.capitalize()}, with {CONFIDENCE} % intervals.",
        f"Two columns of bars, turnaround and wait against {base}: {side}.",
    )
