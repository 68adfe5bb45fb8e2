"""The paper's figures 6 to 11 from the real runs, and the simulator beside them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from scheduler_bridge.experiments.merit import MEASURES, draw_by_share
from scheduler_bridge.experiments.real_runs.campaign import NODE_S, RunKey
from scheduler_bridge.experiments.real_runs.findings import ORDERS, PAPER, PARTS, ByNodes, Cost, Means, cells, means
from scheduler_bridge.experiments.study import change, draw_bars
from scheduler_bridge.experiments.study_report import Picture
from scheduler_bridge.record import RunRecord
from scheduler_bridge.report.charts import FAINT, INK, BarRow, Curve, Entry, plain, sheet
from scheduler_bridge.report.looks import OKABE_ITO
from scheduler_bridge.sim.measures import quartiles

_PROGRAMS: Final = ("UTS", "NQueens", "BC", "Pi")


def draw_scaling(ours: ByNodes, paper: ByNodes, time: float, note: str) -> Picture:
    """Figure 6: seconds of each program on each size, ideal ones as thin lines, the paper's, scaled, as hollow marks.

    Args:
        ours: Seconds of the computation by configuration and nodes.
        paper: The paper's seconds, not scaled.
        time: Seconds here for a second of the paper.
        note: What is emulated.
    """
    figure = sheet(7.6)
    figure.suptitle(f"Rigid jobs on more and more nodes (fig. 6 of the paper)\n{note}", fontsize=10)
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
        Line2D([], [], color=FAINT, marker="o", ms=4, label="measured"),
        Line2D([], [], color="#999999", ls="--", label="as fast as all nodes together"),
    ]
    if paper:
        label = "paper, scaled, start included"
        handles.append(Line2D([], [], color=FAINT, marker="o", mfc="none", ls="", ms=8, label=label))
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


# Figures 9 to 11 -----------------------------------------------------------------------------------------------------
#
# The paper's means, scaled, are hollow marks.

RESIZING: Final = "malleable"
"""The policy that the paper is about."""


def draw_means(records: Mapping[RunKey, RunRecord], paper: Means, note: str) -> Picture:
    """Makespan and utilization by share of malleable jobs, with quartiles over the seeds; a column a policy.

    Args:
        records: The runs.
        paper: The paper's means, scaled.
        note: What is emulated.
    """
    ends, uses = (gained(means(records), name) for name in ("makespan_s", "utilization"))
    finding = "Makespan and utilization by policy and share of malleable jobs"
    if ends is not None and uses is not None:
        finding = f"{RESIZING} ends batches {less(ends, 'earlier', 'later')} with malleable jobs than with rigid ones"
        finding += f", and uses {less(uses, 'less', 'more')} of the nodes"
    return _by_share(records, paper, ("makespan_s", "utilization"), finding, note)


def draw_turnaround(records: Mapping[RunKey, RunRecord], paper: Means, note: str) -> Picture:
    """Mean turnaround and its parts, wait and runtime, see ``draw_means`` [figure 11]."""
    wait, runtime, both = (gained(means(records), name) for name in ("wait_s", "runtime_s", "turnaround_s"))
    finding = "Turnaround, wait and runtime by policy and share of malleable jobs"
    if wait is not None and runtime is not None and both is not None:
        finding = (
            f"Malleable jobs wait {less(wait, 'less', 'more')} under {RESIZING} than rigid ones and run "
            f"{less(runtime, 'shorter', 'longer')}; turnaround is {less(both, 'less', 'more')}"
        )
    return _by_share(records, paper, ("turnaround_s", "wait_s", "runtime_s"), finding, note)


def _by_share(
    records: Mapping[RunKey, RunRecord], paper: Means, names: Sequence[str], finding: str, note: str
) -> Picture:
    found = cells(records)
    policies = dict.fromkeys(policy for policy, _ in found)

    def curves(policy: str, name: str) -> list[Curve]:
        shares = sorted(share for each, share in found if each == policy)
        values = [[run[name] for run in found[policy, share]] for share in shares]
        ours = list(zip(shares, map(statistics.fmean, values), strict=True))
        theirs = [(share, paper[policy, share][name]) for share in shares if name in paper.get((policy, share), {})]
        return [
            Curve("here", ours, spread=[(low, high) for low, _, high in filter(None, map(quartiles, values))]),
            Curve("paper", theirs, INK, hollow=True),
        ]

    hollow = " Dashed: the paper's means, their seconds scaled." if paper else ""
    return draw_by_share(
        {MEASURES[name]: {policy: curves(policy, name) for policy in policies} for name in names},
        {share for _, share in found},
        finding,
        f"Means of {len(records)} real runs, bands: quartiles over the seeds.{hollow} {note}",
        f"Means over {len(records)} real runs with quartiles; dashed, hollow marks: the paper's means, scaled.",
    )


def gained(found: Means, name: str) -> float | None:
    """What changes under the resizing policy from rigid to all malleable jobs, in percent; None: it was not run."""
    return change(*(found.get((RESIZING, share), {}).get(name) for share in (0, 100)))


def less(percent: float, lower: str, higher: str) -> str:
    """Word a change in percent: ``12 % earlier``."""
    return f"{abs(percent):.0f} % {lower if percent < 0 else higher}"
