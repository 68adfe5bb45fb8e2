"""The experiment ``real-runs``: the 2024 paper's evaluation on real processes."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final

from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from scheduler_bridge.daemon.trial import CalibrationError
from scheduler_bridge.experiments import study
from scheduler_bridge.experiments.merit import COMPARED, MEASURES, Replayed, draw_by_share, draw_runs, within
from scheduler_bridge.experiments.published_runs.cells import COMPAT, Reference, read_reference
from scheduler_bridge.experiments.published_runs.study import Find, judge_claims
from scheduler_bridge.experiments.real_runs import fidelity, findings
from scheduler_bridge.experiments.real_runs.campaign import (
    CAMPAIGNS,
    COMPAT_POLICIES,
    HERE,
    NODE_S,
    SCALING,
    Campaign,
    Problem,
    RunKey,
    Scale,
    Site,
    calibrate,
)
from scheduler_bridge.experiments.real_runs.runner import Again, Runner, all_kept, carry_out
from scheduler_bridge.experiments.study_report import DataTable, Picture, StudyReport, Value, listed
from scheduler_bridge.experiments.sweep import Reporter
from scheduler_bridge.record import RunRecord, busy_node_s
from scheduler_bridge.report import words
from scheduler_bridge.report.charts import FAINT, INK, BarRow, Curve, Entry, plain, sheet
from scheduler_bridge.report.looks import OKABE_ITO
from scheduler_bridge.sim.measures import quartiles
from scheduler_bridge.workloads import TraceError

_OWN_BATCHES: Final = "The batches are the paper's own: the same jobs of the same sizes, submitted at the same times."
_DRAWN_BATCHES: Final = (
    "The batches are drawn from the paper's table of configurations with its seeds; the paper's own draws differ."
)
LAG_LIMIT_S: Final = 0.25
"""A place that lags more behind its rate had too little of the cores."""


def planned(
    scale: Scale,
    data: Path | None = None,
    *,
    published: bool = False,
    second_s: float | None = None,
    site: Site = HERE,
) -> tuple[Campaign, Reference | None]:
    """What is to be run, and the paper's results, if there are any to be shown beside.

    Args:
        scale: How much.
        data: The folder with the paper's results; None: without.
        published: Whether the batches are the paper's own; else they are drawn like them.
        second_s: How long a second of the paper lasts; None: the scale's.
        site: Where the nodes are.

    Raises:
        TraceError: ``data`` holds no results of the paper, or its own batches are asked for without it.
        DaemonError: The site's file of hosts is wrong.
    """
    reference, campaign = None if data is None else read_reference(data), CAMPAIGNS[scale]
    if published:
        if reference is None:
            raise TraceError("the published batches are in the reference data, which is not given")
        campaign = campaign.as_published(reference)
    return replace(campaign, time=second_s or campaign.time).at(site), reference


def run(
    folder: Path,
    campaign: Campaign,
    reference: Reference | None,
    site: Site = HERE,
    *,
    announce: Callable[[str], None] = lambda _: None,
    reporter: Reporter = lambda _: None,
    again: Again | None = None,
) -> StudyReport:
    """Run the batches that ``folder`` does not hold yet, and say what all of them show; see ``carry_out``."""
    problems, records = carry_out(campaign, folder, site, announce=announce, reporter=reporter, again=again)
    return conclude(campaign, records, reference, problems, site)


def report(folder: Path, campaign: Campaign, reference: Reference | None, site: Site = HERE) -> StudyReport:
    """Say what the runs show that ``folder`` holds already; nothing is run.

    Raises:
        CalibrationError: ``folder`` holds no calibration, or no run of this scale.
    """
    problems = calibrate(campaign.problems() if campaign.paced else (), folder, None)
    records = all_kept(Runner(campaign, problems, folder))
    if not records:
        raise CalibrationError(f"{folder} holds no run of this scale")
    return conclude(campaign, records, reference, problems, site)


def _emulation(campaign: Campaign, problems: Mapping[str, Problem], note: str) -> list[str]:
    """What is not as it is on the paper's nodes."""
    if not campaign.paced:
        return []
    shares = ", ".join(f"{name} {100 * problem.share(campaign.time):.1f} %" for name, problem in problems.items())
    return [
        f"Emulated: {note}. Processes, messages, steals, resizes and decisions are real and not scaled.",
        f"A node's share of a core: {shares}.",
    ]


