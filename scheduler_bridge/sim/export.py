"""What became of a simulation's jobs, for other programs: a table, and a workload that knows how they ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from msgspec import structs

from scheduler_bridge.sim.measures import bounded_slowdown
from scheduler_bridge.sim.models import JobRecord
from scheduler_bridge.sim.speedup import parse_speedup
from scheduler_bridge.workloads import TraceJob, Workload
from scheduler_bridge.workloads.findings import Findings
from scheduler_bridge.workloads.record import Status

Value: TypeAlias = str | int | float | None

_STATUS: Final[dict[str, Status]] = {"completed": "completed", "cancelled": "cancelled"}

COLUMNS: Final = (
    "workload", "policy", "job", "name", "user", "class", "nodes", "min_nodes", "max_nodes", "walltime_s", "submit_s",
    "start_s", "end_s", "wait_s", "runtime_s", "turnaround_s", "slowdown", "bounded_slowdown", "node_s",
    "reserved_node_s", "grows", "shrinks", "outcome", "restarts", "lost_node_s", "overhead_node_s",
)  # fmt: skip
"""Of the table of jobs. Times in seconds; ``node_s`` are node-seconds on which the job computed, ``reserved_node_s``
those that were held for it without use, ``lost_node_s`` and ``overhead_node_s`` what of the former was lost to
failures, and spent on checkpoints and restarts; None: it never started, or never ended."""


def job_rows(records: Iterable[JobRecord], workload: str, policy: str) -> Iterator[tuple[Value, ...]]:
    """A row of the table for each job, in the order of submission.

    Args:
        records: What became of the jobs.
        workload: What was simulated, so that tables can be put together.
        policy: Under which policy.
    """
    for record in records:
        spec, wait_s, runtime_s = record.spec, record.wait_s, record.runtime_s
        turnaround_s = slowdown = bounded = None
        if wait_s is not None and runtime_s is not None:
            turnaround_s = wait_s + runtime_s
            useful_s = record.useful_s or 0.0
            slowdown = turnaround_s / useful_s if useful_s > 0 else None
            bounded = bounded_slowdown(wait_s, runtime_s, useful_s)
        yield (
            workload, policy, spec.job_id, spec.label, spec.user, spec.job_class, spec.nodes, spec.min_nodes,
            spec.max_nodes, spec.walltime_s, spec.submit_s, record.start_s, record.end_s, wait_s, runtime_s,
            turnaround_s, slowdown, bounded, _node_s(record.spans()), _node_s(record.reserved), record.grows,
            record.shrinks, "refused" if record.refused else record.outcome, *_losses(record),
        )  # fmt: skip


def _losses(record: JobRecord) -> tuple[int, float, float]:
    """How often it was run again, and the node-seconds that were lost and that were spent to lose less."""
    if (losses := record.losses) is None:
        return 0, 0.0, 0.0
    overhead_node_s = _node_s(losses.checkpointing) + _node_s(losses.restarting)
    lost_node_s = _node_s(record.spans()) - overhead_node_s if record.outcome == "lost" else _node_s(losses.lost)
    return losses.restarts, lost_node_s, overhead_node_s


def as_it_ran(workload: Workload, records: dict[int, JobRecord], policy: str) -> Workload:
    """The simulated workload with its jobs' waits, outcomes and sizes; what never ran is left out, and counted.

    A job's runtime is still that on the nodes that it asked for, so that the workload can be simulated again; of a job
    that did not complete it is the one that its part of the work would have taken there. Failures and checkpoints are
    no part of it.

    Args:
        workload: What was simulated.
        records: What became of its jobs.
        policy: Under which policy.
    """
    findings = Findings(records=len(workload))
    jobs = [ran for job in workload.jobs if (ran := _as_it_ran(job, records[job.job_id], findings)) is not None]
    source = f"{workload.source or workload.name}, simulated under {policy}"
    return replace(workload, jobs=tuple(jobs), source=source, findings=findings)


def _as_it_ran(job: TraceJob, record: JobRecord, findings: Findings) -> TraceJob | None:
    sizes = _last_run(record)
    start_s = sizes[0][0] if sizes else None
    runtime_s = job.runtime_s if record.outcome == "completed" else _done_s(job, record)
    if start_s is None or record.end_s is None or runtime_s <= 0:
        findings.skip("not over, or never ran")
        return None
    return structs.replace(
        job,
        runtime_s=runtime_s,
        wait_s=max(0.0, start_s - record.spec.submit_s),
        status=_STATUS.get(record.outcome or "", "failed"),
        allocations=tuple((time_s - start_s, nodes) for time_s, nodes in sizes),
    )


def _done_s(job: TraceJob, record: JobRecord) -> float:
    """How long the work that was done would have taken on the nodes that the job asked for; resizes count as work."""
    speedup = parse_speedup(job.speedup)
    done = 0.0
    sizes = _last_run(record)
    for from_s, to_s, used in record.spans():
        nodes = next((nodes for time_s, nodes in reversed(sizes) if time_s <= from_s), 0)
        if not nodes:
            continue  # it was lost
        done += (to_s - from_s) * used / nodes * speedup(nodes)
    return min(job.runtime_s, done / speedup(job.nodes))


def _last_run(record: JobRecord) -> Sequence[tuple[float, int]]:
    """The sizes that it had since it was started last."""
    sizes = list(record.sizes)
    while sizes and sizes[-1][1] == 0:
        sizes.pop()
    lost = [index for index, (_, nodes) in enumerate(sizes) if nodes == 0]
    return sizes[lost[-1] + 1 :] if lost else sizes


def _node_s(spans: Iterable[tuple[float, float, float]]) -> float:
    return sum([(to_s - from_s) * nodes for from_s, to_s, nodes in spans])
