"""The paper's figures 6 to 11 from the real runs, and the simulator beside them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from scheduler_bridge.experiments.merit import MEASURES
from scheduler_bridge.experiments.real_runs.campaign import NODE_S, RunKey
from scheduler_bridge.experiments.real_runs.findings import ORDERS, PAPER, PARTS, ByNodes, Cost, Means, cells, means
from scheduler_bridge.experiments.study import change, draw_bars
from scheduler_bridge.experiments.study_report import Picture
from scheduler_bridge.record import RunRecord
from scheduler_bridge.report.charts import INK, BarRow, Curve, Entry, draw_multiples, plain, say, sheet
from scheduler_bridge.report.looks import OKABE_ITO
from scheduler_bridge.sim.measures import quartiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PROGRAMS: Final = ("UTS", "NQueens", "BC", "Pi")
_GREY: Final = "#555555"


def draw_scaling(ours: ByNodes, paper: ByNodes, time: float, note: str) -> Picture:
    """Figure 6: seconds of each program on each size, ideal ones as thin lines, the paper's, scaled, as hollow marks.

    Args:
        ours: Seconds of the computation by configuration and nodes.
        paper: The paper's seconds, not scaled.
        time: Seconds here for a second of the paper.
        note: What is emulated.
    """
    figure = _noted(7.6, 11.0, "Rigid jobs on more and more nodes (fig. 6 of the paper)", note)
    programs = [program for program in _PROGRAMS if any(name.startswith(program) for name in ours)]
    grid = figure.subplots(-(-len(programs) // 2), min(2, len(programs)), squeeze=False)
    for axes, program in zip(grid.flat, programs, strict=False):
        configurations = [name for name in ours if name.startswith(program)]
        for index, name in enumerate(configurations):
            sizes, color = ours[name], OKABE_ITO[(index * 2 + 4) % len(OKABE_ITO)]
            nodes = list(sizes)
            axes.plot(nodes, [NODE_S[name] * time / count for count in nodes], color="#999999", lw=0.8, ls="--")
            axes.plot(nodes, list(sizes.values()), color=color, marker="o", ms=4)
            theirs = [(count, seconds * time) for count, seconds in paper.get(name, {}).items() if count in sizes]
            if theirs:
                axes.plot(*zip(*theirs, strict=True), color=color, marker="o", mfc="none", ls="", ms=8)
            axes.annotate(name, (nodes[0], sizes[nodes[0]]), (6, 4), textcoords="offset points", color=color)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(10, (1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        sizes_shown = sorted({count for name in configurations for count in ours[name]})
        axes.set_xticks(sizes_shown, [str(count) for count in sizes_shown])
        axes.set(xlabel="nodes", ylabel="computing, s")
        plain(axes)
    for axes in list(grid.flat)[len(programs) :]:
        axes.set_visible(False)
    handles = [
        Line2D([], [], color=_GREY, marker="o", ms=4, label="measured"),
        Line2D([], [], color="#999999", ls="--", label="as fast as all nodes together"),
    ]
    if paper:
        label = "paper, scaled, start included"
        handles.append(Line2D([], [], color=_GREY, marker="o", mfc="none", ls="", ms=8, label=label))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return Picture(
        figure,
        "Filled marks: one run of every size; hollow ones: the paper's, scaled.",
        "Charts of the seconds of each program over its nodes, with the ideal.",
    )


def draw_costs(costs: Sequence[Cost], note: str) -> Picture:
    """Figure 7: mean seconds of start, grow and shrink, in the runtime and in the balancer; below them the paper's."""
    rows, found = [], []
    for what, (runtime_s, balancer_s) in PAPER.items():
        those = [cost for cost in costs if cost.what == what]
        ours = [statistics.fmean(getattr(cost, part) for cost in those) if those else None for part in PARTS]
        paper = (runtime_s + balancer_s, runtime_s, balancer_s)
        nodes = statistics.fmean(cost.nodes for cost in those) if those else 0.0
        label = f"{what}, {nodes:.1f} nodes, {len(those)} times" if those else f"{what}, none"
        rows.append(BarRow(label, [Entry(own, None, theirs) for own, theirs in zip(ours, paper, strict=True)]))
        found += [f"a {what} {ours[0]:.2f} s" if ours[0] is not None else f"no {what}"]
    return draw_bars(
        ("in all", "runtime", "balancer"),
        rows,
        "{:.2f} s".format,
        f"What starts and resizes take: {', '.join(found)}",
        f"Not scaled (figure 7 of the paper). Hollow: what the paper prints, of real nodes. {note}",
        f"Means of {len(costs)} starts and resizes; hollow bars: the paper's, of real nodes.",
        "Bars: mean seconds of a start, a grow and a shrink, in the runtime and in the balancer.",
    )


