"""Findings from the records of the runs: figures of merit, costs of starts and resizes, strong scaling, orders."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from scheduler_bridge.core.settings import settings_for
from scheduler_bridge.experiments import study
from scheduler_bridge.experiments.merit import MEASURES
from scheduler_bridge.experiments.published_runs.cells import COMPAT, CORRECT, Batch, Reference, measured
from scheduler_bridge.experiments.published_runs.cells import RunKey as PublishedKey
from scheduler_bridge.experiments.real_runs.campaign import NODE_S, RunKey, configuration_of
from scheduler_bridge.experiments.study_report import DataTable, Value
from scheduler_bridge.record import JobRecord, ResizeRecord, RunRecord, metrics
from scheduler_bridge.sim.measures import quartiles

Seeds: TypeAlias = Collection[int] | None
Means: TypeAlias = Mapping[tuple[str, int], Mapping[str, float]]
"""By policy and share: of the figures of merit, and ``grows_per_job`` and ``shrinks_per_job`` of malleable jobs."""
ByNodes: TypeAlias = Mapping[str, Mapping[int, float]]
"""Seconds by configuration and nodes."""
STRATEGIES: Final[Mapping[str, str]] = {ours: theirs for table in (COMPAT, CORRECT) for theirs, ours in table.items()}
"""The paper's names of the policies, of those that decide as published and of the correct ones."""
ORDERS: Final[tuple[tuple[Literal["grow", "shrink"], str], ...]] = (
    ("grow", "grows_per_job"),
    ("shrink", "shrinks_per_job"),
)
"""Kinds of orders, and their means by malleable jobs."""
_SCALED: Final = frozenset(MEASURES) - {"utilization"}


def measures(record: RunRecord) -> dict[str, float]:
    """The figures of merit of a run, in seconds of this machine and percent; means over all jobs."""
    found = metrics(record)
    return {
        "makespan_s": found.makespan_s,
        "turnaround_s": found.mean_turnaround_s or 0.0,
        "wait_s": found.mean_wait_s or 0.0,
        "runtime_s": found.mean_runtime_s or 0.0,
        "utilization": 100 * found.utilization,
    }


def by_cell(records: Mapping[RunKey, RunRecord]) -> dict[tuple[str, int], list[RunRecord]]:
    """The runs of all seeds, by policy and share."""
    grouped: dict[tuple[str, int], list[RunRecord]] = {}
    for key, record in records.items():
        grouped.setdefault((key.policy, key.share), []).append(record)
    return grouped


def cells(records: Mapping[RunKey, RunRecord]) -> dict[tuple[str, int], list[dict[str, float]]]:
    """The figures of merit of all seeds, by policy and share."""
    return {cell: [measures(run) for run in runs] for cell, runs in by_cell(records).items()}


def means(records: Mapping[RunKey, RunRecord]) -> Means:
    """Means over the seeds; and over malleable jobs, where there are some, of grows and shrinks."""
    jobs = {cell: _malleable(runs) for cell, runs in by_cell(records).items()}
    return {
        cell: {name: statistics.fmean(run[name] for run in runs) for name in MEASURES}
        | {name: statistics.fmean(job.done(kind) for job in jobs[cell]) for kind, name in ORDERS if jobs[cell]}
        for cell, runs in cells(records).items()
    }


def published(reference: Reference | None, time: float, seeds: Seeds = None) -> Means:
    """The paper's means, its seconds scaled; empty without its data. ``seeds``: of these only."""
    grouped: dict[tuple[str, int], list[Batch]] = {}
    runs = {} if reference is None else reference.runs
    for key, batch in runs.items():
        if seeds is None or key.seed in seeds:
            grouped.setdefault((key.strategy, key.share), []).append(batch)
    theirs: dict[tuple[str, int], dict[str, float]] = {}
    for (strategy, share), batches in grouped.items():
        merits = [measured(batch.jobs) for batch in batches]
        found = {
            name: statistics.fmean(known) * (time if name in _SCALED else 1)
            for name in MEASURES
            if (known := study.known_of(merit.get(name) for merit in merits))
        }
        jobs = [job for batch in batches for job in batch.jobs if job.spec.is_malleable]
        if jobs and strategy == STRATEGIES["malleable"]:
            found |= {name: statistics.fmean(getattr(job, f"{kind}s") for job in jobs) for kind, name in ORDERS}
        if seeds is None and reference and (percent := reference.utilization.get((strategy, share))) is not None:
            found["utilization"] = percent
        theirs |= {(ours, share): found for ours, named in STRATEGIES.items() if named == strategy}
    return theirs


