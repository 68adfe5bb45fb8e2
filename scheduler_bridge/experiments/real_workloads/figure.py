"""The paper's figures: means by share of malleable jobs (6 to 9), and the machine over time (2 and 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from scheduler_bridge.experiments.outcome import Picture
from scheduler_bridge.experiments.real_workloads.cells import RIGID, STRATEGIES
from scheduler_bridge.experiments.real_workloads.claims import read_claims
from scheduler_bridge.experiments.real_workloads.means import change
from scheduler_bridge.report import words
from scheduler_bridge.report.charts import (
    INK,
    LINE_COLORS,
    MARKERS,
    Curve,
    draw_curves,
    mark_printed,
    name_ends,
    say,
)
from scheduler_bridge.report.sheet import OKABE_ITO, plain, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from scheduler_bridge.experiments.real_workloads.means import MeanTable

_MEANS: Final = {
    "turnaround_s": "turnaround, s",
    "wait_s": "wait, s",
    "runtime_s": "runtime, s",
    "utilization": "utilization, %",
}
_RESIZES: Final = {"expands": "expands per malleable job", "shrinks": "shrinks per malleable job"}
_POLICIES: Final = (RIGID, *STRATEGIES)
_NAMES: Final = {name: "easy, moldable" if name == RIGID else name for name in _POLICIES}
_STYLES: Final = dict(zip(_POLICIES, zip((INK, *LINE_COLORS), MARKERS, strict=False), strict=False))


def draw_means(means: MeanTable, trace: str, label: str, paper: str) -> Picture:
    """Four panels: means over jobs and seeds by share of malleable jobs; diamonds are what ``paper`` has."""
    best = means.choose(trace, "best", "any", "turnaround_s")
    gained = change(means.rigid(trace, "turnaround_s"), None if best is None else best[2])
    finding = f"{label}: means by share of malleable jobs"
    if best is not None and gained is not None:
        way = "shortens" if gained < 0 else "lengthens"
        finding = f"{label}: {best[0]} with {best[1]} % malleable jobs {way} turnaround by {abs(gained):.0f} %"
    theirs = [each["printed"] for each in read_claims()["change"] if _is_best(each, paper)]
    finding += f" (paper: {abs(theirs[0]):.0f} %)" if theirs and gained is not None and theirs[0] * gained > 0 else ""
    return _panels(means, trace, paper, _MEANS, finding)


def draw_resizes(means: MeanTable, trace: str, label: str, paper: str) -> Picture:
    """Two panels: expands and shrinks per malleable job by share of malleable jobs."""
    counts = {
        policy: sum(
            (means.get(trace, policy, share, "expands") or 0.0) + (means.get(trace, policy, share, "shrinks") or 0.0)
            for share in means.shares(trace)
        )
        for policy in STRATEGIES
    }
    most = max(counts, key=lambda policy: counts[policy])
    return _panels(means, trace, paper, _RESIZES, f"{label}: {most} resizes jobs most often")


def _is_best(claim: Mapping[str, Any], paper: str) -> bool:
    return (claim["trace"], claim["measure"], claim["after"][0]) == (paper, "turnaround_s", "best")


def _panels(means: MeanTable, trace: str, paper: str, measures: Mapping[str, str], finding: str) -> Picture:
    figure = sheet(3.6 * (len(measures) // 2) + 0.8)
    shares = means.shares(trace)
    named: dict[Axes, list[Curve]] = {}
    any_printed = False
    for axes, (measure, title) in zip(figure.subplots(len(measures) // 2, 2).flat, measures.items(), strict=True):
        named[axes] = _curves(means, trace, measure)
        draw_curves(axes, named[axes])
        for (policy, share), value in printed(means, trace, paper, measure).items():
            whose = f", {policy}" if share else ""
            mark_printed(axes, share, value, f"paper{whose}: {value:,.0f}")
            axes.set_ylim(top=max(axes.get_ylim()[1], 1.08 * value))
            any_printed = True
        axes.set_xticks([0, *shares])
        axes.set(xlabel="malleable jobs, %", ylabel=title)
    name_ends(figure, named)
    seeds = words.plural(means.most_seeds(trace), "seed")
    note = f"Means over jobs and {seeds}; easy starts malleable jobs on what is free."
    if any_printed:
        note += (
            " Diamonds: what the paper prints; changes from the rigid mean that is printed or else ours, "
            "the best of several at our best."
        )
    say(figure, finding, note)
    return Picture(
        figure,
        f"Means over jobs; seeds: {means.most_seeds(trace)}.",
        f"{finding}. Charts over the share of malleable jobs, by policy: {', '.join(measures.values())}.",
    )


def _curves(means: MeanTable, trace: str, measure: str) -> list[Curve]:
    """A line a policy; all begin at the mean of rigid jobs."""
    rigid = means.rigid(trace, measure) if measure not in _RESIZES else None
    found = []
    for policy in _POLICIES:
        if measure in _RESIZES and policy == RIGID:
            continue  # it never resizes
        points = [(0.0, rigid)] if rigid is not None else []
        points += [
            (share, value)
            for share in means.shares(trace)
            if (value := means.get(trace, policy, share, measure)) is not None
        ]
        color, marker = _STYLES[policy]
        found.append(Curve(_NAMES[policy], points, color, marker, hollow=policy == RIGID))
    return found


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