def draw_orders(found: Means, paper: Means, note: str) -> Picture:
    """Figure 8: grows and shrinks per malleable job under ``malleable``, by share; below them the paper's."""
    rows = []
    for (policy, share), ours in found.items():
        if policy == RESIZING and ORDERS[0][1] in ours:
            theirs = paper.get((policy, share), {})
            entries = [Entry(ours[name], None, theirs.get(name)) for _, name in ORDERS]
            rows.append(BarRow(f"{share} % malleable", entries))
    most = " and ".join(
        f"{kind}s {max(row.entries[at].value or 0.0 for row in rows):.2f} times" for at, (kind, _) in enumerate(ORDERS)
    )
    return draw_bars(
        [f"{kind}s" for kind, _ in ORDERS],
        rows,
        "{:.2f}".format,
        f"At any share, a malleable job {most} at most",
        f"Means over malleable jobs under {RESIZING} (figure 8 of the paper). Hollow: what the paper prints. {note}",
        "Means over the batches under malleable; hollow bars: the paper's.",
        "Bars over the share of malleable jobs: grows and shrinks per malleable job.",
    )


def draw_turnaround(records: Mapping[RunKey, RunRecord], paper: Means, note: str) -> Picture:
    """Figure 11: mean wait, on it mean runtime, by share of malleable jobs, a panel a policy; the paper's hollow."""
    found = means(records)
    policies = list(dict.fromkeys(policy for policy, _ in found))
    shares = sorted({share for _, share in found})
    figure = sheet(4.6)
    panels = figure.subplots(1, len(policies), sharey=True, squeeze=False)[0]
    for axes, policy in zip(panels, policies, strict=True):
        for place, share in enumerate(shares):
            if (policy, share) not in found:
                continue
            wait_s, runtime_s = (found[policy, share][name] for name in ("wait_s", "runtime_s"))
            axes.bar(place - 0.16, wait_s, 0.48, color=OKABE_ITO[4])
            axes.bar(place - 0.16, runtime_s, 0.48, bottom=wait_s, color=OKABE_ITO[0])
            theirs = paper.get((policy, share), {})
            if "turnaround_s" in theirs:
                for low_s, name in ((0.0, "wait_s"), (theirs["wait_s"], "runtime_s")):
                    axes.bar(place + 0.24, theirs[name], 0.24, bottom=low_s, color="none", edgecolor=INK, lw=0.9)
                if place == 0:
                    _above(axes, "paper", (place + 0.24, theirs["turnaround_s"]))
            if place == 0:
                _above(axes, "here", (place - 0.16, wait_s + runtime_s))
            if policy == policies[0] and place == 0:
                for text, middle, ink in (("wait", wait_s / 2, "white"), ("runtime", wait_s + runtime_s / 2, INK)):
                    axes.text(place - 0.16, middle, text, rotation=90, ha="center", va="center", color=ink, fontsize=8)
        axes.set_title(policy, fontsize=10, loc="left")
        axes.set_xticks(range(len(shares)), [str(share) for share in shares], fontsize=8.5)
        axes.set_xlabel("malleable jobs, %", fontsize=9)
        axes.margins(y=0.1)
        plain(axes, "y")
    panels[0].set_ylabel("mean turnaround = wait + runtime, s", fontsize=9.5)
    wait, runtime, both = (gained(found, name) for name in ("wait_s", "runtime_s", "turnaround_s"))
    finding = "Turnaround as wait and runtime, by policy and share of malleable jobs"
    if wait is not None and runtime is not None and both is not None:
        finding = (
            f"Malleable jobs wait {less(wait, 'less', 'more')} under {RESIZING} than rigid ones and run "
            f"{less(runtime, 'shorter', 'longer')}; turnaround is {less(both, 'less', 'more')}"
        )
    hollow = " Hollow: the paper's means, their seconds scaled." if paper else ""
    say(figure, finding, f"Means of {len(records)} real runs (figure 11 of the paper).{hollow} {note}")
    return Picture(
        figure,
        f"Means over {len(records)} real runs; hollow bars: the paper's, scaled.",
        f"{finding}. Bars over the share of malleable jobs, a chart a policy: mean wait, on it mean runtime.",
    )