def beside_table(records: Mapping[RunKey, RunRecord], reference: Reference, time: float) -> DataTable:
    """Each of the paper's own batches as it went here, beside the published run of it, whose seconds are scaled."""
    names = [name for name in MEASURES if name in _SCALED]
    rows: list[tuple[Value, ...]] = []
    for key, record in records.items():
        theirs = reference.runs.get(PublishedKey(STRATEGIES.get(key.policy, ""), key.share, key.seed, 0))
        if theirs is None or key.kind != "batch":
            continue
        here, there = measures(record), measured(theirs.jobs)
        row: list[Value] = [key.policy, key.share, key.seed]
        for name in names:
            scaled = there[name] * time
            row += [here[name], scaled, 100 * (here[name] / scaled - 1)]
        rows.append((*row, here["utilization"], there.get("utilization")))
    columns = ["policy", "malleable %", "seed"]
    columns += [column for name in names for column in (MEASURES[name], "paper, scaled", "difference %")]
    columns += [MEASURES["utilization"], "paper"]
    return DataTable("beside", "The paper's own batches, run by run", columns, rows)


def merit_table(records: Mapping[RunKey, RunRecord], paper: Means) -> DataTable:
    """Means over the seeds with their quartiles, and the paper's means beside."""
    columns = ["policy", "malleable %", "runs", *HONEST]
    for title in MEASURES.values():
        columns += [title, "quartiles", "paper, scaled"]
    rows = []
    for (policy, share), runs in by_cell(records).items():
        row: list[Value] = [policy, share, len(runs), *honest(runs)]
        found = [measures(run) for run in runs]
        for name in MEASURES:
            values = [run[name] for run in found]
            row += [statistics.fmean(values), _in_words(values), paper.get((policy, share), {}).get(name)]
        rows.append(tuple(row))
    return DataTable("means", "Means of the batches", columns, rows)


def _in_words(values: list[float]) -> str:
    """The first and third quartile; of one value, nothing."""
    found = quartiles(values) if len(values) > 1 else None
    return "" if found is None else f"{found[0]:.1f} to {found[2]:.1f}"


def orders_table(records: Mapping[RunKey, RunRecord], paper: Means) -> DataTable:
    """Orders per malleable job, the paper's beside, and how many were not carried out [figure 8]."""
    rows: list[tuple[Value, ...]] = []
    ours = means(records)
    for (policy, share), runs in by_cell(records).items():
        if not (jobs := _malleable(runs)):
            continue
        both = (ours[policy, share], paper.get((policy, share), {}))
        counts = [f"{found[name]:.2f}" if name in found else None for _, name in ORDERS for found in both]
        failed = sum(resize.outcome != "done" for job in jobs for resize in job.resizes)
        rows.append((policy, share, len(jobs), *counts, failed, *honest(runs)))
    sizes = ("policy", "malleable %", "malleable jobs")
    columns = ("grows per job", "paper: grows", "shrinks per job", "paper: shrinks", "orders not carried out")
    return DataTable("orders", "Orders per malleable job (fig. 8)", (*sizes, *columns, *HONEST), rows)


def _malleable(records: Iterable[RunRecord]) -> list[JobRecord]:
    return [job for record in records for job in record.jobs if job.malleable]


def injected_table(records: Mapping[RunKey, RunRecord]) -> DataTable:
    """What it changes if resizes take the paper's seconds longer: the same batches without and with it."""
    pairs: dict[int, list[tuple[RunRecord, RunRecord]]] = {}
    for key, slow in records.items():
        plain = records.get(key._replace(kind="batch"))
        if key.kind == "injected" and plain is not None:
            pairs.setdefault(key.share, []).append((plain, slow))
    rows = []
    for share, those in pairs.items():
        for name, which in (("as they are", 0), ("slower", 1)):
            runs = [pair[which] for pair in those]
            found = [measures(run) for run in runs]
            means = [statistics.fmean(run[measure] for run in found) for measure in MEASURES]
            rows.append((share, name, len(runs), *means, *honest(runs)))
    columns = ("malleable %", "resizes", "runs", *MEASURES.values(), *HONEST)
    return DataTable("injected", "Batches under malleable with resizes as slow as the paper's, scaled", columns, rows)