def conclude(
    campaign: Campaign,
    records: Mapping[RunKey, RunRecord],
    reference: Reference | None,
    problems: Mapping[str, Problem],
    site: Site = HERE,
) -> StudyReport:
    """Say what the runs of a campaign show; ``problems``: what their jobs computed."""
    wrong = findings.faults(records)
    batches = {key: record for key, record in records.items() if key.kind == "batch"}
    where = site.spoken(campaign.nodes, os.cpu_count())
    note = (
        f"{where}; one second of the paper lasts {campaign.time:g} s"
        if campaign.paced
        else f"{where}, the paper's problems"
    )
    costs = fidelity.fitted(records, campaign.time)
    replayed = fidelity.replay(records, costs)
    tables, pictures = _tables_and_figures(campaign, records, reference, replayed, note)
    verdicts = judged(batches if _of_paper_size(campaign) else {}, reference if campaign.published else None)
    beside_ours = [_OF_THESE_SEEDS] if campaign.published else []
    claim_columns = ["claim", "where", "paper: change %", "ours: change %", *beside_ours, "verdict"]
    beside, near = fidelity_table(replayed, records)
    repeated, again = repeated_table(fidelity.repeat(records, costs))
    jobs = sum(len(record.jobs) for record in records.values())
    missing = len(campaign.runs()) - len(records)
    remarks = [
        *_emulation(campaign, problems, note),
        _OWN_BATCHES if campaign.published else _DRAWN_BATCHES,
        *([f"{missing} of {len(campaign.runs())} runs still missing."] if missing else []),
        *(_lags(records) if site.hosts is None else []),
        *([f"{study.counted(verdicts)}. {study.HOW_JUDGED}"] if verdicts else []),
        f"Simulated with what was measured: {costs.spoken}. {near}",
        *([again] if again else []),
        *wrong,
    ]
    results = f"{words.plural(len(wrong), 'job')} failed or wrong" if wrong else "every result is right"
    return StudyReport(
        "real-runs",
        "The 2024 paper's batches as real jobs",
        f"Runs: {len(records)}, jobs: {jobs}; {results}. {_gain(batches)}".strip(),
        tuple(remarks),
        (
            *tables,
            beside,
            *([study.claims_table(verdicts, claim_columns)] if verdicts else []),
            repeated,
            runs_table(replayed, records),
            findings.honesty_table(records),
        ),
        pictures,
        passed=not wrong,
        provenance=of_runs(records),
        data=() if reference is None else reference.files,
    )


def _gain(records: Mapping[RunKey, RunRecord]) -> str:
    """What malleability brings, in a sentence: easy without malleable jobs beside malleable with the most of them."""
    found = {cell: means["turnaround_s"] for cell, means in findings.means(records).items()}
    shares = sorted(share for policy, share in found if policy == "malleable")
    rigid = sorted(share for policy, share in found if policy == "easy")
    if not shares or not rigid:
        return ""
    before, after = found["easy", rigid[0]], found["malleable", shares[-1]]
    return (
        f"Mean turnaround: {after:.1f} s under malleable with {shares[-1]} % malleable jobs, {before:.1f} s under easy "
        f"with {rigid[0]} % ({100 * (after / before - 1):+.0f} %)."
    )


def _lags(records: Mapping[RunKey, RunRecord]) -> list[str]:
    """How far the emulation was from what it should be: nodes behind their rate, and others on the machine."""
    cpu = {key: record.provenance["cpu"] for key, record in records.items()}
    remarks = []
    if late := [key for key, used in cpu.items() if used["worst_lag_s"] > LAG_LIMIT_S]:
        worst = max(late, key=lambda key: cpu[key]["worst_lag_s"])
        held_s = sum(busy_node_s(record.jobs) for record in records.values())
        given_up = 100 * sum(used["given_up_s"] for used in cpu.values()) / held_s if held_s else 0.0
        remarks.append(
            f"In {len(late)} of {len(records)} runs a place fell more than {LAG_LIMIT_S} s behind its rate, for the "
            f"cores were busy, most in {worst.spoken}: {cpu[worst]['worst_lag_s']:.2f} s. {given_up:.2f} % of all "
            "node-seconds were given up so; --repeat-lagged SECONDS does such runs again."
        )
    others = {key: used["others_share"] for key, used in cpu.items() if used["others_share"] is not None}
    if others:
        busiest = max(others, key=others.__getitem__)
        own = statistics.fmean(used["share"] for used in cpu.values())
        theirs = statistics.fmean(others.values())
        remarks.append(
            f"The jobs used {100 * own:.0f} % of the cores. Others used {100 * theirs:.0f} % meanwhile, which makes "
            f"starts and resizes slower (most in {busiest.spoken}: {100 * others[busiest]:.0f} %); "
            "--repeat-busy PERCENT does such runs again."
        )
    return remarks


