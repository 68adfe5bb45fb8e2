"""The experiment ``sd-real``: real processes that share nodes, under SD-Policy and under static backfill."""

from __future__ import annotations

import itertools
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import structs

from apgas.malleability.core_ids import parsed
from scheduler_bridge.experiments import study
from scheduler_bridge.experiments.real_runs.campaign import Campaign, RunKey
from scheduler_bridge.experiments.real_runs.findings import faults, honesty_table
from scheduler_bridge.experiments.real_runs.findings import measures as of_any_run
from scheduler_bridge.experiments.real_runs.runner import carry_out, quality
from scheduler_bridge.experiments.real_runs.study import LAG_LIMIT_S, of_runs
from scheduler_bridge.experiments.sd_policy.study import CLAIMS
from scheduler_bridge.experiments.study_report import DataTable, Picture, StudyReport, Value
from scheduler_bridge.experiments.sweep import Reporter
from scheduler_bridge.record import JobRecord, RunRecord, Segment, metrics, runtime_s, wait_s
from scheduler_bridge.report import words
from scheduler_bridge.report.charts import BarRow, Entry
from scheduler_bridge.sim.measures import Power
from scheduler_bridge.workloads import TraceJob, Workload
from scheduler_bridge.workloads.generate.models import cirne

_NOTE: Final = (
    "Every job is a real mpiexec with a place on each of its nodes and a thread for each of its cores; orders to use "
    "fewer or more cores are carried out while it computes. What is emulated are the nodes: a core is held to a rate."
)
_STATIC: Final = (
    "Static backfill is the policy conservative: each waiting job has a reservation, as under sd-policy where none "
    "shares. Slowdown is response time by what the same job took under static backfill."
)
_STARTS: Final = (
    "A job here takes seconds, of which its start is a good part; while one starts, another one computes on the same "
    "nodes where they share, so that sharing saves more than it would with jobs of hours."
)
_ENOUGH: Final = 20
"""A batch of fewer jobs is for a look: the paper's claims are not judged by it."""
_ENERGY: Final = "Energy is an estimate from busy and idle nodes, parts of nodes as parts. The paper measured it."


def run(
    folder: Path,
    scale: Scale,
    *,
    announce: Callable[[str], None] = lambda _: None,
    reporter: Reporter = lambda _: None,
) -> StudyReport:
    """Run the batches that ``folder`` does not hold yet, and say what all of them show.

    The scale ``tiny`` is three jobs on two nodes, ``small`` three batches of 30 jobs on eight nodes. For ``folder``,
    ``announce``, ``reporter`` and what is raised see ``carry_out``.
    """
    _, records = carry_out(CAMPAIGNS[scale], folder, announce=announce, reporter=reporter)
    return conclude(CAMPAIGNS[scale], records)


def conclude(campaign: SharedCampaign, records: Mapping[RunKey, RunRecord]) -> StudyReport:
    """Say what the runs of a campaign show, each batch under both policies."""
    from scheduler_bridge.report.gantt import describe, draw

    met = meetings(record for key, record in records.items() if key.policy == SHARED)
    wrong = [*faults(records), *met.clashes]
    found = by_policy(records)
    verdicts = judged(found, enough=campaign.jobs >= _ENOUGH)
    claims = study.claims_table(verdicts, title="The paper's claims on its real run")
    shared = sum(is_guest(job) for key, record in records.items() if key.policy == SHARED for job in record.jobs)
    jobs = sum(len(record.jobs) for record in records.values())
    results = "every result is right" if not wrong else f"{len(wrong)} jobs failed, are wrong or shared a core"
    where = f"{campaign.nodes} nodes of {campaign.cores} cores emulated on one machine of {os.cpu_count()} cores"
    lag_s = max(quality(record)[1] for record in records.values())
    late = f"A place fell {lag_s:.1f} s behind its rate: the cores of the machine were the bottleneck."
    seed = campaign.seeds[0]
    drawn = [record for key, record in records.items() if key.seed == seed]
    return StudyReport(
        "sd-real",
        "SD-Policy on real jobs that share nodes",
        f"{len(records)} runs, {jobs} jobs: {results}; {words.plural(shared, 'job')} started on nodes of others."
        f"{f' {study.counted(verdicts)}.' if campaign.jobs >= _ENOUGH else ''}",
        (
            f"Emulated: {where}.",
            _NOTE,
            f"Cores: {met.said()}",
            _STARTS,
            _STATIC,
            _ENERGY,
            *([late] if lag_s > LAG_LIMIT_S else []),
            *wrong,
        ),
        (merit_table(found), claims, jobs_table(records), honesty_table(records)),
        {
            "changes": draw_changes(found, len(records)),
            "nodes": Picture(
                draw(drawn, finding=_finding(drawn)), f"One batch under both policies, seed {seed}.", describe(drawn)
            ),
        },
        passed=not wrong and shared > 0,
        provenance=of_runs(records),
    )


