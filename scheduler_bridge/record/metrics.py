"""The figures of merit of a run: pure functions of its record.

Terms as in the field: wait = start - submission, runtime = end - start, turnaround = wait + runtime, makespan of a
batch = first submission to last end. Utilization always states its denominator: all nodes times the makespan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler_bridge.record.model import JobRecord, RunRecord

UTILIZATION_DENOMINATOR = "nodes x makespan"
_LAST_JOBS: Final = 10
"""The jobs that count for the accuracy of a user's walltimes, as in the scheduler [2016 paper]."""


class Metrics(msgspec.Struct, frozen=True):
    """Means over the ended jobs of a record, or over one class of them; None where no job counts."""

    jobs: int
    ended: int
    mean_wait_s: float | None
    mean_runtime_s: float | None
    mean_turnaround_s: float | None
    makespan_s: float
    utilization: float
    busy_node_s: float
    grows: int
    shrinks: int


def wait_s(job: JobRecord) -> float | None:
    """Seconds from submission to start; None for a job that never started."""
    return None if job.start_s is None else job.start_s - job.submit_s


def runtime_s(job: JobRecord) -> float | None:
    """Seconds from start to end; None for a job that did not start or has not ended."""
    return None if job.start_s is None or job.end_s is None else job.end_s - job.start_s


def turnaround_s(job: JobRecord) -> float | None:
    """Seconds from submission to end; None for a job that did not start or has not ended."""
    return None if job.start_s is None or job.end_s is None else job.end_s - job.submit_s


def nodes_over_time(job: JobRecord) -> list[tuple[float, int]]:
    """The job's allocation as steps: (since when, how many nodes)."""
    steps: list[tuple[float, int]] = []
    for segment in job.segments:
        if not steps or steps[-1][1] != len(segment.nodes):
            steps.append((segment.from_s, len(segment.nodes)))
    return steps


def first_submission_s(record: RunRecord) -> float:
    """When the batch began; 0 for a record without jobs."""
    return min((job.submit_s for job in record.jobs), default=0.0)


def open_jobs(record: RunRecord) -> int:
    """How many jobs wait or run at the last observation: none, if the run is over."""
    return sum(job.end_s is None and job.state != "refused" for job in record.jobs)


def last_end_s(record: RunRecord) -> float:
    """When the last job ended, or the last observation while one has not ended."""
    if open_jobs(record):
        return record.end_s
    return max((job.end_s for job in record.jobs if job.end_s is not None), default=record.end_s)


def makespan_s(record: RunRecord) -> float:
    """First submission to last end, in seconds."""
    return max(0.0, last_end_s(record) - first_submission_s(record))


def busy_node_s(jobs: Iterable[JobRecord]) -> float:
    """Node-seconds that jobs held (not: computed on; a resize counts as held until it is done).

    Of nodes that jobs share each counts with its part of the cores.
    """
    return sum(
        (segment.to_s - segment.from_s) * len(segment.nodes) * segment.share for job in jobs for segment in job.segments
    )


def utilization(record: RunRecord) -> float:
    """Held node-seconds over ``UTILIZATION_DENOMINATOR``; 0 for an empty record."""
    available = len(record.nodes) * makespan_s(record)
    return busy_node_s(record.jobs) / available if available > 0 else 0.0


def busy_steps(record: RunRecord) -> list[tuple[float, float]]:
    """Number of nodes held by jobs as steps (since when, how many); shared ones in parts."""
    changes = [
        change
        for job in record.jobs
        for segment in job.segments
        for held in (len(segment.nodes) * segment.share,)
        for change in ((segment.from_s, held), (segment.to_s, -held))
    ]
    return _steps(changes)


def waiting_steps(record: RunRecord) -> list[tuple[float, float]]:
    """Number of jobs submitted but not started as steps (since when, how many)."""
    changes: list[tuple[float, float]] = []
    for job in record.jobs:
        if job.state == "refused":
            continue
        changes.append((job.submit_s, 1))
        until = job.start_s if job.start_s is not None else job.end_s
        if until is not None:
            changes.append((until, -1))
    return _steps(changes)


