"""The paper's figure 1: waits by scenario and class, beside what it prints."""

from __future__ import annotations

import itertools
from statistics import fmean
from typing import Final

from scheduler_bridge.experiments.outcome import Picture
from scheduler_bridge.experiments.penalty.cells import CLASSES, Waits
from scheduler_bridge.experiments.penalty.claims import read_claims
from scheduler_bridge.report.charts import BarRow, Entry, bar_table_height_in, draw_bar_table, say
from scheduler_bridge.report.sheet import sheet

_SCENARIOS: Final = ("CF", "CFG", "DI", "HDI")
_POLICIES: Final = {"penalty": "with the penalty (PSP)", "easy": "without it (EASY)"}


def draw_waits(waits: Waits) -> Picture:
    """Two columns of bars, with PSP and under plain EASY; lines are our smallest to largest."""
    rows = []
    for scenario in _SCENARIOS:
        found = [BarRow(name, [_entry(waits, scenario, policy, name) for policy in _POLICIES]) for name in CLASSES]
        rows += [BarRow(scenario), *(row for row in found if any(entry.value is not None for entry in row.entries))]
    figure = sheet(bar_table_height_in(rows))
    draw_bar_table(figure, list(_POLICIES.values()), rows, "{:,.0f}".format)
    finding = _finding(waits)
    note = (
        "Mean wait of the users of a class in minutes (a1: worst estimates, a5: best), by scenario. Synthetic: means "
        f"over {waits.workloads()} workloads each, lines from the least to the most. Hollow: what the paper prints."
    )
    say(figure, finding, note)
    return Picture(
        figure,
        f"Bars: means over {waits.workloads()} workloads a scenario; lines: from the least to the most.",
        f"{finding}. Two columns of bars: the mean wait of users in minutes, with PSP and under plain EASY, by "
        "scenario and class of accuracy.",
    )


def _finding(waits: Waits) -> str:
    """In how many scenarios each class waits less than the next worse one; how far they are apart without PSP."""
    ordered, apart = 0, []
    for scenario in _SCENARIOS:
        ours = [value for name in CLASSES if (value := waits.get(scenario, "penalty", name)) is not None]
        plain = [value for name in CLASSES if (value := waits.get(scenario, "easy", name)) is not None]
        ordered += len(ours) > 1 and all(worse > better for worse, better in itertools.pairwise(ours))
        apart += [max(plain) / min(plain)] if plain and min(plain) > 0 else []
    where = "every scenario" if ordered == len(_SCENARIOS) else f"{ordered} of {len(_SCENARIOS)} scenarios"
    text = f"With the penalty, who estimates better waits less in {where}"
    return f"{text}; without it, classes differ by a factor of {max(apart):.1f} at most" if apart else text


def _entry(waits: Waits, scenario: str, policy: str, name: str) -> Entry:
    each = waits.each(scenario, policy, name)
    printed = read_claims()["printed"][scenario].get(name) if policy == "penalty" else None
    return Entry(fmean(each), (min(each), max(each)), printed) if each else Entry(None, None, printed)