# Which tables and figures show the runs ------------------------------------------------------------------------------


def _of_paper_size(campaign: Campaign) -> bool:
    return (campaign.nodes, campaign.jobs) == (32, 25)


def _tables_and_figures(
    campaign: Campaign,
    records: Mapping[RunKey, RunRecord],
    reference: Reference | None,
    replayed: Sequence[Replayed[RunKey]],
    note: str,
) -> tuple[list[DataTable], dict[str, Picture]]:
    """What shows the runs, that which people look at first before the others; ``note`` says what is emulated."""
    batches = {key: record for key, record in records.items() if key.kind == "batch"}
    beside = reference if _of_paper_size(campaign) else None
    seeds = {key.seed for key in batches} if campaign.published else None  # else the paper's draws are others
    paper = findings.published(beside, campaign.time, seeds)
    found = [
        findings.merit_table(batches, paper),
        findings.costs_table(list(batches.values())),
        findings.orders_table(batches, paper),
    ]
    if campaign.published and beside is not None:
        found.insert(1, findings.beside_table(batches, beside, campaign.time))
    drawn: dict[str, Picture] = {}
    if batches:
        drawn["means"] = draw_means(batches, paper, note)
        drawn["turnaround"] = draw_turnaround(batches, paper, note)
        drawn["costs"] = draw_costs(findings.costs(batches.values()), note)
    if any(key.policy == RESIZING and job.malleable for key, record in batches.items() for job in record.jobs):
        drawn["orders"] = draw_orders(findings.means(batches), paper, note)
    if any(key.kind == "injected" for key in records):
        found.append(findings.injected_table(records))
    if (scaling := records.get(SCALING)) is not None:
        theirs = findings.published_s(reference)
        found.append(findings.scaling_table(scaling, theirs, campaign.time))
        drawn["scaling"] = draw_scaling(findings.computed_s([scaling]), theirs, campaign.time, note)
    if replayed:
        drawn["fidelity"] = draw_runs(replayed, note, "with slower resizes")
    return found, drawn


def of_runs(records: Mapping[RunKey, RunRecord]) -> dict[str, str]:
    """Describe real runs: how many there are, their seeds, when they began."""
    began = sorted(record.started_at for record in records.values())
    return {
        "real runs": str(len(records)),
        "seeds": listed(key.seed for key in records),
        "first run began": began[0],
        "last run began": began[-1],
    }


_WITHIN: Final = ("makespan within the simulated range", "turnaround within it")


def runs_table(replayed: Sequence[Replayed[RunKey]], records: Mapping[RunKey, RunRecord]) -> DataTable:
    """The same run by run."""
    rows = []
    for one in replayed:
        values = chain.from_iterable(fidelity.errors([one]).values())
        covered = ["yes" if one.covers(name) else "no" for name in ("makespan_s", "turnaround_s")]
        rows.append((one.key.spoken, *findings.honest([records[one.key]]), *covered, *values))
    columns = ("run", *findings.HONEST, *_WITHIN, *COMPARED)
    return DataTable("fidelity-runs", "The simulator held against each run", columns, rows)


