"""The paper's figures: limits and models beside static backfill (1 to 3, 8), who gains (4 to 6), days (7)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from scheduler_bridge.experiments.sd_policy.cells import LIMITS, MEASURES, STATIC, named
from scheduler_bridge.experiments.sd_policy.maps import HOURS, KINDS, LIMIT, Gains, Kind
from scheduler_bridge.experiments.sd_policy.means import Means
from scheduler_bridge.experiments.sd_policy.traces import Trace
from scheduler_bridge.report.palette import OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLES: Final = {
    "makespan_s": "makespan",
    "response_s": "mean response time",
    "slowdown": "mean slowdown",
    "energy_kwh": "energy (estimate)",
}
_COLORS: Final = dict(zip(LIMITS, (OKABE_ITO[at] for at in (0, 1, 2, 6, 4)), strict=True))
_WIDTH: Final = 0.84
_KIND_TITLES: Final[dict[Kind, str]] = {"slowdown": "mean slowdown", "wait": "mean wait", "runtime": "mean runtime"}
_FOLD: Final = 3.0
"""Colours end at ratios of two to this power."""
_MAP_NOTE: Final = "ratio, above 1 (blue): better with SD-Policy (none: nobody waits); below it the number of jobs"
_SIZE_LABELS: Final = ("1", "2", "3-8", "9-32", "33-128", "129-512", "513-1,024", "> 1,024")
_HOUR_LABELS: Final = ("< 10 min", "< 1 h", "< 4 h", "< 12 h", "< 1 d", "> 1 d")


def draw_limits(means: Means, traces: Sequence[Trace]) -> Figure:
    """By limit, normalized to static backfill [figures 1 to 3]."""
    groups = [(limit, limit, _COLORS[limit], "") for limit in LIMITS]
    return _normalized(means, traces, groups, "MAX_SLOWDOWN, ideal model: means by those of static backfill")


def draw_models(means: Means, traces: Sequence[Trace]) -> Figure:
    """By runtime model with the dynamic limit, normalized to static backfill [figure 8]."""
    blue, orange = OKABE_ITO[4], OKABE_ITO[1]
    groups = [("dynamic", "ideal model", blue, ""), (named("dynamic", "worst"), "worst case model", orange, "///")]
    return _normalized(means, traces, groups, "Runtime models, dynamic limit: means by those of static backfill")


def _normalized(
    means: Means, traces: Sequence[Trace], groups: Sequence[tuple[str, str, str, str]], title: str
) -> Figure:
    figure = _figure(7.0)
    figure.suptitle(title, fontweight="bold")
    width = _WIDTH / len(groups)
    for axes, measure in zip(figure.subplots(2, 2).flat, MEASURES, strict=True):
        for place, trace in enumerate(traces):
            before = means.get(trace.name, STATIC, measure)
            for number, (policy, _, color, hatch) in enumerate(groups):
                value = means.get(trace.name, policy, measure)
                if before and value is not None:
                    at = place + (number - (len(groups) - 1) / 2) * width
                    axes.bar(at, value / before, width, color=color, hatch=hatch, edgecolor="white", lw=0.5)
        axes.axhline(1.0, color="#222222", lw=0.9)
        axes.set_xticks(range(len(traces)), [f"{trace.paper}\n{trace.name}" for trace in traces], fontsize=8)
        axes.set_title(_TITLES[measure], fontsize=10)
        _plain(axes)
    handles = [Patch(facecolor=color, hatch=hatch, edgecolor="white", label=name) for _, name, color, hatch in groups]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(groups), frameon=False, fontsize=9)
    return figure


def draw_maps(gains: Gains) -> Figure:
    """Ratios of static backfill to SD-Policy by size and runtime [figures 4 to 6]."""
    figure = _figure(5.2)
    figure.suptitle(
        f"{gains.trace.label}: means of static backfill by those of SD-Policy (limit {LIMIT})", fontweight="bold"
    )
    rows = sorted({category.size for category in gains.categories})
    panels = figure.subplots(1, len(KINDS), sharey=True)
    for axes, kind in zip(panels, KINDS, strict=True):
        image = np.full((len(rows), len(HOURS)), np.nan)
        for category in gains.categories:
            row, ratio = rows.index(category.size), category.ratio(kind)
            level = 0.0 if ratio is None else _level(ratio)
            image[row, category.hours] = level
            ink = "white" if abs(level) > 0.6 * _FOLD else "#222222"
            text = f"{_ratio(ratio)}\n{category.jobs:,}"
            axes.text(category.hours, row, text, ha="center", va="center", fontsize=7, color=ink)
        axes.imshow(image, cmap="RdBu", norm=TwoSlopeNorm(0.0, -_FOLD, _FOLD), aspect="auto", origin="lower")
        axes.set_xticks(range(len(HOURS)), _HOUR_LABELS, fontsize=8, rotation=30)
        axes.set_yticks(range(len(rows)), [_SIZE_LABELS[size] for size in rows], fontsize=8)
        axes.set_title(_KIND_TITLES[kind], fontsize=10)
        axes.set_xlabel("runtime on nodes of its own")
    panels[0].set_ylabel("nodes")
    figure.supxlabel(_MAP_NOTE, fontsize=9, color="#555555")
    return figure


def _level(ratio: float) -> float:
    return max(-_FOLD, min(_FOLD, math.log2(ratio))) if ratio > 0 else -_FOLD


def _ratio(ratio: float | None) -> str:
    if ratio is None:
        return "none"
    if ratio == math.inf:
        return "no more"
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"


def draw_days(gains: Gains) -> Figure:
    """Slowdown by day of submission, and jobs started on nodes of others [figure 7]."""
    figure = _figure(3.8)
    figure.suptitle(f"{gains.trace.label}: slowdown by day of submission", fontweight="bold")
    axes = figure.subplots()
    numbers = [day.number + 1 for day in gains.days]
    axes.bar(numbers, [day.guests for day in gains.days], color="#d5d5d5", label="jobs started on nodes of others")
    axes.set(xlabel="day", ylabel="jobs (bars)", xlim=(min(numbers) - 0.6, max(numbers) + 0.6))
    axes.spines["top"].set_visible(False)
    other = axes.twinx()
    styles = (("static", OKABE_ITO[5], "o"), ("shared", OKABE_ITO[4], "s"))
    for name, color, marker in styles:
        label = "static backfill" if name == "static" else f"SD-Policy, limit {LIMIT}"
        other.plot(numbers, [getattr(day, name) for day in gains.days], color=color, marker=marker, ms=4, label=label)
    other.set(ylabel="mean slowdown (lines)", yscale="log")
    other.spines["top"].set_visible(False)
    axes.set_xticks(numbers if len(numbers) <= 31 else numbers[::7])
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def _figure(height: float) -> Figure:
    figure = Figure(figsize=(11.0, height), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _plain(axes: Axes) -> None:
    axes.grid(visible=True, axis="y", color="#e4e4e4", lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
