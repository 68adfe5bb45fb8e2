"""Findings from the records of the runs: figures of merit by policy and share, orders, how honest it was."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Final

from scheduler_bridge.experiments.outcome import DataTable, Value
from scheduler_bridge.experiments.published_runs import Costs, Reference, measured
from scheduler_bridge.experiments.published_runs.data import RealJob
from scheduler_bridge.experiments.real_runs.costs import HONEST, honest
from scheduler_bridge.experiments.real_runs.plan import RunKey
from scheduler_bridge.record import JobRecord, RunRecord, metrics

MEASURES: Final[Mapping[str, str]] = {
    "makespan_s": "makespan s",
    "turnaround_s": "turnaround s",
    "wait_s": "wait s",
    "runtime_s": "runtime s",
    "utilization": "utilization %",
}
PUBLISHED: Final[Mapping[str, str]] = {
    "fcfs": "FCFS",
    "backfilling": "Backfilling",
    "easy": "EasyBackfilling",
    "malleable": "MalleableStrategy",
}
"""The paper's names of the policies."""
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


def cells(records: Mapping[RunKey, RunRecord]) -> dict[tuple[str, int], list[dict[str, float]]]:
    """The figures of merit of all seeds, by policy and share."""
    grouped: dict[tuple[str, int], list[dict[str, float]]] = {}
    for key, record in records.items():
        grouped.setdefault((key.policy, key.share), []).append(measures(record))
    return grouped


def published(reference: Reference | None, time: float) -> dict[tuple[str, int], dict[str, float]]:
    """The paper's means by policy and share, its seconds scaled; empty without its data."""
    if reference is None:
        return {}
    costs = Costs()
    grouped: dict[tuple[str, int], list[dict[str, float | None]]] = {}
    for key, jobs in reference.runs.items():
        found = measured(jobs, costs)
        grouped.setdefault((key.strategy, key.share), []).append({name: getattr(found, name) for name in MEASURES})
    means: dict[tuple[str, int], dict[str, float]] = {}
    ours = {theirs: name for name, theirs in PUBLISHED.items()}
    for (strategy, share), runs in grouped.items():
        found_means = {
            name: statistics.fmean(known) * (time if name in _SCALED else 1)
            for name in MEASURES
            if len(known := [value for run in runs if (value := run[name]) is not None]) == len(runs)
        }
        if (percent := reference.utilization.get((strategy, share))) is not None:
            found_means["utilization"] = percent
        means[ours[strategy], share] = found_means
    return means


def merit_table(records: Mapping[RunKey, RunRecord], paper: Mapping[tuple[str, int], Mapping[str, float]]) -> DataTable:
    """Means over the seeds with their quartiles, and the paper's means beside."""
    columns = ["policy", "malleable %", "runs", *HONEST]
    for title in MEASURES.values():
        columns += [title, "quartiles", "paper, scaled"]
    rows = []
    for (policy, share), runs in cells(records).items():
        row: list[Value] = [policy, share, len(runs), *honest(_of(records, policy, share))]
        for name in MEASURES:
            values = [run[name] for run in runs]
            row += [statistics.fmean(values), quartiles(values), paper.get((policy, share), {}).get(name)]
        rows.append(tuple(row))
    return DataTable("means", "Means of the batches", tuple(columns), tuple(rows))


def _of(records: Mapping[RunKey, RunRecord], policy: str, share: int) -> list[RunRecord]:
    return [record for key, record in records.items() if (key.policy, key.share) == (policy, share)]


def quartiles(values: list[float]) -> str:
    """The first and third quartile, in words; of one value, nothing."""
    if len(values) < 2:
        return ""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{low:.1f} to {high:.1f}"


def orders(records: Mapping[RunKey, RunRecord]) -> dict[tuple[str, int], tuple[float, float]]:
    """Grows and shrinks per malleable job, by policy and share, where there are such jobs."""
    return {
        cell: (statistics.fmean(job.done("grow") for job in jobs), statistics.fmean(job.done("shrink") for job in jobs))
        for cell, jobs in _malleable(records).items()
    }


def published_orders(reference: Reference | None) -> dict[int, tuple[float, float]]:
    """The paper's grows and shrinks per malleable job under its malleable policy, by share."""
    if reference is None:
        return {}
    jobs: dict[int, list[RealJob]] = {}
    for key, batch in reference.runs.items():
        if key.strategy == PUBLISHED["malleable"]:
            jobs.setdefault(key.share, []).extend(job for job in batch if job.malleable)
    return {
        share: (statistics.fmean(job.grows for job in those), statistics.fmean(job.shrinks for job in those))
        for share, those in sorted(jobs.items())
        if those
    }


def orders_table(records: Mapping[RunKey, RunRecord], paper: Mapping[int, tuple[float, float]]) -> DataTable:
    """Orders per malleable job, the paper's beside, and how many were not carried out [figure 8]."""
    jobs = _malleable(records)
    rows = []
    for (policy, share), (grows, shrinks) in orders(records).items():
        theirs = paper.get(share) if policy == "malleable" else None
        failed = sum(resize.outcome != "done" for job in jobs[policy, share] for resize in job.resizes)
        rows.append(
            (
                policy,
                share,
                len(jobs[policy, share]),
                f"{grows:.2f}",
                None if theirs is None else f"{theirs[0]:.2f}",
                f"{shrinks:.2f}",
                None if theirs is None else f"{theirs[1]:.2f}",
                failed,
                *honest(_of(records, policy, share)),
            )
        )
    columns = (
        "policy",
        "malleable %",
        "malleable jobs",
        "grows per job",
        "paper: grows",
        "shrinks per job",
        "paper: shrinks",
    )
    return DataTable(
        "orders", "Orders per malleable job (fig. 8)", (*columns, "orders not carried out", *HONEST), tuple(rows)
    )


def _malleable(records: Mapping[RunKey, RunRecord]) -> dict[tuple[str, int], list[JobRecord]]:
    grouped: dict[tuple[str, int], list[JobRecord]] = {}
    for key, record in records.items():
        if jobs := [job for job in record.jobs if job.malleable]:
            grouped.setdefault((key.policy, key.share), []).extend(jobs)
    return grouped


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
    return DataTable(
        "injected", "Batches under malleable with resizes as slow as the paper's, scaled", columns, tuple(rows)
    )


def honesty_table(records: Mapping[RunKey, RunRecord]) -> DataTable:
    """How much scaled time and emulation distort: what is not scaled, beside what is."""
    rows: list[tuple[Value, ...]] = []
    for key, record in records.items():
        cpu = record.provenance["cpu"]
        rows.append(
            (
                key.spoken,
                100 * cpu["share"],
                None if cpu["others_share"] is None else 100 * cpu["others_share"],
                cpu["worst_lag_s"],
                cpu["given_up_s"],
                *honest([record]),
            )
        )
    columns = ("run", "CPU used %", "by others %", "worst lag s", "given up s", *HONEST)
    return DataTable("emulation", "What the emulation cost", columns, tuple(rows))


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