def honesty_table(records: Mapping[RunKey, RunRecord]) -> DataTable:
    """How much scaled time and emulation distort: what is not scaled, beside what is."""
    rows: list[tuple[Value, ...]] = []
    for key, record in records.items():
        cpu = record.provenance["cpu"]
        others = None if cpu["others_share"] is None else 100 * cpu["others_share"]
        rows.append((key.spoken, 100 * cpu["share"], others, cpu["worst_lag_s"], cpu["given_up_s"], *honest([record])))
    columns = ("run", "CPU used %", "by others %", "worst lag s", "given up s", *HONEST)
    return DataTable("emulation", "What the emulation cost", columns, rows)


def faults(records: Mapping[RunKey, RunRecord]) -> list[str]:
    """Jobs that did not complete with the right result."""
    return [
        f"{key.spoken}: {job.name} {job.state}"
        + (f" ({job.reason})" if job.reason else "")
        + ("" if job.verified else ", its result is not the right one")
        for key, record in records.items()
        for job in record.jobs
        if job.state != "completed" or not job.verified
    ]


# What starts and resizes took, split into the runtime's part and the balancer's [figure 7] ---------------------------

PAPER: Final[Mapping[str, tuple[float, float]]] = {"start": (4.27, 1.77), "grow": (6.32, 0.46), "shrink": (14.09, 1.10)}
"""The paper's seconds of runtime and balancer, not scaled. They are its data file's, for its text and figure have grow
and shrink the other way round; the balancer's part of a start contains the connection to the scheduler."""
HONEST: Final = ("resize, % of the mean runtime", "pass interval, % of the batch")
"""How much of what is not scaled weighs, in every table."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What something took in all, and the balancer's part of it; how many nodes came or went."""

    what: Literal["start", "end", "grow", "shrink"]
    nodes: int
    total_s: float
    balancer_s: float = 0.0

    @property
    def runtime_s(self) -> float:
        """The runtime's part."""
        return max(0.0, self.total_s - self.balancer_s)


def decided_s(record: RunRecord) -> dict[int, float]:
    """When it was decided to start each job that has started."""
    starts = {job.job_id: job.start_s for job in record.jobs if job.start_s is not None}
    found = dict(starts)
    for taken in record.reserved:
        if taken.job_id is not None and taken.to_s == starts.get(taken.job_id):
            found[taken.job_id] = min(found[taken.job_id], taken.from_s)
    return found


def took_s(resize: ResizeRecord) -> float | None:
    """From the order to its end, as the scheduler saw it; None: it was not carried out."""
    return resize.done_s - resize.ordered_s if resize.outcome == "done" and resize.done_s is not None else None


def costs(records: Iterable[RunRecord]) -> list[Cost]:
    """Everything that started, ended or was resized."""
    found: list[Cost] = []
    for record in records:
        decided = decided_s(record)
        for job in record.jobs:
            found += _life(job, decided.get(job.job_id))
            for resize in job.resizes:
                if (seconds := took_s(resize)) is not None:
                    own_s = resize.phases.get("pre", 0.0) + resize.phases.get("post", 0.0)
                    found.append(Cost(resize.kind, resize.count, seconds, own_s))
    return found


def _life(job: JobRecord, decided: float | None) -> list[Cost]:
    """A job's start, until it computes, and its end, from when it does no more."""
    result = job.result or {}
    startup = result.get("startup")
    if not startup or decided is None or job.start_s is None or job.end_s is None or "seconds" not in result:
        return []
    own_s = startup["balancer_s"]
    start_s = job.start_s - decided + startup["runtime_s"] + own_s
    end_s = job.end_s - decided - start_s - result["seconds"]
    return [
        Cost("start", len(job.segments[0].nodes), start_s, own_s),
        Cost("end", len(job.segments[-1].nodes), max(0.0, end_s)),
    ]


