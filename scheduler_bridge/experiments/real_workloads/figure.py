"""The paper's figures: means by share of malleable jobs (6 to 9), and the machine over time (2 and 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Final

from scheduler_bridge.experiments.outcome import Picture
from scheduler_bridge.experiments.real_workloads.cells import RIGID, STRATEGIES
from scheduler_bridge.experiments.real_workloads.claims import read_claims
from scheduler_bridge.report.groups import PRINTED, Bar, draw_groups, looks_of
from scheduler_bridge.report.palette import OKABE_ITO
from scheduler_bridge.report.sheet import plain, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from scheduler_bridge.experiments.real_workloads.means import MeanTable

_PANELS: Final = {
    "turnaround_s": "turnaround, s",
    "runtime_s": "runtime, s",
    "wait_s": "wait, s",
    "utilization": "utilization, %",
    "expands": "expands per malleable job",
    "shrinks": "shrinks per malleable job",
}
_POLICIES: Final = (RIGID, *STRATEGIES)
_NAMES: Final = {name: "easy, moldable" if name == RIGID else name for name in _POLICIES}
_LOOKS: Final = looks_of(_NAMES.values())


def draw_means(means: MeanTable, trace: str, label: str, paper: str) -> Picture:
    """Six panels: bars are means over jobs and seeds, lines the quartiles, diamonds what ``paper`` has."""
    figure = sheet(6.6)
    figure.suptitle(f"{label}: means over jobs, lines from the lower to the upper quartile", fontweight="bold")
    shares = means.shares(trace)
    for axes, (measure, title) in zip(figure.subplots(2, 3).flat, _PANELS.items(), strict=True):
        _bars(axes, means, trace, measure, printed(means, trace, paper, measure))
        axes.set_xticks(range(len(shares) + 1), ["0", *map(str, shares)])
        axes.set(xlabel="malleable jobs, %", ylabel=title, xlim=(-0.6, len(shares) + 0.6))
        plain(axes, grid="y")
    return Picture(
        figure,
        f"Bars: means over jobs; lines: from the lower to the upper quartile; seeds: {means.most_seeds(trace)}; "
        f"{PRINTED}, changes from the rigid mean that is printed or else ours, the best of several at our best.",
        f"{label}: six bar charts over the share of malleable jobs, by policy: turnaround, runtime, wait, utilization, "
        "and expands and shrinks per malleable job.",
    )


def printed(means: MeanTable, trace: str, paper: str, measure: str) -> dict[tuple[str, int], float]:
    """What the paper prints of a mean, by policy and share: what it says of the best of several, where ours is best."""
    claims = read_claims()
    known: float | None = claims["rigid"][paper].get(measure)
    rigid = means.rigid(trace, measure) if known is None else known
    found = {} if known is None else {(RIGID, 0): known}
    for claim in claims["change"]:
        if rigid is not None and (claim["trace"], claim["measure"]) == (paper, measure):
            best = means.choose(trace, claim["after"][0], claim["after"][1], measure)
            if best is not None:
                found[best[0], best[1]] = rigid * (1 + claim["printed"] / 100)
    return found


def _bars(axes: Axes, means: MeanTable, trace: str, measure: str, theirs: Mapping[tuple[str, int], float]) -> None:
    shares = means.shares(trace)
    groups = [
        [
            Bar(_NAMES[policy], value, means.spread(trace, policy, share, measure), theirs.get((policy, share)))
            for policy in _POLICIES
            if (value := means.get(trace, policy, share, measure)) is not None
        ]
        for share in (0, *shares)
    ]
    draw_groups(axes, groups, _LOOKS, named=len(shares))


def draw_time(points: Sequence[tuple[float, float, float]], label: str, window_s: tuple[float, float]) -> Picture:
    """Utilization and queue over time, all jobs rigid, under EASY; red lines are the ends of what counts."""
    figure = sheet(3.6)
    figure.suptitle(f"{label}: all jobs rigid, EASY", fontweight="bold")
    axes = figure.subplots()
    hours, used, queue = ([point[0] / 3600 for point in points], [p[1] for p in points], [p[2] for p in points])
    axes.plot(hours, used, color=OKABE_ITO[4], lw=1.0)
    axes.set(
        xlabel="hours since the first submission", ylabel="utilization, % (line)", ylim=(0, 105), xlim=(0, hours[-1])
    )
    for moment_s in window_s:
        axes.axvline(moment_s / 3600, color="#cc0000", lw=1.2)
    figure.text(0.995, 0.985, "between the red lines: what counts", ha="right", va="top", color="#cc0000", fontsize=9)
    plain(axes, grid="y")
    other = axes.twinx()
    other.fill_between(hours, queue, color=OKABE_ITO[2], alpha=0.45, lw=0, step="post")
    other.set(ylabel="jobs in the queue (area)", ylim=(0, max(1.0, 1.05 * max(queue))))
    other.spines["top"].set_visible(False)
    return Picture(
        figure,
        "One simulation: line, utilization; area, jobs in the queue; what lies between the red lines counts.",
        f"{label}, all jobs rigid, under EASY: utilization and the queue over time. On average {fmean(used):.0f} % of "
        f"the nodes are busy, at most {max(queue):,.0f} jobs wait.",
    )