def _finding(records: Sequence[RunRecord]) -> str:
    """What sharing does to the waits of a batch."""
    waits = {record.policy: words.seconds(metrics(record).mean_wait_s) for record in records}
    return "Mean wait: " + ", ".join(
        f"{wait} under {policy}{', where jobs share nodes' if policy == SHARED else ''}"
        for policy, wait in waits.items()
    )


# Plans: jobs of fixed numbers of nodes that can do with fewer of their cores -----------------------------------------

Scale: TypeAlias = Literal["tiny", "small"]
STATIC: Final = "conservative"
"""Static backfill: every job that waits has a reservation, as under SD-Policy where none shares."""
SHARED: Final = "sd-policy"
_KINDS: Final = ("Pi_8e10", "UTS_18", "NQueens_17")
"""What jobs compute, in turn: cheap ones, so that nodes are slow by being held to a rate."""


def three_jobs(seed: int) -> Workload:
    """A long job on both nodes, which asks for still longer, and two short ones that come soon after it."""
    rows = ((0.0, 8.0, 120.0), (1.0, 1.0, 5.0), (1.5, 1.0, 5.0))
    jobs = tuple(TraceJob(number, at, runs, asks, 2) for number, (at, runs, asks) in enumerate(rows, start=1))
    return Workload(f"three-jobs-{seed}", 2, jobs, synthetic=True)


@dataclass(frozen=True, slots=True)
class SharedCampaign(Campaign):
    """What is run.

    Attributes:
        draw: Draws the batch of a seed, in seconds of this machine.
    """

    draw: Callable[[int], Workload] = three_jobs

    def batch(self, key: RunKey) -> list[TraceJob]:
        """The jobs of a run: malleable within their nodes."""
        return [
            structs.replace(job, job_class="malleable", name=_KINDS[job.job_id % len(_KINDS)])
            for job in self.draw(key.seed).jobs
        ]

    def problems(self) -> list[str]:
        """What the jobs compute."""
        return list(_KINDS)

    def node_s(self, job: TraceJob) -> float:
        """Node-seconds of a job, as drawn."""
        return job.nodes * job.runtime_s * self.time


