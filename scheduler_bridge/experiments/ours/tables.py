"""The tables of the experiment."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final

from scheduler_bridge.experiments.ours.cells import COLUMNS, OTHERS, OWN, WITHOUT, without
from scheduler_bridge.experiments.ours.results import CONFIDENCE, Estimate, Results, Workload
from scheduler_bridge.experiments.outcome import DataTable, Value

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
