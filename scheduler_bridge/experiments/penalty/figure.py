"""The paper's figure 1: waits by scenario and class, beside what it prints."""

from __future__ import annotations

from statistics import fmean
from typing import Final

from scheduler_bridge.experiments.outcome import Picture
from scheduler_bridge.experiments.penalty.cells import CLASSES
from scheduler_bridge.experiments.penalty.claims import read_claims
from scheduler_bridge.experiments.penalty.means import Waits
from scheduler_bridge.report.groups import PRINTED, Bar, draw_groups, looks_of
from scheduler_bridge.report.sheet import plain, sheet

_SCENARIOS: Final = ("CF", "CFG", "DI", "HDI")
_LOOKS: Final = looks_of(CLASSES)


def draw_waits(waits: Waits) -> Picture:
    """Two panels, with PSP and under plain EASY; diamonds are the paper's means, lines our smallest to largest."""
    figure = sheet(4.6)
    figure.suptitle("Mean wait of users by scenario and class of accuracy (synthetic workloads)", fontweight="bold")
    panels = figure.subplots(1, 2, sharey=True)
    limits = []
    for axes, policy, title in zip(panels, ("penalty", "easy"), ("penalty (PSP)", "easy, without PSP"), strict=True):
        groups = [[_bar(waits, scenario, policy, name) for name in CLASSES] for scenario in _SCENARIOS]
        limits.append(draw_groups(axes, groups, _LOOKS, named=0))
        axes.set_xticks(range(len(_SCENARIOS)), _SCENARIOS)
        axes.set_title(title, fontsize=10)
        plain(axes, grid="y")
    panels[0].set_ylim(0, max(limits))
    panels[0].set_ylabel("mean wait, minutes")
    return Picture(
        figure,
        f"Bars: means over {waits.workloads()} workloads a scenario, from the least to the most; {PRINTED}.",
        "Two bar charts of the mean wait of users in minutes, with PSP and under plain EASY, by scenario and class of "
        "accuracy. With PSP, the better users estimate, the less they wait.",
    )


def _bar(waits: Waits, scenario: str, policy: str, name: str) -> Bar:
    each = waits.each(scenario, policy, name)
    printed = read_claims()["printed"][scenario].get(name) if policy == "penalty" else None
    return Bar(name, fmean(each), (min(each), max(each)), printed) if each else Bar(name, 0.0, None, printed)