def fidelity_table(replayed: Sequence[Replayed[RunKey]], records: Mapping[RunKey, RunRecord]) -> tuple[DataTable, str]:
    """The error of the simulator against reality by policy and share, and a sentence on how many means it meets."""
    rows: list[tuple[Value, ...]] = []
    every: list[float] = []
    groups: dict[tuple[str, int, str], list[Replayed[RunKey]]] = {}
    for one in replayed:
        groups.setdefault((one.key.policy, one.key.share, one.key.kind), []).append(one)
    for (policy, share, kind), those in groups.items():
        found = fidelity.errors(those).values()
        every += [abs(error) for *_, error in found]
        slower = ", slower resizes" if kind == "injected" else ""
        weights = findings.honest(records[one.key] for one in those)
        rows.append((policy + slower, share, len(those), *weights, *chain.from_iterable(found)))
    columns = ("policy", "malleable %", "runs", *findings.HONEST, *COMPARED)
    makespans, turnarounds = (sum(one.covers(name) for one in replayed) for name in ("makespan_s", "turnaround_s"))
    sentence = (
        f"{within(every, 'means by policy and share')} Of {len(replayed)} single runs, {makespans} have a makespan and "
        f"{turnarounds} a turnaround among those of {fidelity.REPLICAS} simulations each."
        if every
        else ""
    )
    return DataTable("fidelity", "The simulator held against the runs", columns, rows), sentence


def repeated_table(repeated: Sequence[fidelity.Repeated]) -> tuple[DataTable, str]:
    """How much of each run the simulator repeats if it is given what everything took, and a sentence about all."""
    rows = tuple((one.key.spoken, one.decisions, one.same, one.apart_s) for one in repeated)
    whole = sum(one.same == one.decisions for one in repeated)
    same, decisions = sum(one.same for one in repeated), sum(one.decisions for one in repeated)
    sentence = (
        f"Given what every job's start, computation and resizes took, the simulator repeats {whole} of "
        f"{len(repeated)} runs start by start and order by order: {same} of {decisions} decisions are the same, "
        f"at most {max(one.apart_s for one in repeated):.2f} s apart."
        if repeated
        else ""
    )
    columns = ("run", "decisions", f"the same within {fidelity.SAME_S:g} s", "farthest apart s")
    return DataTable("repeated", "The runs again, with what everything took", columns, rows), sentence


# Figures: scaling (6), costs (7), orders (8) --------------------------------------------------------------------------

_PROGRAMS: Final = ("UTS", "NQueens", "BC", "Pi")


def draw_scaling(ours: findings.ByNodes, paper: findings.ByNodes, time: float, note: str) -> Picture:
    """Figure 6: seconds of each program on each size, ideal ones as thin lines, the paper's, scaled, as hollow marks.

    ``paper`` is not scaled yet, ``time`` are the seconds here for a second of it.
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


def draw_costs(costs: Sequence[findings.Cost], note: str) -> Picture:
    """Figure 7: mean seconds of start, grow and shrink, in the runtime and in the balancer; below them the paper's."""
    rows, found = [], []
    for what, (runtime_s, balancer_s) in findings.PAPER.items():
        those = [cost for cost in costs if cost.what == what]
        ours = [statistics.fmean(getattr(cost, part) for cost in those) if those else None for part in findings.PARTS]
        paper = (runtime_s + balancer_s, runtime_s, balancer_s)
        nodes = statistics.fmean(cost.nodes for cost in those) if those else 0.0
        label = f"{what}, {nodes:.1f} nodes, {len(those)} times" if those else f"{what}, none"
        rows.append(BarRow(label, [Entry(own, None, theirs) for own, theirs in zip(ours, paper, strict=True)]))
        found += [f"a {what} {ours[0]:.2f} s" if ours[0] is not None else f"no {what}"]
    return study.draw_bars(
        ("in all", "runtime", "balancer"),
        rows,
        "{:.2f} s".format,
        f"What starts and resizes take: {', '.join(found)}",
        f"Not scaled (figure 7 of the paper). Hollow: what the paper prints, of real nodes. {note}",
        f"Means of {len(costs)} starts and resizes; hollow bars: the paper's, of real nodes.",
        "Bars: mean seconds of a start, a grow and a shrink, in the runtime and in the balancer.",
    )


