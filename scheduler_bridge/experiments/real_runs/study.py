"""The experiment ``real-runs``: the 2024 paper's evaluation on real processes."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from scheduler_bridge.daemon.trial import CalibrationError, import_path
from scheduler_bridge.experiments import study
from scheduler_bridge.experiments.merit import COMPARED, LIMIT, Held, draw_runs
from scheduler_bridge.experiments.published_runs.cells import COMPAT, Reference, read_reference
from scheduler_bridge.experiments.published_runs.study import Find, judge_claims
from scheduler_bridge.experiments.real_runs import fidelity, figures, findings
from scheduler_bridge.experiments.real_runs.campaign import (
    CAMPAIGNS,
    COMPAT_POLICIES,
    HERE,
    SCALING,
    Campaign,
    Problem,
    RunKey,
    Scale,
    Site,
    alone_in,
    calibrate,
    of_paper_size,
)
from scheduler_bridge.experiments.real_runs.runner import Again, Runner, Watcher, all_kept, run_all
from scheduler_bridge.experiments.study_report import DataTable, Picture, StudyReport, Value, listed
from scheduler_bridge.record import RunRecord, busy_node_s
from scheduler_bridge.report import words
from scheduler_bridge.workloads import TraceError

NAME: Final = "real-runs"
_OWN_BATCHES: Final = "The batches are the paper's own: the same jobs of the same sizes, submitted at the same times."
_DRAWN_BATCHES: Final = (
    "The batches are drawn from the paper's table of configurations with its seeds; the paper's own draws differ."
)
LAG_LIMIT_S: Final = 0.25
"""A place that lags more behind its rate had too little of the cores."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be run.

    Attributes:
        scale: How much.
        data: The folder with the paper's results, to show them beside; None: without.
        published: Whether the batches are the paper's own; else they are drawn like them.
        second_s: How long a second of the paper lasts; None: the scale's.
        site: Where the nodes are.

    Raises:
        TraceError: ``data`` holds no results of the paper, or its own batches are asked for without it.
    """

    scale: Scale
    data: Path | None = None
    published: bool = False
    second_s: float | None = None
    site: Site = HERE

    @cached_property
    def reference(self) -> Reference | None:
        """The paper's results."""
        return None if self.data is None else read_reference(self.data)

    @cached_property
    def campaign(self) -> Campaign:
        """The runs.

        Raises:
            DaemonError: The site's file of hosts is wrong.
        """
        campaign = CAMPAIGNS[self.scale]
        if self.published:
            if self.reference is None:
                raise TraceError("the published batches are in the reference data, which is not given")
            campaign = campaign.as_published(self.reference)
        if self.second_s is not None:
            campaign = replace(campaign, time=self.second_s)
        return campaign.at(self.site)


def run(
    folder: Path,
    asked: Asked,
    *,
    announce: Callable[[str], None] = lambda _: None,
    watcher: Watcher | None = None,
    again: Again | None = None,
) -> StudyReport:
    """Run the batches that ``folder`` does not hold yet, and say what all of them show.

    Args:
        folder: Keeps the record of every run; an interrupted experiment goes on there.
        asked: Which.
        announce: Called with lines about what is prepared.
        watcher: Sees the runs go on.
        again: Which runs are done again although they are there.

    Raises:
        TraceError: There are no results of the paper where they should be.
        CalibrationError: A benchmark does not run.
        DaemonError: The scheduler cannot start, or another experiment runs in the folder.
        OSError: A record cannot be written.
    """
    campaign, site = asked.campaign, asked.site
    folder.mkdir(parents=True, exist_ok=True)
    environment = {"PYTHONPATH": import_path()}
    with alone_in(folder, site):
        if campaign.paced:
            problems = calibrate(campaign.problems(), folder, environment, announce)
        else:
            problems = of_paper_size(campaign.problems())
        records = run_all(Runner(campaign, problems, folder, environment, site), watcher, again)
    return conclude(campaign, records, asked.reference, problems, site)


