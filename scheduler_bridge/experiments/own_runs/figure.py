"""The paper's figures 9 to 11 and the mean wait, from our own runs; the paper's means, scaled, as hollow marks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Final

from matplotlib.lines import Line2D

from scheduler_bridge.experiments.outcome import Picture
from scheduler_bridge.experiments.own_runs.findings import MEASURES, cells
from scheduler_bridge.experiments.own_runs.plan import RunKey
from scheduler_bridge.record import RunRecord
from scheduler_bridge.report.palette import OKABE_ITO
from scheduler_bridge.report.sheet import plain, sheet

_SHOWN: Final = ("makespan_s", "turnaround_s", "wait_s", "utilization")
MARKERS: Final = "os^DvP*X"
"""Of the policies, in their order."""
_ORDER: Final = (4, 1, 2, 5, 6, 0, 3)


def color_of(index: int) -> str:
    """The colour of a policy: those that read badly as lines come last."""
    return OKABE_ITO[_ORDER[index % len(_ORDER)]]


def draw_means(
    records: Mapping[RunKey, RunRecord], paper: Mapping[tuple[str, int], Mapping[str, float]], note: str
) -> Picture:
    """Means over the seeds with quartiles, by share of malleable jobs.

    Args:
        records: The runs.
        paper: The paper's means, scaled.
        note: What is emulated, for the title.
    """
    figure = sheet(7.6)
    found = cells(records)
    policies = list(dict.fromkeys(policy for policy, _ in found))
    for axes, name in zip(figure.subplots(2, 2).flat, _SHOWN, strict=True):
        for index, policy in enumerate(policies):
            shares = sorted(share for each, share in found if each == policy)
            values = [[run[name] for run in found[policy, share]] for share in shares]
            means = [statistics.fmean(runs) for runs in values]
            color, marker = color_of(index), MARKERS[index % len(MARKERS)]
            axes.errorbar(
                shares, means, yerr=_spread(values, means), color=color, marker=marker, capsize=2, label=policy
            )
            theirs = [(share, paper[policy, share][name]) for share in shares if name in paper.get((policy, share), {})]
            if theirs:
                axes.plot(*zip(*theirs, strict=True), color=color, marker=marker, mfc="none", ls="", ms=8)
        axes.set(xlabel="malleable jobs, %", ylabel=MEASURES[name], xlim=(-5, 105), xticks=range(0, 101, 20))
        axes.set_ylim(0, 1.08 * axes.get_ylim()[1])
        plain(axes)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if paper:
        handles.append(Line2D([], [], color="#555555", marker="o", mfc="none", ls="", ms=8))
        labels.append("paper, scaled")
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.suptitle(
        f"Means of the batches with quartiles (figs. 9 and 10 of the paper, and what makes fig. 11)\n{note}",
        fontsize=10,
    )
    return Picture(
        figure,
        f"Means over {len(records)} real runs with quartiles; hollow marks: the paper's means, scaled.",
        "Four charts over the share of malleable jobs, by policy: makespan, turnaround, wait and utilization.",
    )


def _spread(values: list[list[float]], means: list[float]) -> tuple[list[float], list[float]]:
    """How far the quartiles are below and above the means."""
    below, above = [], []
    for runs, mean in zip(values, means, strict=True):
        low, _, high = statistics.quantiles(runs, n=4, method="inclusive") if len(runs) > 1 else (mean, mean, mean)
        below.append(max(0.0, mean - low))
        above.append(max(0.0, high - mean))
    return below, above