def costs_table(records: Sequence[RunRecord]) -> DataTable:
    """Starts, ends and resizes by number of nodes, and the paper's means of all."""
    grouped: dict[str, dict[int | str, list[Cost]]] = {what: {} for what in ("start", "end", "grow", "shrink")}
    for cost in sorted(costs(records), key=lambda cost: cost.nodes):
        for size in ("all", cost.nodes):
            grouped[cost.what].setdefault(size, []).append(cost)
    weights = honest(records)
    rows: list[tuple[Value, ...]] = []
    for what, sizes in grouped.items():
        for size, those in sizes.items():
            parts = [statistics.fmean(getattr(cost, name) for cost in those) for name in PARTS]
            paper = PAPER.get(what) if size == "all" else None
            theirs: tuple[Value, ...] = (None, None, None) if paper is None else (sum(paper), *paper)
            rows.append((what, size, len(those), *parts, max(cost.total_s for cost in those), *theirs, *weights))
    columns = ("what", "nodes", "times", "mean s", "runtime s", "balancer s", "longest s")
    paper_columns = ("paper, not scaled s", "its runtime s", "its balancer s")
    return DataTable("costs", "What starts, ends and resizes took (fig. 7)", (*columns, *paper_columns, *HONEST), rows)


PARTS: Final = ("total_s", "runtime_s", "balancer_s")


def honest(records: Iterable[RunRecord]) -> tuple[float | None, float]:
    """How much weighs what is not scaled: a resize beside the mean runtime, the pass interval beside a batch, percent.

    None where nothing was resized. A policy that decides at events only has the pass interval 0.
    """
    resizes, runtimes, passes = [], [], []
    for record in records:
        found = metrics(record)
        runtimes.append(found.mean_runtime_s or 0.0)
        interval_s = settings_for(record.policy).pass_interval_s or 0.0
        passes.append(interval_s / found.makespan_s if found.makespan_s else 0.0)
        resizes += [seconds for job in record.jobs for resize in job.resizes if (seconds := took_s(resize)) is not None]
    if not runtimes:
        return None, 0.0
    mean_s = statistics.fmean(runtimes)
    weight = 100 * statistics.fmean(resizes) / mean_s if resizes and mean_s else None
    return weight, 100 * statistics.fmean(passes)


# How the programs scale: rigid, on every size, beside the paper [figure 6] -------------------------------------------


def configuration(job: JobRecord) -> str:
    """The configuration that a job runs."""
    return job.name.rpartition("-")[0]


def computed_s(records: Iterable[RunRecord]) -> dict[str, dict[int, float]]:
    """Median seconds of the computation of jobs that were never resized, by configuration and nodes."""
    found: dict[str, dict[int, list[float]]] = {}
    for record in records:
        for job in record.jobs:
            seconds = (job.result or {}).get("seconds")
            if seconds and job.verified and job.segments and not job.resizes:
                nodes = len(job.segments[0].nodes)
                found.setdefault(configuration(job), {}).setdefault(nodes, []).append(seconds)
    return {
        name: {nodes: statistics.median(times) for nodes, times in sorted(sizes.items())}
        for name, sizes in sorted(found.items(), key=lambda item: NODE_S.get(item[0], math.inf))
    }


def published_s(reference: Reference | None) -> dict[str, dict[int, float]]:
    """The paper's seconds, start included, not scaled, by configuration and nodes."""
    if reference is None:
        return {}
    return {configuration_of(*program): dict(sorted(sizes.items())) for program, sizes in reference.scaling.items()}


def scaling_table(record: RunRecord, paper: ByNodes, time: float) -> DataTable:
    """Seconds and efficiency of each program on each size; the paper's, ``time`` here for each of them, beside."""
    whole = {(configuration(job), job.nodes): job for job in record.jobs}
    rows: list[tuple[Value, ...]] = []
    for name, sizes in computed_s([record]).items():
        ideal_s = NODE_S[name] * time
        for nodes, seconds in sizes.items():
            job = whole[name, nodes]
            runtime_s = (job.end_s or 0.0) - (job.start_s or 0.0)
            efficiency, rest = 100 * ideal_s / nodes / seconds, 100 * (runtime_s - seconds) / runtime_s
            theirs = paper.get(name, {}).get(nodes)
            scaled = None if theirs is None else theirs * time
            rows.append((name, nodes, seconds, efficiency, runtime_s, rest, scaled))
    columns = (
        "program", "nodes", "computing s", "efficiency %", "runtime s", "start and end, % of it", "paper, scaled s",
    )  # fmt: skip
    return DataTable("scaling", "Rigid strong scaling (fig. 6)", columns, rows)
