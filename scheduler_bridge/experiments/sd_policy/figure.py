"""The paper's figures: limits and models beside static backfill (1 to 3, 8), who gains (4 to 6), days (7)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from matplotlib.colors import TwoSlopeNorm

from scheduler_bridge.experiments.outcome import Picture
from scheduler_bridge.experiments.sd_policy.cells import LIMITS, STATIC, named
from scheduler_bridge.experiments.sd_policy.claims import read_claims
from scheduler_bridge.experiments.sd_policy.means import HOURS, KINDS, LIMIT, Gains, Kind, Means
from scheduler_bridge.experiments.sd_policy.traces import Trace
from scheduler_bridge.report.charts import BarRow, Entry, bar_table_height_in, draw_bar_table, say
from scheduler_bridge.report.sheet import OKABE_ITO, sheet

_TITLES: Final = {"slowdown": "mean slowdown", "response_s": "mean response time"}
_SLIGHT: Final = ("makespan_s", "energy_kwh")
"""What changes by so little that the title says all of it."""
_KIND_TITLES: Final[dict[Kind, str]] = {"slowdown": "mean slowdown", "wait": "mean wait", "runtime": "mean runtime"}
_FOLD: Final = 3.0
"""Colours end at ratios of two to this power."""
_MAP_NOTE: Final = "ratio, above 1 (blue): better with SD-Policy (none: nobody waits); below it the number of jobs"
_SIZE_LABELS: Final = ("1", "2", "3-8", "9-32", "33-128", "129-512", "513-1,024", "> 1,024")
_HOUR_LABELS: Final = ("< 10 min", "< 1 h", "< 4 h", "< 12 h", "< 1 d", "> 1 d")


def draw_limits(means: Means, traces: Sequence[Trace]) -> Picture:
    """By limit, against static backfill [figures 1 to 3]."""
    return _changes(means, traces, {limit: f"limit {limit}" for limit in LIMITS}, "MAX_SLOWDOWN, ideal model")


def draw_models(means: Means, traces: Sequence[Trace]) -> Picture:
    """By runtime model with the dynamic limit, against static backfill [figure 8]."""
    names = {"dynamic": "ideal model", named("dynamic", "worst"): "worst case model"}
    return _changes(means, traces, names, "Runtime models, dynamic limit")


def printed(means: Means, trace: Trace, measure: str) -> dict[str, float]:
    """What the paper prints by policy, as a change in percent: of the best limit, where ours is best."""
    found: dict[str, float] = {}
    for claim in read_claims()["change"]:
        if (claim["workload"], claim["measure"]) != (trace.paper, measure):
            continue
        policy = means.best(trace.name, measure) if claim["policy"] == "best" else claim["policy"]
        before = 0.0 if "than" not in claim else means.change(trace.name, claim["than"], measure)
        if policy is not None and before is not None:
            found[policy] = 100 * ((1 + before / 100) * (1 + claim["printed"] / 100) - 1)
    return found


def _changes(means: Means, traces: Sequence[Trace], names: Mapping[str, str], what: str) -> Picture:
    rows = []
    for trace in traces:
        theirs = {measure: printed(means, trace, measure) for measure in _TITLES}
        rows.append(BarRow(f"{trace.paper}: {trace.name}"))
        rows += [
            BarRow(
                label,
                [
                    Entry(means.change(trace.name, policy, measure), None, theirs[measure].get(policy))
                    for measure in _TITLES
                ],
            )
            for policy, label in names.items()
        ]
    finding = _finding(means, traces, names)
    figure = sheet(bar_table_height_in(rows))
    draw_bar_table(figure, list(_TITLES.values()), rows, "{:+.0f} %".format)
    note = (
        f"{what}: changes of means from static backfill to SD-Policy, by workload; left of the line is better. Draws: "
        f"{_draws(means, traces)}. Hollow: what the paper prints; of the best of several limits, at our best."
    )
    say(figure, finding, note)
    return Picture(
        figure,
        f"Bars: changes of means against static backfill, below zero is better; draws: {_draws(means, traces)}.",
        f"{finding}. {what}: a table of bars by workload: slowdown and response time.",
    )


def _finding(means: Means, traces: Sequence[Trace], policies: Iterable[str]) -> str:
    """On which workloads all of the policies lower slowdowns, and how far makespan and energy change."""

    def changes(measure: str, trace: Trace) -> list[float]:
        found = (means.change(trace.name, policy, measure) for policy in policies)
        return [change for change in found if change is not None]

    known = [trace for trace in traces if changes("slowdown", trace)]
    lower = [trace for trace in known if max(changes("slowdown", trace)) < 0]
    rest = [change for trace in known for name in _SLIGHT for change in changes(name, trace)]
    where = f"all {len(known)} workloads" if len(lower) == len(known) else f"{len(lower)} of {len(known)} workloads"
    text = f"Sharing nodes shortens slowdowns on {where}"
    higher = [trace.name for trace in known if min(changes("slowdown", trace)) > 0]
    text += f", not on {', '.join(higher)}" if higher else ""
    return f"{text}; makespan and energy change by {max(map(abs, rest)):.0f} % at most" if rest else text


def _draws(means: Means, traces: Sequence[Trace]) -> str:
    return ", ".join(f"{means.seeds(trace.name, STATIC)} of {trace.name}" for trace in traces)


def draw_maps(gains: Gains) -> Picture:
    """Ratios of static backfill to SD-Policy by size and runtime [figures 4 to 6]."""
    figure = sheet(5.2)
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
    better = sum(category.slowdown > 1 for category in gains.categories)
    return Picture(
        figure,
        f"One draw. {_MAP_NOTE[0].upper()}{_MAP_NOTE[1:]}.",
        f"{gains.trace.label}: three maps by nodes and runtime: by how much SD-Policy lowers slowdown and wait, and "
        f"lengthens runtimes. Slowdown is better in {better} of {len(gains.categories)} categories.",
    )


def _level(ratio: float) -> float:
    return max(-_FOLD, min(_FOLD, math.log2(ratio))) if ratio > 0 else -_FOLD


def _ratio(ratio: float | None) -> str:
    if ratio is None:
        return "none"
    if ratio == math.inf:
        return "no more"
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"


def draw_days(gains: Gains) -> Picture:
    """Slowdown by day of submission, and jobs started on nodes of others [figure 7]."""
    figure = sheet(3.8)
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
    better = sum(day.shared < day.static for day in gains.days)
    return Picture(
        figure,
        "One draw. Lines: mean slowdown of the jobs submitted on a day; bars: how many started on nodes of others.",
        f"{gains.trace.label}: mean slowdown by day under static backfill and SD-Policy, which is better on {better} "
        f"of {len(gains.days)} days.",
    )
