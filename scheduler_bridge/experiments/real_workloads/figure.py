"""The paper's figures: means by share of malleable jobs (6 to 9), and the machine over time (2 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from scheduler_bridge.experiments.real_workloads.cells import RIGID, STRATEGIES
from scheduler_bridge.report.palette import OKABE_ITO

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
_COLORS: Final = dict(
    zip(_POLICIES, (OKABE_ITO[4], OKABE_ITO[1], OKABE_ITO[2], OKABE_ITO[0], OKABE_ITO[6]), strict=True)
)
_WIDTH: Final = 0.8


def draw_means(means: MeanTable, trace: str, label: str) -> Figure:
    """Six panels: bars are means over jobs and seeds, lines the quartiles."""
    figure = Figure(figsize=(11.0, 6.6), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{label}: means over jobs, lines from the lower to the upper quartile", fontweight="bold")
    shares = means.shares(trace)
    for axes, (measure, title) in zip(figure.subplots(2, 3).flat, _PANELS.items(), strict=True):
        _bars(axes, means, trace, measure, shares)
        axes.set_xticks(range(len(shares) + 1), ["0", *map(str, shares)])
        axes.set(xlabel="malleable jobs, %", ylabel=title, xlim=(-0.6, len(shares) + 0.6))
        _plain(axes)
    handles = [
        Patch(color=_COLORS[name], label=name if name != RIGID else "easy (malleable jobs moldable)")
        for name in _POLICIES
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return figure


def _bars(axes: Axes, means: MeanTable, trace: str, measure: str, shares: Sequence[int]) -> None:
    width = _WIDTH / len(_POLICIES)
    for place, share in enumerate((0, *shares)):
        for number, policy in enumerate(_POLICIES):
            value = means.get(trace, policy, share, measure)
            if value is None:
                continue
            at = place if share == 0 else place - _WIDTH / 2 + width * (number + 0.5)
            axes.bar(at, value, width, color=_COLORS[policy])
            if spread := means.spread(trace, policy, share, measure):
                axes.plot([at, at], spread, color="#222222", lw=0.9)


def draw_time(points: Sequence[tuple[float, float, float]], label: str, window_s: tuple[float, float]) -> Figure:
    """Utilization and queue over time, all jobs rigid, under EASY; red lines are the ends of what counts."""
    figure = Figure(figsize=(11.0, 3.6), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{label}: all jobs rigid, EASY", fontweight="bold")
    axes = figure.subplots()
    hours, used, queue = ([point[0] / 3600 for point in points], [p[1] for p in points], [p[2] for p in points])
    axes.plot(hours, used, color=OKABE_ITO[4], lw=1.0)
    axes.set(xlabel="hours", ylabel="utilization, % (line)", ylim=(0, 105), xlim=(0, hours[-1]))
    for moment_s in window_s:
        axes.axvline(moment_s / 3600, color="#cc0000", lw=1.2)
    _plain(axes)
    other = axes.twinx()
    other.fill_between(hours, queue, color=OKABE_ITO[2], alpha=0.45, lw=0, step="post")
    other.set(ylabel="jobs in the queue (area)", ylim=(0, max(1.0, 1.05 * max(queue))))
    other.spines["top"].set_visible(False)
    return figure


def _plain(axes: Axes) -> None:
    axes.grid(visible=True, axis="y", color="#e4e4e4", lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
