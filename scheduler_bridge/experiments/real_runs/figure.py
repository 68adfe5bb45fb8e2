"""The paper's figures 9 to 11 and the mean wait: measured, simulated, and what correct policies would have done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib.lines import Line2D

from scheduler_bridge.experiments.outcome import Picture
from scheduler_bridge.experiments.real_runs.compare import COMPAT, JUDGED, LIMIT, Comparison
from scheduler_bridge.report.palette import OKABE_ITO
from scheduler_bridge.report.sheet import plain, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from scheduler_bridge.experiments.real_runs.compare import Cell

_TITLES: Final = {
    "makespan_s": "makespan, s",
    "turnaround_s": "mean turnaround, s",
    "wait_s": "mean wait, s",
    "utilization": "utilization, %",
}
_COLORS: Final = dict(zip(COMPAT, (OKABE_ITO[4], OKABE_ITO[1], OKABE_ITO[2], OKABE_ITO[5]), strict=True))
_MARKERS: Final = dict(zip(COMPAT, "os^D", strict=True))


def draw_means(comparison: Comparison) -> Picture:
    """Means by share of malleable jobs: marks are measured, lines simulated, dotted ones the correct policies."""
    figure = sheet(7.4)
    figure.suptitle("240 real runs on 32 nodes: measured and simulated", fontsize=13, fontweight="bold")
    for axes, name in zip(figure.subplots(2, 2).flat, JUDGED, strict=True):
        for strategy in COMPAT:
            _line(axes, [cell for cell in comparison.compat if cell.strategy == strategy], name, correct=False)
            _line(axes, [cell for cell in comparison.correct if cell.strategy == strategy], name, correct=True)
        axes.set(xlabel="malleable jobs, %", ylabel=_TITLES[name])
        plain(axes)
    handles = [
        Line2D([], [], color=_COLORS[strategy], marker=_MARKERS[strategy], label=f"{strategy} ({policy})")
        for strategy, policy in COMPAT.items()
    ]
    handles += [
        Line2D([], [], color="#555555", marker="o", ls="", label="measured"),
        Line2D([], [], color="#555555", ls="-", label="simulated as published"),
        Line2D([], [], color="#555555", ls=":", label="simulated, correct policy"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return Picture(
        figure,
        f"Means over the batches; {_runs(comparison)} real runs, each simulated {comparison.replicas} times.",
        "Four charts over the share of malleable jobs: makespan, mean turnaround, mean wait and utilization under four "
        f"policies, measured and simulated. {_within(comparison)}",
    )


def _runs(comparison: Comparison) -> int:
    return sum(len(cell.runs) for cell in comparison.compat)


def _within(comparison: Comparison) -> str:
    inside, judged = comparison.within()
    return f"{inside} of {judged} simulated means are within {LIMIT:g} % of the measured ones."


def _line(axes: Axes, cells: list[Cell], name: str, *, correct: bool) -> None:
    if not cells:
        return
    color, strategy = _COLORS[cells[0].strategy], cells[0].strategy
    shares = [cell.share for cell in cells]
    means = [cell.means(name) for cell in cells]
    axes.plot(shares, [ours or 0 for _, ours in means], color=color, ls=":" if correct else "-", lw=1.6)
    if not correct:
        known = [(share, real) for share, (real, _) in zip(shares, means, strict=True) if real is not None]
        axes.plot(*zip(*known, strict=True), color=color, marker=_MARKERS[strategy], ls="", ms=6)


def draw_batches(comparison: Comparison) -> Picture:
    """Each run: simulated over measured makespan and turnaround; hollow marks have a job whose resize failed."""
    figure = sheet(5.2)
    figure.suptitle("Run by run: simulated over measured", fontsize=13, fontweight="bold")
    for axes, name in zip(figure.subplots(1, 2).flat, ("makespan_s", "turnaround_s"), strict=True):
        ends: list[float] = []
        for cell in comparison.compat:
            color = _COLORS[cell.strategy]
            for real, ours, broken in zip(cell.real, cell.ours, cell.broken, strict=True):
                point = getattr(real, name), getattr(ours, name)
                ends += point
                face = "none" if broken else color
                axes.plot(*point, _MARKERS[cell.strategy], mec=color, mfc=face, ms=5, alpha=0.8, mew=1)
        low, high = min(ends) * 0.95, max(ends) * 1.05
        axes.plot([low, high], [low, high], color="#333333", lw=1)
        axes.fill_between([low, high], [low * 0.95, high * 0.95], [low * 1.05, high * 1.05], color="#dddddd", lw=0)
        axes.set(xlim=(low, high), ylim=(low, high), xlabel=f"measured {_TITLES[name]}", aspect="equal")
        axes.set_ylabel(f"simulated {_TITLES[name]}")
        plain(axes)
    handles = [
        Line2D([], [], color=_COLORS[strategy], marker=_MARKERS[strategy], ls="", label=strategy) for strategy in COMPAT
    ]
    handles.append(Line2D([], [], color="#555555", marker="o", mfc="none", ls="", label="with a failed resize"))
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return Picture(
        figure,
        f"One mark a run, {_runs(comparison)} runs; the band is {LIMIT:g} % wide to both sides.",
        "Two scatter charts, makespan and turnaround: simulated over measured seconds of each run.",
    )