def draw_orders(found: findings.Means, paper: findings.Means, note: str) -> Picture:
    """Figure 8: grows and shrinks per malleable job under ``malleable``, by share; below them the paper's."""
    rows = []
    for (policy, share), ours in found.items():
        if policy == RESIZING and findings.ORDERS[0][1] in ours:
            theirs = paper.get((policy, share), {})
            entries = [Entry(ours[name], None, theirs.get(name)) for _, name in findings.ORDERS]
            rows.append(BarRow(f"{share} % malleable", entries))
    most = " and ".join(
        f"{kind}s {max(row.entries[at].value or 0.0 for row in rows):.2f} times"
        for at, (kind, _) in enumerate(findings.ORDERS)
    )
    return study.draw_bars(
        [f"{kind}s" for kind, _ in findings.ORDERS],
        rows,
        "{:.2f}".format,
        f"At any share, a malleable job {most} at most",
        f"Means over malleable jobs under {RESIZING} (figure 8 of the paper). Hollow: what the paper prints. {note}",
        "Means over the batches under malleable; hollow bars: the paper's.",
        "Bars over the share of malleable jobs: grows and shrinks per malleable job.",
    )


RESIZING: Final = "malleable"
"""The policy that the paper is about."""


def draw_means(records: Mapping[RunKey, RunRecord], paper: findings.Means, note: str) -> Picture:
    """Makespan and utilization by share of malleable jobs, with quartiles over the seeds; a column a policy.

    Of the paper there are the means, scaled.
    """
    found = findings.means(records)
    ends, uses = (gained(found, name) for name in ("makespan_s", "utilization"))
    finding = "Makespan and utilization by policy and share of malleable jobs"
    if ends is not None and uses is not None:
        finding = f"{RESIZING} ends batches {less(ends, 'earlier', 'later')} with malleable jobs than with rigid ones"
        finding += f", and uses {less(uses, 'less', 'more')} of the nodes"
    return _by_share(records, paper, ("makespan_s", "utilization"), finding, note)


def draw_turnaround(records: Mapping[RunKey, RunRecord], paper: findings.Means, note: str) -> Picture:
    """Mean turnaround and its parts, wait and runtime, see ``draw_means`` [figure 11]."""
    found = findings.means(records)
    wait, runtime, both = (gained(found, name) for name in ("wait_s", "runtime_s", "turnaround_s"))
    finding = "Turnaround, wait and runtime by policy and share of malleable jobs"
    if wait is not None and runtime is not None and both is not None:
        finding = (
            f"Malleable jobs wait {less(wait, 'less', 'more')} under {RESIZING} than rigid ones and run "
            f"{less(runtime, 'shorter', 'longer')}; turnaround is {less(both, 'less', 'more')}"
        )
    return _by_share(records, paper, ("turnaround_s", "wait_s", "runtime_s"), finding, note)


def _by_share(
    records: Mapping[RunKey, RunRecord], paper: findings.Means, names: Sequence[str], finding: str, note: str
) -> Picture:
    found = findings.cells(records)
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


def gained(found: findings.Means, name: str) -> float | None:
    """What changes under the resizing policy from rigid to all malleable jobs, in percent; None: it was not run."""
    return study.change(*(found.get((RESIZING, share), {}).get(name) for share in (0, 100)))


def less(percent: float, lower: str, higher: str) -> str:
    """Word a change in percent: ``12 % earlier``."""
    return f"{abs(percent):.0f} % {lower if percent < 0 else higher}"


# Claims: do the real runs show the same change? ----------------------------------------------------------------------

_OF_THESE_SEEDS: Final = "paper, of these seeds: change %"


def judged(records: Mapping[RunKey, RunRecord], reference: Reference | None = None) -> list[study.ClaimVerdict]:
    """Judge the claims whose runs are there; ``reference``: what its runs of the same seeds have stands beside."""
    policies = sorted({key.policy for key in records}, key=COMPAT_POLICIES.__contains__)  # as published, if they ran
    names = {findings.STRATEGIES.get(policy, ""): policy for policy in policies}
    beside = findings.published(reference, 1.0, {key.seed for key in records})
    return judge_claims(
        _find(findings.means(records), names), beside=None if reference is None else _find(beside, COMPAT)
    )


def _find(means: findings.Means, names: Mapping[str, str]) -> Find:
    """``names``: those of the policies, by the paper's."""
    return lambda claim: means.get((names.get(claim["policy"], ""), claim["share"]), {}).get(claim["measure"])
