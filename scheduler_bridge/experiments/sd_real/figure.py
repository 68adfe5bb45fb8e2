"""The paper's figure 9: what changes from static backfill to SD-Policy, beside what it prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler_bridge.experiments.outcome import Picture
from scheduler_bridge.experiments.sd_policy.study import CLAIMS
from scheduler_bridge.experiments.sd_real.findings import PAPER, change
from scheduler_bridge.report.sheet import OKABE_ITO, plain, sheet

_TITLES: Final = ("makespan", "mean response time", "mean slowdown", "energy (here an estimate)")
_WIDTH: Final = 0.38


def draw_changes(found: Mapping[str, Mapping[str, float]], runs: int) -> Picture:
    """Two bars a measure; below zero is better."""
    figure = sheet(3.8, 8.0)
    figure.suptitle("From static backfill to SD-Policy: change in percent, real jobs", fontweight="bold")
    axes = figure.subplots()
    printed = {claim["measure"]: claim["printed"] for claim in CLAIMS["real"]}
    bars = (
        ([change(found, name) or 0.0 for name in PAPER], OKABE_ITO[4], "here, emulated nodes"),
        ([printed[name] for name in PAPER], "#bdbdbd", "the paper, 49 nodes"),
    )
    for number, (values, color, label) in enumerate(bars):
        places = [place + (number - 0.5) * _WIDTH for place in range(len(PAPER))]
        axes.bar_label(axes.bar(places, values, _WIDTH, color=color, label=label), fmt="%+.1f", fontsize=8, padding=2)
    axes.axhline(0.0, color="#222222", lw=0.9)
    axes.set_xticks(range(len(PAPER)), _TITLES)
    axes.margins(y=0.12)
    plain(axes, grid="y")
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", length=0)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    said = ", ".join(f"{title} {value:+.1f} %" for title, value in zip(_TITLES, bars[0][0], strict=True))
    return Picture(
        figure,
        f"Means over the batches, {runs} real runs; below zero is better.",
        f"Changes from static backfill to SD-Policy beside what the paper prints: {said}.",
    )