def _steps(changes: list[tuple[float, float]]) -> list[tuple[float, float]]:
    steps: list[tuple[float, float]] = []
    level = 0.0
    for at_s, delta in sorted(changes):
        level = round(level + delta, 9)  # parts of nodes add up to whole ones
        if steps and steps[-1][0] == at_s:
            steps[-1] = (at_s, level)
        else:
            steps.append((at_s, level))
    # A zero-length dip (one job's end and the next one's start at one instant) leaves no step behind.
    return [step for index, step in enumerate(steps) if index == 0 or step[1] != steps[index - 1][1]]


def metrics(record: RunRecord, job_class: str | None = None) -> Metrics:
    """Summarize ``record``, or only its jobs of ``job_class``.

    ``makespan_s`` is always that of the whole batch; ``utilization`` is what the counted jobs held of all nodes times
    that makespan, so that the classes add up to the whole.
    """
    jobs = [job for job in record.jobs if job_class is None or job.job_class == job_class]
    makespan = makespan_s(record)
    held = busy_node_s(jobs)
    return Metrics(
        jobs=len(jobs),
        ended=sum(1 for job in jobs if job.end_s is not None),
        mean_wait_s=_mean(wait_s, jobs),
        mean_runtime_s=_mean(runtime_s, jobs),
        mean_turnaround_s=_mean(turnaround_s, jobs),
        makespan_s=makespan,
        utilization=held / (len(record.nodes) * makespan) if makespan > 0 and record.nodes else 0.0,
        busy_node_s=held,
        grows=sum(job.done("grow") for job in jobs),
        shrinks=sum(job.done("shrink") for job in jobs),
    )


def _mean(measure: Callable[[JobRecord], float | None], jobs: Iterable[JobRecord]) -> float | None:
    values = [value for value in map(measure, jobs) if value is not None]
    return sum(values) / len(values) if values else None


# Use by user ---------------------------------------------------------------------------------------------------------


class UserUse(msgspec.Struct, frozen=True):
    """One user.

    Attributes:
        user: Who; empty where jobs had no user.
        jobs: Submitted jobs that were taken.
        completed: Those that completed.
        failed: Those that failed, were lost, or were ended at their walltime.
        open: Those that wait, also if they are held, or run.
        node_s: Seconds of nodes that they held; of nodes that they shared, their part.
        mean_wait_s: Mean wait of the jobs that started; None if none did.
        mean_runtime_s: Mean runtime of those that ended; None if none did.
        accuracy: Mean part of the walltime that the last ten jobs used that completed or reached it; None: none did.
    """

    user: str
    jobs: int
    completed: int
    failed: int
    open: int
    node_s: float
    mean_wait_s: float | None
    mean_runtime_s: float | None
    accuracy: float | None


def use_by_user(records: Iterable[RunRecord]) -> list[UserUse]:
    """Sum up runs, the first first; who used most comes first."""
    jobs: dict[str, list[JobRecord]] = {}
    for record in records:
        for job in record.jobs:
            if job.state != "refused":
                jobs.setdefault(job.user, []).append(job)
    return sorted((_use(user, found) for user, found in jobs.items()), key=lambda use: (-use.node_s, use.user))


def _use(user: str, jobs: list[JobRecord]) -> UserUse:
    ended = sorted((job for job in jobs if runtime_s(job) is not None), key=lambda job: job.end_s or 0.0)
    bounded = [job for job in ended if job.state in ("completed", "timeout")]
    return UserUse(
        user=user,
        jobs=len(jobs),
        completed=sum(job.state == "completed" for job in jobs),
        failed=sum(job.state in ("failed", "lost", "timeout") for job in jobs),
        open=sum(job.state in ("waiting", "running") for job in jobs),
        node_s=busy_node_s(jobs),
        mean_wait_s=_mean(wait_s, jobs),
        mean_runtime_s=_mean(runtime_s, jobs),
        accuracy=_mean(lambda job: min(1.0, (runtime_s(job) or 0.0) / job.walltime_s), bounded[-_LAST_JOBS:]),
    )