def _above(axes: Axes, text: str, end: tuple[float, float]) -> None:
    axes.annotate(text, end, (0, 2), textcoords="offset points", ha="center", va="bottom", rotation=90, fontsize=8)


def _noted(height_in: float, width_in: float, title: str, note: str) -> Figure:
    figure = sheet(height_in, width_in)
    figure.suptitle(f"{title}\n{note}", fontsize=10)
    return figure


# Figures 9 and 10 ----------------------------------------------------------------------------------------------------
#
# The paper's means, scaled, are hollow marks.

Found: TypeAlias = Mapping[tuple[str, int], Sequence[Mapping[str, float]]]
"""The figures of merit of all seeds, by policy and share."""
_SHOWN: Final = ("makespan_s", "utilization")
RESIZING: Final = "malleable"
"""The policy that the paper is about."""


def draw_means(records: Mapping[RunKey, RunRecord], paper: Means, note: str) -> Picture:
    """Makespan and utilization by share of malleable jobs, with quartiles over the seeds; a column a policy.

    Args:
        records: The runs.
        paper: The paper's means, scaled.
        note: What is emulated.
    """
    found = cells(records)
    policies = list(dict.fromkeys(policy for policy, _ in found))
    figure = sheet(6.0)
    rows = {MEASURES[name]: {policy: _curves(found, paper, policy, name) for policy in policies} for name in _SHOWN}
    draw_multiples(figure, rows, "malleable jobs, %", sorted({share for _, share in found}))
    ends, uses = (gained(means(records), name) for name in _SHOWN)
    finding = "Makespan and utilization by policy and share of malleable jobs"
    if ends is not None and uses is not None:
        finding = f"{RESIZING} ends batches {less(ends, 'earlier', 'later')} with malleable jobs than with rigid ones"
        finding += f", and uses {less(uses, 'less', 'more')} of the nodes"
    hollow = " Dashed: the paper's means, their seconds scaled." if paper else ""
    say(figure, finding, f"Means of {len(records)} real runs, bands: quartiles over the seeds.{hollow} {note}")
    return Picture(
        figure,
        f"Means over {len(records)} real runs with quartiles; dashed, hollow marks: the paper's means, scaled.",
        f"{finding}. Charts over the share of malleable jobs, by policy: makespan and utilization.",
    )


def _curves(found: Found, paper: Means, policy: str, name: str) -> list[Curve]:
    shares = sorted(share for each, share in found if each == policy)
    values = [[run[name] for run in found[policy, share]] for share in shares]
    ours = list(zip(shares, map(statistics.fmean, values), strict=True))
    theirs = [(share, paper[policy, share][name]) for share in shares if name in paper.get((policy, share), {})]
    return [
        Curve("here", ours, spread=[(low, high) for low, _, high in filter(None, map(quartiles, values))]),
        Curve("paper", theirs, INK, hollow=True),
    ]


def gained(found: Means, name: str) -> float | None:
    """What changes under the resizing policy from rigid to all malleable jobs, in percent; None: it was not run."""
    return change(*(found.get((RESIZING, share), {}).get(name) for share in (0, 100)))


def less(percent: float, lower: str, higher: str) -> str:
    """Word a change in percent: ``12 % earlier``."""
    return f"{abs(percent):.0f} % {lower if percent < 0 else higher}"
