"""Which policy for which workload, at a glance; and what the own policy's ingredients are worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.patheffects import withStroke

from scheduler_bridge.experiments.ours.cells import OWN, WITHOUT, without
from scheduler_bridge.experiments.ours.results import EVERY
from scheduler_bridge.experiments.outcome import Picture
from scheduler_bridge.report.sheet import OKABE_ITO, plain, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

    from scheduler_bridge.experiments.ours.results import Estimate, Results

_BASE: Final = "easy"
_RANGE: Final = (0.2, 2.0)
_DARK: Final = 0.62
_LINE: Final = 0.042
"""Of a name, as a part of the height."""


def draw_map(results: Results, labels: Mapping[str, str], column: str, title: str) -> Picture:
    """A row a workload, a column a policy: its mean by that of EASY; the lowest of a row is framed."""
    rows, names = results.workloads, EVERY
    figure = sheet(1.9 + 0.36 * len(rows))
    figure.suptitle(f"{title}, by that under EASY (framed: the lowest)", fontweight="bold")
    axes = figure.subplots()
    table = np.array([[_value(results.ratio([row], name, _BASE, column)) for name in names] for row in rows])
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
                axes.add_patch(_frame(column_number, y))
    axes.set_xticks(range(len(names)), names, rotation=35, ha="right", fontsize=9)
    axes.set_yticks(range(len(rows)), [f"{labels[name]}, {share} % malleable" for name, share in rows], fontsize=8)
    axes.get_xticklabels()[-1].set_fontweight("bold")
    bar = figure.colorbar(picture, ax=axes, shrink=0.9, ticks=[math.log(at) for at in (0.2, 0.35, 0.6, 1.0, 1.4, 2.0)])
    bar.ax.set_yticklabels(["0.2 or less", "0.35", "0.6", "1", "1.4", "2 or more"], fontsize=8)
    return Picture(
        figure,
        f"Means over {results.seeds} seeds by those under EASY, workload by workload; framed: the lowest of a row.",
        f"A map with a row for each workload and a column for each policy: {title.lower()} by that under EASY.",
    )


def _frame(x: float, y: float) -> Patch:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.47, y - 0.45), 0.94, 0.9, fill=False, edgecolor="k", linewidth=1.6)


def draw_trade(results: Results) -> Picture:
    """Wait against turnaround over all workloads, by EASY's; the lower left is best."""
    figure = sheet(5.4, 8.6)
    figure.suptitle("All workloads: geometric means, by those under EASY", fontweight="bold")
    axes = figure.subplots()
    places: list[tuple[float, float, str]] = []
    for name in EVERY:
        wait = results.ratio(results.workloads, name, _BASE, "all_wait_s")
        turnaround = results.ratio(results.workloads, name, _BASE, "all_turnaround_s")
        if wait is None or turnaround is None:
            continue
        color = OKABE_ITO[5] if name == OWN else OKABE_ITO[4]
        axes.errorbar(
            wait.value, turnaround.value, xerr=_arms(wait), yerr=_arms(turnaround), fmt="o", color=color, lw=0.9, ms=5
        )
        places.append((turnaround.value, wait.value, name))
    axes.set(xlabel="wait + 1 min, by EASY's", ylabel="turnaround, by EASY's")
    axes.margins(x=0.14, y=0.06)
    _name(axes, sorted(places))
    plain(axes)
    return Picture(
        figure,
        f"Geometric means over all workloads and {results.seeds} seeds, with confidence intervals.",
        f"Wait against turnaround of every policy, both by those under EASY; the lower left is best. {OWN} is at "
        f"{_point(results, 'all_wait_s')} and {_point(results, 'all_turnaround_s')}.",
    )


def _point(results: Results, column: str) -> str:
    ratio = results.ratio(results.workloads, OWN, _BASE, column)
    return "-" if ratio is None else f"{ratio.value:.2f}"


def _name(axes: Axes, places: Sequence[tuple[float, float, str]]) -> None:
    """Write names beside points, from the lowest up, none over another."""
    left, right = axes.get_xlim()
    low, high = axes.get_ylim()
    above = low
    for y, x, name in places:
        above = max(y, above + _LINE * (high - low))
        axes.annotate(
            name,
            (x, y),
            (x + 0.03 * (right - left), above),
            va="center",
            fontsize=9,
            fontweight="bold" if name == OWN else "normal",
            arrowprops={"arrowstyle": "-", "lw": 0.4, "color": "#777777"},
            path_effects=[withStroke(linewidth=2.5, foreground="white")],  # intervals do not strike names out
            zorder=5,
        )


def draw_ablation(results: Results) -> Picture:
    """What it costs to leave an ingredient out."""
    figure = sheet(3.4, 8.6)
    figure.suptitle(f"{OWN} with an ingredient off, by {OWN} (right of 1: it helps)", fontweight="bold")
    panels = figure.subplots(1, 2, sharey=True)
    measures = (("all_turnaround_s", "turnaround"), ("all_wait_s", "wait + 1 min"))
    for axes, (column, label) in zip(panels, measures, strict=True):
        for y, what in enumerate(WITHOUT):
            if (ratio := results.ratio(results.workloads, without(what), OWN, column)) is not None:
                axes.errorbar(ratio.value, y, xerr=_arms(ratio), fmt="o", color=OKABE_ITO[5], lw=1.2, capsize=3)
        axes.axvline(1.0, color="#777777", lw=0.8)
        axes.set_yticks(range(len(WITHOUT)), list(WITHOUT))
        axes.set(xlabel=label, ylim=(len(WITHOUT) - 0.5, -0.5))
        plain(axes)
    return Picture(
        figure,
        f"Geometric means over all workloads and {results.seeds} seeds, with confidence intervals.",
        f"Turnaround and wait of {OWN} without each of its ingredients, by those with it; right of 1, it helps.",
    )


def _arms(ratio: Estimate) -> Sequence[Sequence[float]] | None:
    if ratio.low is None or ratio.high is None:
        return None
    return [[max(0.0, ratio.value - ratio.low)], [max(0.0, ratio.high - ratio.value)]]


def _value(ratio: Estimate | None) -> float:
    return math.nan if ratio is None else ratio.value
