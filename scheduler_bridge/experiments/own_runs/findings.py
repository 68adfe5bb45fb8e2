"""What the records of the runs say: figures of merit by policy and share, what resizes cost, how honest it was."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Final

from scheduler_bridge.experiments.outcome import DataTable, Value
from scheduler_bridge.experiments.own_runs.plan import RunKey
from scheduler_bridge.experiments.real_runs import Costs, Reference, measured
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
    columns = ["policy", "malleable %", "runs"]
    for title in MEASURES.values():
        columns += [title, "quartiles", "paper, scaled"]
    rows = []
    for (policy, share), runs in cells(records).items():
        row: list[Value] = [policy, share, len(runs)]
        for name in MEASURES:
            values = [run[name] for run in runs]
            row += [statistics.fmean(values), quartiles(values), paper.get((policy, share), {}).get(name)]
        rows.append(tuple(row))
    return DataTable("means", "Means of the batches", tuple(columns), tuple(rows))


def quartiles(values: list[float]) -> str:
    """The first and third quartile, in words; of one value, nothing."""
    if len(values) < 2:
        return ""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{low:.1f} to {high:.1f}"


def orders_table(records: Mapping[RunKey, RunRecord]) -> DataTable:
    """Orders per malleable job, and how many were not carried out [figure 8]."""
    grouped: dict[tuple[str, int], list[JobRecord]] = {}
    for key, record in records.items():
        jobs = [job for job in record.jobs if job.malleable]
        if jobs:
            grouped.setdefault((key.policy, key.share), []).extend(jobs)
    rows = [
        (
            policy,
            share,
            len(jobs),
            statistics.fmean(job.done("grow") for job in jobs),
            statistics.fmean(job.done("shrink") for job in jobs),
            sum(resize.outcome != "done" for job in jobs for resize in job.resizes),
        )
        for (policy, share), jobs in grouped.items()
    ]
    columns = ("policy", "malleable %", "malleable jobs", "grows per job", "shrinks per job", "orders not carried out")
    return DataTable("orders", "Orders per malleable job", columns, tuple(rows))


def costs_table(records: Iterable[RunRecord]) -> DataTable:
    """What starts, grows and shrinks took, split into the runtime's phases and those of the balancer [figure 7]."""
    jobs = [job for record in records for job in record.jobs]
    starts = [
        job.end_s - job.start_s - job.result["seconds"]
        for job in jobs
        if job.start_s is not None and job.end_s is not None and job.result and "seconds" in job.result
    ]
    rows: list[tuple[Value, ...]] = []
    if starts:
        rows.append(("start and end", "", len(starts), statistics.fmean(starts), None, None, max(starts)))
    done: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for job in jobs:
        for resize in job.resizes:
            if resize.outcome == "done" and resize.seconds is not None:
                balancer_s = resize.phases.get("pre", 0.0) + resize.phases.get("post", 0.0)
                total_s = resize.seconds + (resize.phases.get("post", 0.0) if resize.kind == "grow" else 0.0)
                done.setdefault((resize.kind, resize.count), []).append((total_s, balancer_s))
    for (kind, count), taken in sorted(done.items()):
        totals = [total for total, _ in taken]
        of_balancer = statistics.fmean(balancer for _, balancer in taken)
        mean = statistics.fmean(totals)
        rows.append((kind, count, len(taken), mean, max(0.0, mean - of_balancer), of_balancer, max(totals)))
    columns = ("what", "nodes", "times", "mean s", "runtime s", "balancer s", "longest s")
    return DataTable("costs", "What starts and resizes took", columns, tuple(rows))


def honesty_table(records: Mapping[RunKey, RunRecord]) -> DataTable:
    """How much scaled time and emulation distort: what is not scaled, beside what is."""
    rows: list[tuple[Value, ...]] = []
    for key, record in records.items():
        found = metrics(record)
        resizes = [resize for job in record.jobs for resize in job.resizes if resize.seconds is not None]
        mean_s = statistics.fmean(resize.seconds or 0.0 for resize in resizes) if resizes else None
        cpu = record.provenance["cpu"]
        rows.append(
            (
                key.spoken,
                100 * mean_s / found.mean_runtime_s if mean_s is not None and found.mean_runtime_s else None,
                100 * cpu["share"],
                None if cpu["others_share"] is None else 100 * cpu["others_share"],
                cpu["worst_lag_s"],
                cpu["given_up_s"],
            )
        )
    columns = ("run", "resize, % of the mean runtime", "CPU used %", "by others %", "worst lag s", "given up s")
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