def report(folder: Path, asked: Asked) -> StudyReport:
    """Say what the runs show that ``folder`` holds already; nothing is run.

    Args:
        folder: Where they were kept.
        asked: Which.

    Raises:
        TraceError: There are no results of the paper where they should be.
        CalibrationError: ``folder`` holds no calibration, or no run of this scale.
    """
    campaign = asked.campaign
    problems = calibrate(campaign.problems(), folder, None) if campaign.paced else of_paper_size(campaign.problems())
    records = all_kept(Runner(campaign, problems, folder))
    if not records:
        raise CalibrationError(f"{folder} holds no run of the scale {asked.scale}")
    return conclude(campaign, records, asked.reference, problems, asked.site)


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
    """Say what the runs show.

    Args:
        campaign: What was run.
        records: Its runs.
        reference: The paper's results, if they are at hand.
        problems: What the jobs computed.
        site: Where.
    """
    wrong = findings.faults(records)
    batches = {key: record for key, record in records.items() if key.kind == "batch"}
    where = site.spoken(campaign.nodes, os.cpu_count())
    note = (
        f"{where}; one second of the paper lasts {campaign.time:g} s"
        if campaign.paced
        else f"{where}, the paper's problems"
    )
    costs = fidelity.fitted(records, campaign.time)
    held = fidelity.hold(records, costs)
    tables, pictures = _tables_and_figures(campaign, records, reference, held, note)
    verdicts = judged(batches if _of_paper_size(campaign) else {}, reference if campaign.published else None)
    beside_ours = [_OF_THESE_SEEDS] if campaign.published else []
    claim_columns = ["claim", "where", "paper: change %", "ours: change %", *beside_ours, "verdict"]
    beside, within = fidelity_table(held, records)
    repeated, again = repeated_table(fidelity.repeat(records, costs))
    jobs = sum(len(record.jobs) for record in records.values())
    missing = len(campaign.runs()) - len(records)
    remarks = [
        *_emulation(campaign, problems, note),
        _OWN_BATCHES if campaign.published else _DRAWN_BATCHES,
        *([f"{missing} of {len(campaign.runs())} runs still missing."] if missing else []),
        *(_lags(records) if site.hosts is None else []),
        *([f"{study.counted(verdicts)}. {study.HOW_JUDGED}"] if verdicts else []),
        f"Simulated with what was measured: {costs.spoken}. {within}",
        *([again] if again else []),
        *wrong,
    ]
    verdict = (
        f"Runs: {len(records)}, jobs: {jobs}; every result is right."
        if not wrong
        else f"Runs: {len(records)}, jobs: {jobs}; {words.plural(len(wrong), 'job')} failed or wrong."
    )
    return StudyReport(
        NAME,
        "The 2024 paper's batches as real jobs",
        f"{verdict} {_gain(batches)}".strip(),
        tuple(remarks),
        (
            *tables,
            beside,
            *([study.claims_table(verdicts, claim_columns)] if verdicts else []),
            repeated,
            runs_table(held, records),
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
    held: Sequence[Held[RunKey]],
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
        drawn["means"] = figures.draw_means(batches, paper, note)
        drawn["turnaround"] = figures.draw_turnaround(batches, paper, note)
        drawn["costs"] = figures.draw_costs(findings.costs(batches.values()), note)
    if any(key.policy == figures.RESIZING and job.malleable for key, record in batches.items() for job in record.jobs):
        drawn["orders"] = figures.draw_orders(findings.means(batches), paper, note)
    if any(key.kind == "injected" for key in records):
        found.append(findings.injected_table(records))
    if (scaling := records.get(SCALING)) is not None:
        theirs = findings.published_s(reference)
        found.append(findings.scaling_table(scaling, theirs, campaign.time))
        drawn["scaling"] = figures.draw_scaling(findings.computed_s([scaling]), theirs, campaign.time, note)
    if held:
        drawn["fidelity"] = draw_runs(held, note, "slower resizes")
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


def runs_table(held: Sequence[Held[RunKey]], records: Mapping[RunKey, RunRecord]) -> DataTable:
    """The same run by run."""
    rows = []
    for one in held:
        found = fidelity.errors([one]).values()
        within = ["yes" if one.covers(name) else "no" for name in ("makespan_s", "turnaround_s")]
        values = (value for triple in found for value in triple)
        rows.append((one.key.spoken, *findings.honest([records[one.key]]), *within, *values))
    columns = ("run", *findings.HONEST, *_WITHIN, *COMPARED)
    return DataTable("fidelity-runs", "The simulator held against each run", columns, rows)


def fidelity_table(held: Sequence[Held[RunKey]], records: Mapping[RunKey, RunRecord]) -> tuple[DataTable, str]:
    """The error of the simulator against reality by policy and share, and a sentence on how many means it meets."""
    rows: list[tuple[Value, ...]] = []
    every: list[float] = []
    groups: dict[tuple[str, int, str], list[Held[RunKey]]] = {}
    for one in held:
        groups.setdefault((one.key.policy, one.key.share, one.key.kind), []).append(one)
    for (policy, share, kind), those in groups.items():
        found = fidelity.errors(those)
        row: list[Value] = [policy + (", slower resizes" if kind == "injected" else ""), share, len(those)]
        row += findings.honest(records[one.key] for one in those)
        for real, simulated, error in found.values():
            row += [real, simulated, error]
            every.append(abs(error))
        rows.append(tuple(row))
    columns = ("policy", "malleable %", "runs", *findings.HONEST, *COMPARED)
    inside = sum(error <= LIMIT for error in every)
    makespans, turnarounds = (sum(one.covers(name) for one in held) for name in ("makespan_s", "turnaround_s"))
    sentence = (
        f"{inside} of {len(every)} means by policy and share are within {LIMIT:g} % of what was measured, "
        f"the farthest is off by {max(every):.1f} %. Of {len(held)} single runs, {makespans} have a makespan and "
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
