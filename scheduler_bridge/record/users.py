"""What each user's jobs used, over one or many runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler_bridge.record.model import JobRecord, RunRecord

_LAST_JOBS: Final = 10
"""The jobs that count for the accuracy of a user's walltimes, as in the scheduler [2016 paper]."""


class UserUse(msgspec.Struct, frozen=True):
    """One user.

    Attributes:
        user: Who; empty where jobs had no user.
        jobs: Submitted jobs that were taken.
        completed: Those that completed.
        failed: Those that failed, were lost, or were ended at their walltime.
        open: Those that wait or run.
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
    ended = [job for job in jobs if job.end_s is not None and job.start_s is not None]
    told: deque[float] = deque(maxlen=_LAST_JOBS)
    for job in sorted(ended, key=lambda job: job.end_s or 0.0):
        if job.state in ("completed", "timeout"):
            told.append(min(1.0, _runtime_s(job) / job.walltime_s))
    return UserUse(
        user=user,
        jobs=len(jobs),
        completed=sum(job.state == "completed" for job in jobs),
        failed=sum(job.state in ("failed", "lost", "timeout") for job in jobs),
        open=sum(job.state in ("waiting", "running") for job in jobs),
        node_s=sum((part.to_s - part.from_s) * len(part.nodes) * part.share for job in jobs for part in job.segments),
        mean_wait_s=_mean([job.start_s - job.submit_s for job in jobs if job.start_s is not None]),
        mean_runtime_s=_mean([_runtime_s(job) for job in ended]),
        accuracy=_mean(told),
    )


def _runtime_s(job: JobRecord) -> float:
    return (job.end_s or 0.0) - (job.start_s or 0.0)


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None
