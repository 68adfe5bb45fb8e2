"""The scheduler's history as a workload, to see what another policy would have made of last week.

What a job would have taken on the nodes that it asked for is computed from the nodes that it had, and from the part of
their cores that it could use where it shared them: the work that was done is the same. How malleable jobs
scale is an assumption: as the scheduler believed, unless another law is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from scheduler_bridge.record import JobRecord, RunRecord, Segment
from scheduler_bridge.workloads.findings import Findings, TraceError
from scheduler_bridge.workloads.record import Status, TraceJob, Workload, in_order

_STATUS: dict[str, Status] = {"completed": "completed", "cancelled": "cancelled"}


@dataclass(frozen=True, slots=True)
class Law:
    """How jobs are assumed to scale.

    Attributes:
        text: As a speedup of ``TraceJob``.
        at: How fast a job is on a number of nodes; only ratios count.
    """

    text: str
    at: Callable[[int], float]


def power(rho: float) -> Law:
    """On n nodes n^(1 - rho) times as fast as on one, as the scheduler believes [MEBF, section 2.2; D]."""
    if rho == 0:
        return Law("linear", float)
    return Law(f"power:{rho!r}", lambda nodes: nodes ** (1.0 - rho))


def workload_of(record: RunRecord, *, name: str = "history", law: Law | None = None) -> Workload:
    """The jobs of a run that are over; the others are counted in the findings.

    Args:
        record: What the scheduler, live or simulated, left behind.
        name: Of the workload.
        law: How malleable jobs scale; None: each by the rho that the scheduler believed in.

    Raises:
        TraceError: No job is over.
    """
    findings = Findings(records=len(record.jobs))
    jobs = in_order(_jobs(record, law, findings))
    if not jobs:
        raise TraceError(
            f"{name}: no job is over", f"the record has {len(record.jobs)} jobs", "export the history after some ended"
        )
    return Workload(
        name=name,
        nodes=len(record.nodes),
        jobs=jobs,
        source=f"history under {record.policy}",
        start_unix_s=_unix(record.started_at),
        findings=findings,
    )


def _jobs(record: RunRecord, law: Law | None, findings: Findings) -> Iterator[TraceJob]:
    first_s = min((job.submit_s for job in record.jobs), default=0.0)
    for job in record.jobs:
        assumed = (law or power(job.rho)) if job.malleable else power(0.0)
        runtime_s = _runtime(job, assumed.at)
        if job.start_s is None or job.end_s is None or runtime_s <= 0:
            findings.skip("not over, or never ran")
            continue
        yield TraceJob(
            job_id=job.job_id,
            submit_s=max(0.0, _requested_s(job) - min(0.0, first_s)),
            runtime_s=runtime_s,
            walltime_s=job.walltime_s,
            nodes=job.nodes,
            min_nodes=job.min_nodes,
            max_nodes=job.max_nodes,
            job_class="malleable" if job.malleable else "rigid",
            user=job.user,
            name=job.name,
            wait_s=max(0.0, job.start_s - job.submit_s),
            status=_STATUS.get(job.state, "failed"),
            rho=job.rho,
            speedup=assumed.text,
            allocations=tuple((part.from_s - job.start_s, len(part.nodes)) for part in _last_run(job)),
            after_ok=job.after_ok,
            after_any=job.after_any,
        )


def _runtime(job: JobRecord, speedup: Callable[[int], float]) -> float:
    """Seconds that the job would have taken on the nodes that it asked for."""
    work = sum((part.to_s - part.from_s) * part.share * speedup(len(part.nodes)) for part in _last_run(job))
    return work / speedup(job.nodes)


def _last_run(job: JobRecord) -> list[Segment]:
    """The segments since it was started last: what it did before it was lost and run again was lost, too."""
    return [part for part in job.segments if job.start_s is None or part.from_s >= job.start_s]


def _requested_s(job: JobRecord) -> float:
    """When it was asked for; one that came after others was submitted later."""
    return job.submit_s if job.requested_s is None else job.requested_s


def _unix(started_at: str) -> float | None:
    try:
        return datetime.fromisoformat(started_at).timestamp()
    except ValueError:
        return None
