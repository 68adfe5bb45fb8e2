"""The paper's figures: turnaround (7 to 9, 12, 16), slowdown (13 to 15), utilization (10, 11), events (6, Table 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from scheduler_bridge.experiments.mebf.cells import EBF, EXPANDS, HOURS, SCALABILITIES, STEP_H, column
from scheduler_bridge.experiments.mebf.claims import read_claims
from scheduler_bridge.experiments.mebf.means import EVENTS, EXPAND_SIZES, Means
from scheduler_bridge.experiments.mebf.tables import OVER_TIME
from scheduler_bridge.experiments.outcome import Picture
from scheduler_bridge.report import words
from scheduler_bridge.report.charts import (
    FAINT,
    INK,
    MARKERS,
    OURS,
    BarRow,
    Curve,
    Entry,
    bar_table_height_in,
    draw_bar_table,
    draw_curves,
    say,
)
from scheduler_bridge.report.sheet import sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POLICIES: Final = (EBF, *EXPANDS, "shrink+", "expand+")
_LABELS: Final = {EBF: "easy, rigid", "shrink+": "handoff, shrink+", "expand+": "handoff, expand+"}
_NAMES: Final = {name: _LABELS.get(name, name) for name in _POLICIES}
_MS: Final = "1k intensive medium full"
_JOBS: Final = {"1k": "1,000 jobs", "5k": "5,000 jobs"}
_Group = tuple[str, str, int]
"""A label, a variant, a share of malleable jobs in percent."""
_HOURS: Final = 12
"""Of the beginning, in which the machine fills."""


def draw_turnarounds(means: Means) -> Picture:
    """By how much the policies turn jobs around faster than EASY, workload by workload [figures 7 to 9, 12, 16]."""
    blocks: dict[str, list[_Group]] = {
        f"{title}, all malleable": [("normal load, low scalability", f"{size} normal low full", 100), *_intensive(size)]
        for size, title in _JOBS.items()
    }
    blocks["1,000 jobs, intensive, medium: fewer malleable jobs"] = [
        (f"{share} % malleable", _MS, share) for share in (80, 60, 40)
    ]
    blocks["The same, where jobs scale worse than believed"] = [("100 % malleable", f"{_MS} error", 100)]
    blocks["5,000 jobs, intensive, high: resizes"] = [
        (f"at {name} cost", f"5k intensive high {name}", 100) for name in ("full", "half")
    ]
    policies = [policy for policy in _POLICIES if policy != EBF]
    rows = [
        row
        for heading, groups in blocks.items()
        for row in (
            BarRow(heading),
            *(
                BarRow(
                    label,
                    [
                        Entry(means.gain(variant, policy, share=share), None, _printed(variant, policy, share))
                        for policy in policies
                    ],
                )
                for label, variant, share in groups
            ),
        )
    ]
    gains = [entry.value for row in rows for entry in row.entries if entry.value is not None]
    better = sum(gain < 0 for gain in gains)
    finding = (
        f"Resizing turns jobs around faster than EASY in {_of(better, len(gains))} cases, "
        f"by {-max(gains):.0f} to {-min(gains):.0f} %"
        if better == len(gains) and gains
        else f"Resizing turns jobs around faster than EASY in {_of(better, len(gains))} cases"
    )
    alt = "A table of bars by workload and policy: the change of mean turnaround against EASY with rigid jobs."
    return _table(
        means, rows, policies, "{:+.0f} %".format, finding, "Change of mean turnaround against EASY, rigid jobs", alt
    )


def _of(count: int, total: int) -> str:
    return f"all {total}" if count == total else f"{count} of {total}"


def _values(means: Means, measure: str, *, normal: str = "") -> list[BarRow]:
    """A mean by size, scalability and policy, under intensive load, and of one workload under normal load."""
    rows = []
    for size, title in _JOBS.items():
        groups = _intensive(size)
        if normal:
            groups.append((f"normal load, {normal} scalability", f"{size} normal {normal} full", 100))
        rows.append(BarRow(title))
        rows += [
            BarRow(label, [Entry(means.get(variant, policy, measure)) for policy in _POLICIES])
            for label, variant, _ in groups
        ]
    return rows


def draw_slowdowns(means: Means) -> Picture:
    """Slowdown by size and scalability, with shrink+ and expand+ [figures 13 to 15]."""
    rows = _values(means, "slowdown", normal="medium")
    finding = _lower_or_higher(rows, "Slowdown is lower than under EASY", lower=True)
    alt = "A table of bars: slowdown by number of jobs, scalability and policy."
    what = "Slowdown: mean turnaround by mean runtime without resizes"
    return _table(means, rows, _POLICIES, "{:.2f}".format, finding, what, alt)


def draw_utilizations(means: Means) -> Picture:
    """Utilization by size and scalability [figure 10]."""
    rows = _values(means, "utilization")
    finding = _lower_or_higher(rows, "More of the machine is used than under EASY", lower=False)
    alt = "A table of bars: utilization by number of jobs, scalability and policy."
    return _table(means, rows, _POLICIES, "{:.1f} %".format, finding, "Utilization, of all nodes", alt)


def _lower_or_higher(rows: Sequence[BarRow], what: str, *, lower: bool) -> str:
    pairs = [
        (row.entries[0].value, entry.value)
        for row in rows
        for entry in row.entries[1:]
        if entry.value is not None and row.entries[0].value is not None
    ]
    return f"{what} in {_of(sum((after < easy) is lower for easy, after in pairs), len(pairs))} cases"


def draw_events(means: Means) -> Picture:
    """How events divide into kinds [Table 5], and expands by the size of the jobs [figure 6], in 1,000 jobs."""
    rows = []
    titles = ("of all events", "of the expands, by the nodes that the job asked for")
    most = {}
    for names, title in zip(({kind: kind for kind in EVENTS}, EXPAND_SIZES), titles, strict=True):
        by_policy = {policy: means.shares(_MS, policy, tuple(names)) for policy in EXPANDS}
        rows.append(BarRow(title))
        rows += [
            BarRow(label, [Entry(found[at]) if found else Entry(None) for found in by_policy.values()])
            for at, label in enumerate(names.values())
        ]
        if names.keys() == set(EVENTS):
            most = {policy: EVENTS[found.index(max(found))] for policy, found in by_policy.items() if found}
    finding = "Most events are " + ", ".join(
        f"{kind} under {', '.join(policy for policy in most if most[policy] == kind)}"
        for kind in dict.fromkeys(most.values())
    )
    alt = "A table of bars: how events divide into shrinks, expands and backfills, and expands by the size of jobs."
    return _table(means, rows, EXPANDS, "{:.0f} %".format, finding, "1,000 jobs, intensive, medium: shares", alt)


def draw_over_time(means: Means) -> Picture:
    """Utilization by hours, a line for each policy [figure 11]."""
    figure = sheet(4.6)
    axes = figure.subplots()
    middles = [hour + STEP_H / 2 for hour in HOURS]
    known: dict[str, list[float]] = {}
    for policy in (EBF, *EXPANDS):
        values = [means.get(OVER_TIME, policy, column(hour)) for hour in HOURS]
        if all(value is not None for value in values):
            known[policy] = [value or 0.0 for value in values]
    styles = dict(zip((EBF, *EXPANDS), zip((INK, OURS, OURS, OURS), MARKERS, strict=False), strict=True))
    curves = [
        Curve(_NAMES[policy], list(zip(middles, values, strict=True)), *styles[policy], hollow=policy == EBF)
        for policy, values in known.items()
    ]
    draw_curves(axes, curves)
    axes.set(xlabel="hours since the beginning", ylabel="nodes in use, %", ylim=(0, 106), xlim=(0, HOURS[-1] + STEP_H))
    axes.set_xticks(range(0, HOURS[-1] + STEP_H + 1, 12))
    finding = _name_over_time(axes, curves)
    note = f"means over {STEP_H} hours and {means.twins()} twins of KIT's workload, synthetic."
    say(figure, finding, f"1,000 jobs of high scalability, intensive load; {note}")
    return Picture(
        figure,
        f"Points: means over {STEP_H} hours and {means.twins()} twins.",
        f"{finding}. Four lines: utilization over time under EASY with rigid jobs, handoff, spare and intensive.",
    )


def _name_over_time(axes: Axes, curves: Sequence[Curve]) -> str:
    """Name the lines where they are apart: at the beginning and near the end; return what they show."""
    if len(curves) < 2:
        return "Utilization over time"
    easy, *ours = curves
    at = [index for index, (hour, _) in enumerate(easy.points) if hour < _HOURS]
    best = max(at, key=lambda index: min(curve.points[index][1] for curve in ours) - easy.points[index][1])
    gap = min(curve.points[best][1] for curve in ours) - easy.points[best][1]
    apart = max(
        max(curve.points[index][1] for curve in ours) - min(curve.points[index][1] for curve in ours) for index in at
    )
    hour, level = easy.points[best]
    _name(axes, easy.name, (hour, level), (26, -16), easy.color)
    high = max(curve.points[best][1] for curve in ours)
    _name(
        axes,
        f"{', '.join(curve.name for curve in ours)}\n({words.plural(round(apart), 'point')} apart at most)",
        (hour, high),
        (34, -46),
        OURS,
    )
    late = min(range(len(easy.points)), key=lambda index: abs(easy.points[index][1] - 50 - 100 * (index < len(at))))
    _name(axes, easy.name, easy.points[late], (14, 10), easy.color)
    return f"While the machine fills, resizing policies use {gap:.0f} points more of it than EASY"


def _name(axes: Axes, text: str, at: tuple[float, float], beside: tuple[float, float], color: str) -> None:
    axes.annotate(
        text, at, beside, textcoords="offset points", fontsize=9, color=color, va="center",
        arrowprops={"arrowstyle": "-", "lw": 0.6, "color": FAINT},
    )  # fmt: skip


DRAWN: Final[dict[str, Callable[[Means], Picture]]] = {
    "turnaround": draw_turnarounds,
    "slowdown": draw_slowdowns,
    "utilization": draw_utilizations,
    "over-time": draw_over_time,
    "events": draw_events,
}
"""All figures, by name."""


def _intensive(size: str) -> list[_Group]:
    return [(f"intensive load, {name} scalability", f"{size} intensive {name} full", 100) for name in SCALABILITIES]


def _printed(variant: str, policy: str, share: int) -> float | None:
    """The printed change of the mean turnaround; None: none is printed."""
    for claim in read_claims()["gain"]:
        of = (claim["variant"], claim["policy"], claim.get("share", 100), claim.get("measure", "turnaround_s"))
        if of == (variant, policy, share, "turnaround_s"):
            return float(claim["printed"])
    return None


def _table(
    means: Means,
    rows: Sequence[BarRow],
    policies: Sequence[str],
    form: Callable[[float], str],
    finding: str,
    what: str,
    alt: str,
) -> Picture:
    figure = sheet(bar_table_height_in(rows))
    draw_bar_table(figure, [_NAMES[policy] for policy in policies], rows, form)
    hollow = " Hollow: what the paper prints." if any(e.printed is not None for r in rows for e in r.entries) else ""
    say(figure, finding, f"{what}. Twins of KIT's workload, synthetic; means over {means.twins()} twins.{hollow}")
    return Picture(figure, f"Bars: means over jobs and {means.twins()} twins.{hollow}", f"{finding}. {alt}")