def _drawn(jobs: int, nodes: int, seed: int) -> Workload:
    """A batch in the form of the paper's workload 5, with requests of up to two minutes."""
    return cirne(jobs, nodes, largest=nodes // 2, seed=seed, load=4.0, requests_s=(10.0, 120.0))


def _campaign(jobs: int, nodes: int, seeds: tuple[int, ...], draw: Callable[[int], Workload]) -> SharedCampaign:
    return SharedCampaign((STATIC, SHARED), (100,), seeds, jobs, nodes, time=1.0, cores=4, draw=draw)


CAMPAIGNS: Final[Mapping[Scale, SharedCampaign]] = {
    "tiny": _campaign(3, 2, (1,), three_jobs),
    "small": _campaign(30, 8, (1, 2, 3), partial(_drawn, 30, 8)),
}


# Findings: figures of merit, and which jobs shared nodes for how long ------------------------------------------------

MEASURES: Final[Mapping[str, str]] = {
    "makespan_s": "makespan s",
    "response_s": "response s",
    "slowdown": "slowdown",
    "energy_wh": "energy Wh",
    "wait_s": "wait s",
    "runtime_s": "runtime s",
    "utilization": "utilization %",
    "guests": "guests %",
    "mates": "mates %",
    "orders": "changes of cores",
}
PAPER: Final = tuple(MEASURES)[:4]
"""Those of the paper's figure 9."""
PRINTED: Final = {claim["measure"]: claim["printed"] for claim in CLAIMS["real"]}
_WHY: Final = (
    "another batch on fewer, emulated nodes; jobs here scale linearly and share no memory bandwidth, the paper's used "
    "nodes better in pairs"
)


def is_guest(job: JobRecord) -> bool:
    """Whether the job was started on nodes of others."""
    return bool(job.segments) and job.segments[0].is_guest


def is_mate(job: JobRecord) -> bool:
    """Whether the job gave cores of its nodes to another one."""
    return not is_guest(job) and any(segment.share < 1 for segment in job.segments)


def changes(job: JobRecord) -> int:
    """How often it went on with another part of its nodes' cores."""
    shares = [segment.share for segment in job.segments]
    return sum(before != after for before, after in itertools.pairwise(shares))


def shared_s(job: JobRecord) -> float:
    """How long it had only a part of its nodes' cores."""
    return sum(segment.to_s - segment.from_s for segment in job.segments if segment.share < 1)


def measures(record: RunRecord, alone_s: Mapping[int, float]) -> dict[str, float]:
    """The figures of merit of a run.

    ``alone_s``: what each job, by its place in the batch, took under static backfill: the paper's static runtime.
    """
    found, power = metrics(record), Power()
    total = found.makespan_s * len(record.nodes)
    joules = found.busy_node_s * power.busy_w + max(0.0, total - found.busy_node_s) * power.idle_w
    responses = [(job.end_s or 0.0) - job.submit_s for job in record.jobs]
    slowdowns = [response / alone_s[at] for at, response in enumerate(responses) if alone_s.get(at)]
    return {
        **of_any_run(record),
        "response_s": statistics.fmean(responses),
        "slowdown": statistics.fmean(slowdowns) if slowdowns else 0.0,
        "energy_wh": joules / 3600,
        "guests": 100 * statistics.fmean(is_guest(job) for job in record.jobs),
        "mates": 100 * statistics.fmean(is_mate(job) for job in record.jobs),
        "orders": float(sum(changes(job) for job in record.jobs)),
    }


def by_policy(records: Mapping[RunKey, RunRecord]) -> dict[str, dict[str, float]]:
    """Means over the batches, by policy."""
    runs: dict[str, list[dict[str, float]]] = {}
    for key, record in records.items():
        static = records[key._replace(policy=STATIC)]
        alone_s = {at: runtime_s(job) or 0.0 for at, job in enumerate(static.jobs)}
        runs.setdefault(key.policy, []).append(measures(record, alone_s))
    return {
        policy: {name: statistics.fmean(run[name] for run in found) for name in MEASURES}
        for policy, found in runs.items()
    }


def gained(found: Mapping[str, Mapping[str, float]], measure: str) -> float | None:
    """From static backfill to SD-Policy, in percent."""
    return study.change(found[STATIC][measure], found[SHARED][measure])


def merit_table(found: Mapping[str, Mapping[str, float]]) -> DataTable:
    """Means over the batches and the changes, beside the paper's."""
    rows: list[tuple[Value, ...]] = [
        (
            title,
            found[STATIC][name],
            found[SHARED][name],
            gained(found, name) if name not in ("guests", "mates", "orders") else None,
            PRINTED[name] if name in PAPER else None,
        )
        for name, title in MEASURES.items()
    ]
    columns = ("mean of the batches", "static backfill", "sd-policy", "change %", "paper, change %")
    return DataTable("means", "SD-Policy beside static backfill", columns, rows)


def judged(found: Mapping[str, Mapping[str, float]], *, enough: bool) -> list[study.ClaimVerdict]:
    """Judge the claims on the paper's real run; by a batch that is not ``enough``, none."""
    claims = [{"policy": SHARED, "than": {"policy": STATIC}, **claim} for claim in CLAIMS["real"]]
    by = study.Judge(lambda claim: found[claim["policy"]][claim["measure"]])
    verdicts = by.verdicts(claims, lambda _: _WHY)
    return verdicts if enough else [replace(verdict, word="not judged", reason="") for verdict in verdicts]


def jobs_table(records: Mapping[RunKey, RunRecord]) -> DataTable:
    """Every job under both policies: waits, runtimes, and what it shared."""
    rows: list[tuple[Value, ...]] = []
    for key, record in records.items():
        if key.policy != SHARED:
            continue
        static = records[key._replace(policy=STATIC)]
        for before, job in zip(static.jobs, record.jobs, strict=True):
            role = "guest" if is_guest(job) else "mate" if is_mate(job) else ""
            least = min((segment.share for segment in job.segments), default=1.0)
            waits, runtimes = map(wait_s, (before, job)), (runtime_s(one) or 0.0 for one in (before, job))
            shared = role, least, shared_s(job), changes(job)
            right = "yes" if job.verified else "no"
            rows.append((f"{key.seed}/{job.name}", job.nodes, *waits, *runtimes, *shared, right))
    columns = (
        "batch/job", "nodes", "wait s, static", "wait s", "runtime s, static", "runtime s", "role",
        "least share of its nodes", "with a part of them for s", "changes of cores", "result right",
    )  # fmt: skip
    return DataTable("jobs", "The jobs under SD-Policy, and under static backfill", columns, rows)


# Cores of jobs that met on a node ------------------------------------------------------------------------------------
#
# The record of a run shows whether such jobs ever had a core of the node in common.


@dataclass(frozen=True, slots=True)
class Meetings:
    """How often two jobs were on a node together, each with the same cores all the time.

    Attributes:
        apart: Without a core in common.
        unknown: Without that the record says which cores they had.
        clashes: With a core in common: who and where.
    """

    apart: int
    unknown: int
    clashes: tuple[str, ...]

    def said(self) -> str:
        """Say what was found, apart from clashes."""
        apart = f"{self.apart} times two jobs were on a node together without a core in common"
        return f"{apart}; of {self.unknown} times the records do not have the cores." if self.unknown else f"{apart}."


def meetings(records: Iterable[RunRecord]) -> Meetings:
    """Look at every two jobs that were on a node at the same time."""
    apart = unknown = 0
    clashes: list[str] = []
    for record in records:
        stays: dict[str, list[tuple[int, Segment, str]]] = {}
        for job in record.jobs:
            for segment in job.segments:
                for node, cores in segment.core_ids_by_node():
                    stays.setdefault(node, []).append((job.job_id, segment, cores))
        for node, there in stays.items():
            for (one, stay, cores), (other, beside, others) in itertools.combinations(there, 2):
                if one == other or stay.from_s >= beside.to_s or beside.from_s >= stay.to_s:
                    continue
                if not (cores and others):
                    unknown += 1
                elif common := set(parsed(cores)) & set(parsed(others)):
                    since_s = max(stay.from_s, beside.from_s)
                    clashes.append(
                        f"jobs {one} and {other} both had the cores {sorted(common)} of {node} at {since_s:.1f} s."
                    )
                else:
                    apart += 1
    return Meetings(apart, unknown, tuple(clashes))


# Figure 9: what changes from static backfill to SD-Policy, beside what the paper prints ------------------------------

_TITLES: Final = ("makespan", "mean response time", "mean slowdown", "energy (here an estimate)")


def draw_changes(found: Mapping[str, Mapping[str, float]], runs: int) -> Picture:
    """A bar a measure, below it what the paper prints."""
    changes = {title: (gained(found, name), PRINTED[name]) for title, name in zip(_TITLES, PAPER, strict=True)}
    said = ", ".join(f"{title} {ours or 0.0:+.1f} %" for title, (ours, _) in changes.items())
    return study.draw_bars(
        ("change in percent",),
        [BarRow(title, [Entry(ours, None, theirs)]) for title, (ours, theirs) in changes.items()],
        "{:+.1f} %".format,
        f"From static backfill to SD-Policy, real jobs: {said}",
        "Left of the line is better; here on emulated nodes. Hollow: what the paper prints, of 49 nodes.",
        f"Means over the batches, {runs} real runs; below zero is better.",
        "Changes from static backfill to SD-Policy beside what the paper prints.",
    )
