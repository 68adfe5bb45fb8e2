"""The paper's figures: turnaround (7 to 9, 12, 16), slowdown (13 to 15), utilization (10, 11), events (6, Table 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from scheduler_bridge.experiments.mebf.cells import EBF, EXPANDS, SCALABILITIES
from scheduler_bridge.experiments.mebf.claims import read_claims
from scheduler_bridge.experiments.mebf.means import EVENTS, EXPAND_SIZES, Means
from scheduler_bridge.experiments.mebf.over_time import HOURS, STEP_H, column
from scheduler_bridge.experiments.mebf.tables import OVER_TIME
from scheduler_bridge.experiments.outcome import Picture
from scheduler_bridge.report.groups import PRINTED, Bar, draw_groups, looks_of
from scheduler_bridge.report.sheet import plain, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POLICIES: Final = (EBF, *EXPANDS, "shrink+", "expand+")
_LABELS: Final = {EBF: "easy, rigid", "shrink+": "handoff, shrink+", "expand+": "handoff, expand+"}
_NAMES: Final = {name: _LABELS.get(name, name) for name in _POLICIES}
_LOOKS: Final = looks_of(_NAMES.values())
_MS: Final = "1k intensive medium full"
_SYNTHETIC: Final = "twins of KIT's workload, synthetic"
_SCALED: Final = [(f"intensive\n{name}", name) for name in SCALABILITIES]
_JOBS: Final = {"1k": "1,000 jobs", "5k": "5,000 jobs"}
_Group = tuple[str, str, int]
"""A label, a variant, a share of malleable jobs in percent."""


def draw_turnarounds(means: Means) -> Picture:
    """Four panels: 1,000 jobs, 5,000 jobs, shares of malleable jobs and a wrong model, overheads."""
    figure = sheet(7.2)
    figure.suptitle(f"Mean turnaround, s ({_SYNTHETIC})", fontweight="bold")
    panels = figure.subplots(2, 2).flat
    for size, title in _JOBS.items():
        groups = [("normal\nlow", f"{size} normal low full", 100), *_intensive(size)]
        _panel(next(panels), means, groups, f"{title}, full overhead", named=3 if size == "1k" else None)
    groups = [(f"{share} %", _MS, share) for share in (40, 60, 80, 100)]
    groups.append(("100 %,\nwrong model", f"{_MS} error", 100))
    _panel(next(panels), means, groups, "1,000 jobs, intensive, medium: share of malleable jobs")
    groups = [(f"{name} overhead", f"5k intensive high {name}", 100) for name in ("full", "half")]
    _panel(next(panels), means, groups, "5,000 jobs, intensive, high: overhead", named=1)
    return _picture(
        figure,
        means,
        "Four bar charts of mean turnaround in seconds, by policy: 1,000 and 5,000 jobs at a normal and an intensive "
        "load with low, medium and high scalability; shares of malleable jobs from 40 to 100 % and a wrong "
        "model; full and half overhead.",
        f"; {PRINTED}: the printed change, from our easy",
    )


def draw_slowdowns(means: Means) -> Picture:
    """Two panels, by size: slowdown by scalability, with shrink+ and expand+ [figures 13 to 15]."""
    figure = sheet(4.2)
    figure.suptitle(f"Slowdown: mean turnaround by mean runtime without resizes ({_SYNTHETIC})", fontweight="bold")
    for axes, (size, title) in zip(figure.subplots(1, 2).flat, _JOBS.items(), strict=True):
        groups = [*_intensive(size), ("normal\nmedium", f"{size} normal medium full", 100)]
        _panel(axes, means, groups, title, "slowdown", named=2)
    alt = "Two bar charts of slowdown by scalability and policy, of 1,000 and 5,000 jobs."
    return _picture(figure, means, alt)


def draw_utilizations(means: Means) -> Picture:
    """Two panels, by size: utilization by scalability [figure 10]."""
    figure = sheet(4.2)
    figure.suptitle(f"Utilization, % of all nodes ({_SYNTHETIC})", fontweight="bold")
    for axes, (size, title) in zip(figure.subplots(1, 2).flat, _JOBS.items(), strict=True):
        _panel(axes, means, _intensive(size), title, "utilization", named=2)
        axes.set_yticks(range(0, 101, 20))
    alt = "Two bar charts of utilization by scalability and policy, of 1,000 and 5,000 jobs."
    return _picture(figure, means, alt)


def draw_events(means: Means) -> Picture:
    """How events divide into kinds [Table 5], and expands by the size of the jobs [figure 6], in 1,000 jobs."""
    figure = sheet(4.2)
    figure.suptitle(f"1,000 jobs, intensive, medium: shares of events, % ({_SYNTHETIC})", fontweight="bold")
    titles = ("all events, by kind", "expands, by the nodes that the job asked for")
    panels = figure.subplots(1, 2).flat
    for axes, names, title in zip(panels, ({kind: kind for kind in EVENTS}, EXPAND_SIZES), titles, strict=True):
        by_policy = {policy: means.shares(_MS, policy, tuple(names)) for policy in EXPANDS}
        bars = [[Bar(policy, found[at]) for policy, found in by_policy.items() if found] for at in range(len(names))]
        _finish(axes, bars, list(names.values()), title, named=len(names) - 1)
    alt = "Two bar charts: how events divide into shrinks, expands and backfills, and expands by the size of jobs."
    return _picture(figure, means, alt)


def draw_over_time(means: Means) -> Picture:
    """Utilization by hours, a line for each policy [figure 11]."""
    figure = sheet(4.2)
    figure.suptitle(f"1,000 jobs, intensive, high: utilization over time, % of all nodes ({_SYNTHETIC})", weight="bold")
    axes = figure.subplots()
    middles = [hour + STEP_H / 2 for hour in HOURS]
    for policy, marker in zip((EBF, *EXPANDS), "osD^", strict=True):
        values = [means.get(OVER_TIME, policy, column(hour)) for hour in HOURS]
        if (known := [value for value in values if value is not None]) and len(known) == len(values):
            axes.plot(middles, known, color=_LOOKS[_NAMES[policy]].color, marker=marker, ms=4, label=_NAMES[policy])
    axes.set(xlabel="hours since the beginning", ylim=(0, 102), xlim=(0, HOURS[-1] + STEP_H))
    axes.set_xticks(range(0, HOURS[-1] + STEP_H + 1, 12))
    plain(axes)
    if axes.lines:
        axes.legend(frameon=False)
    return Picture(
        figure,
        f"Points: means over {STEP_H} hours and {means.twins()} twins.",
        "Four lines: utilization over time under EASY with rigid jobs, handoff, spare and intensive.",
    )


DRAWN: Final[dict[str, Callable[[Means], Picture]]] = {
    "turnaround": draw_turnarounds,
    "slowdown": draw_slowdowns,
    "utilization": draw_utilizations,
    "over-time": draw_over_time,
    "events": draw_events,
}
"""All figures, by name."""


def _intensive(size: str) -> list[_Group]:
    return [(label, f"{size} intensive {name} full", 100) for label, name in _SCALED]


def _panel(
    axes: Axes,
    means: Means,
    groups: Sequence[_Group],
    title: str,
    measure: str = "turnaround_s",
    *,
    named: int | None = None,
) -> None:
    bars = [
        [
            Bar(label, value, printed=_printed(means, variant, policy, share, measure))
            for policy, label in _NAMES.items()
            if (value := means.get(variant, policy, measure, share)) is not None
        ]
        for _, variant, share in groups
    ]
    _finish(axes, bars, [label for label, *_ in groups], title, named=named)


def _finish(
    axes: Axes, bars: Sequence[Sequence[Bar]], labels: Sequence[str], title: str, *, named: int | None = None
) -> None:
    draw_groups(axes, bars, _LOOKS, named=named)
    axes.set_xticks(range(len(labels)), labels)
    axes.set_title(title, fontsize=10)
    plain(axes, "y")


def _printed(means: Means, variant: str, policy: str, share: int, measure: str) -> float | None:
    """What our mean would be with the printed change; None: none is printed."""
    rigid = means.get(variant, EBF, measure)
    for claim in read_claims()["gain"]:
        of = (claim["variant"], claim["policy"], claim.get("share", 100), claim.get("measure", "turnaround_s"))
        if rigid is not None and of == (variant, policy, share, measure):
            return rigid * (1 + float(claim["printed"]) / 100)
    return None


def _picture(figure: Figure, means: Means, alt: str, more: str = "") -> Picture:
    return Picture(figure, f"Bars: means over jobs and {means.twins()} twins{more}.", alt)
