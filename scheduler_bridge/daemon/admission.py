"""Admission of jobs to the queue: those that are held, wait for others, or whose user has enough are kept back. Pure.

What is decided here becomes an entry of the log (``JobSubmitted``), so a replayed log need not ask again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from scheduler_bridge.core.events import Outcome
from scheduler_bridge.daemon.requests import HeldBy, JobRequest, array_job
from scheduler_bridge.model import JobSpec

Ended: TypeAlias = Callable[[int], Outcome | None]
"""How a job ended; None if it has not."""
_HELD: Final[dict[HeldBy, str]] = {"user": "its user holds it", "operator": "an operator holds it"}


@dataclass(slots=True)
class JobFacts:
    """What the core does not know of a job that has not ended.

    It is no ``TrackedJob``: it begins before the core hears of the job, and outlives a start that is repeated.

    Attributes:
        request: What its user asked for: for an array, one that all its jobs have in common.
        spec: The job for the core.
        held_by: Who holds it back; None: it is not held.
        priority: Higher ones are considered first.
        attempt: How often it was started.
        restarts: How often it was started again of those, on its nodes.
        appends: It goes on where the attempt before was, also in its output.
        phase: What it said of its handler: nothing yet, that it is ready, or that it takes no orders any more.
        abandoned: Grow orders whose outcome came too late.
        losses: Number of its last loss of nodes.
        outcomes: How it ended the orders that it was given, by their numbers.
        answers: How its own requests for nodes were answered: nodes and reason.
        number: Its number in an array; None: it is in none.
        first: Id of the first job that shares ``request``.
    """

    request: JobRequest
    spec: JobSpec
    held_by: HeldBy | None = None
    priority: int = 0
    attempt: int = 0
    restarts: int = 0
    appends: bool = False
    phase: Literal["silent", "ready", "disabled"] = "silent"
    abandoned: set[int] = field(default_factory=set)
    losses: int = -1
    outcomes: dict[int, str] = field(default_factory=dict)
    answers: dict[int, tuple[int, str]] = field(default_factory=dict)
    number: int | None = None
    first: int = 0

    @property
    def key(self) -> str:
        """The name of its present attempt to run, by which notes, secret and processes of that are found."""
        return f"{self.spec.job_id}.{self.attempt}"

    def alone(self) -> JobRequest:
        """Return what is asked for as a request for this job alone."""
        return array_job(self.request, self.number)

    def begin_anew(self) -> None:
        """What its processes have said holds no more."""
        self.phase, self.losses = "silent", -1
        self.abandoned.clear()
        self.outcomes.clear()
        self.answers.clear()


def blocked(job: JobFacts, ended: Ended) -> str:
    """Say why a job may not be considered yet; empty if it may, as far as it alone counts."""
    if job.held_by is not None:
        return _HELD[job.held_by]
    missing = [other for other in (*job.request.after_ok, *job.request.after_any) if ended(other) is None]
    return f"it waits for the end of {_jobs(missing)}" if missing else ""


def hopeless(job: JobFacts, ended: Ended) -> str:
    """Say why a job never may; empty if it may some time."""
    failed = [other for other in job.request.after_ok if ended(other) not in (None, "completed")]
    return f"{_jobs(failed)} did not complete" if failed else ""


def admitted(jobs: Mapping[int, JobFacts], kept: Collection[int]) -> Counter[str]:
    """Return how many jobs each user has in the queue and running: all ``jobs`` but those that are ``kept`` back."""
    return Counter(job.request.user for job_id, job in jobs.items() if job_id not in kept)


def crowded(request: JobRequest, counts: Mapping[str, int], user_jobs: int | None) -> str:
    """Say that the job's user has as many jobs in the queue and running as one may; empty if not."""
    count = counts.get(request.user, 0)
    if user_jobs is None or count < user_jobs:
        return ""
    return f"its user has {count} jobs waiting or running, the most allowed"


def admissions(
    kept: Collection[int], jobs: Mapping[int, JobFacts], ended: Ended, user_jobs: int | None
) -> list[tuple[JobFacts, str]]:
    """Return those of the ``kept`` jobs that are let in now (no reason), or never may be, because of the reason."""
    found = []
    waiting = sorted((jobs[job_id] for job_id in kept), key=lambda job: (-job.priority, job.spec.job_id))
    counts = admitted(jobs if waiting and user_jobs is not None else {}, kept)
    for job in waiting:
        if reason := hopeless(job, ended):
            found.append((job, reason))
        elif not blocked(job, ended) and not crowded(job.request, counts, user_jobs):
            counts[job.request.user] += 1
            found.append((job, ""))
    return found


def ahead_of(job: JobFacts, waiting: Iterable[int], jobs: Mapping[int, JobFacts]) -> int | None:
    """Return the first waiting job that the job goes before (lower priority, or equal and later); None: it is last."""
    key = (-job.priority, job.spec.submit_s, job.spec.job_id)
    for job_id in waiting:
        other = jobs.get(job_id)
        if other is None or job_id == job.spec.job_id:
            continue
        if (-other.priority, other.spec.submit_s, job_id) > key:
            return job_id
    return None


def _jobs(ids: list[int]) -> str:
    names = ", ".join(str(job_id) for job_id in ids[:5])
    return f"job{'s' if len(ids) > 1 else ''} {names}{' ...' if len(ids) > 5 else ''}"
