"""What users see of the scheduler: its core's picture, in the words of the control protocol."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from msgspec.structs import replace

from apgas.malleability.orders import Progress
from scheduler_bridge.core import JobStatus, NodeStatus, ReservationStatus, Snapshot
from scheduler_bridge.core.tracked import TrackedJob
from scheduler_bridge.daemon.admission import JobFacts
from scheduler_bridge.daemon.storage.log_state import LogState
from scheduler_bridge.policies.profile import Profile

NEAR_JOBS: Final = 1000
"""The number of waiting jobs that are explained; to look at each of a long queue would keep all else waiting."""


def snapshot(
    log_state: LogState,
    now_s: float,
    progress: Mapping[int, Progress],
    kept: Mapping[int, str],
    tail: Mapping[int, JobStatus],
    log_behind: str,
    lending: tuple[Mapping[str, str], str],
) -> Snapshot:
    """Return the picture for users: the core's, with what the core does not know.

    Args:
        log_state: What is known.
        now_s: Now, on the scheduler's clock.
        progress: What jobs said of theirs.
        kept: Why jobs are kept back that the core does not see.
        tail: Waiting jobs that the core's picture lacks.
        log_behind: Why the log cannot be written; empty: it can.
        lending: What is to be said of each node that is lent, and of all loans so far.
    """
    core, picture = log_state.core, log_state.core.snapshot(NEAR_JOBS)
    since_s = now_s - log_state.at_s
    held_node_s = log_state.busy_node_s + core.pool.held * since_s
    node_s = log_state.node_s + len(picture.nodes) * since_s
    jobs = {job.job: job for job in picture.jobs}
    for job_id, made in progress.items():
        if job_id in jobs:
            jobs[job_id] = replace(jobs[job_id], progress=made.done, progress_total=made.total, progress_unit=made.unit)
    for job_id, start_s in expected_starts(picture, core.waiting, now_s).items():
        promised_s = jobs[job_id].expected_start_s
        # What the policy has promised counts, but it does not know of nodes that are lent until a reservation begins.
        if promised_s is None or (picture.reservations and start_s < promised_s):
            jobs[job_id] = replace(jobs[job_id], expected_start_s=start_s)
    jobs.update(tail)
    jobs.update({job_id: _kept(log_state.jobs[job_id], reason) for job_id, reason in kept.items()})
    for job_id, job in log_state.jobs.items():
        if job.priority and job_id in jobs:
            jobs[job_id] = replace(jobs[job_id], priority=job.priority)
    lent, loans = lending
    return replace(
        picture,
        now_s=now_s,
        utilization=held_node_s / node_s if node_s > 0 else 0.0,
        nodes=tuple(_node(row, log_state.ailing.get(row.name) or lent.get(row.name, "")) for row in picture.nodes),
        jobs=tuple(jobs[job_id] for job_id in sorted(jobs)),
        held_node_s=held_node_s,
        log_behind=log_behind,
        loans=loans,
    )


class QueueTail:
    """The rows of the waiting jobs behind the first ``NEAR_JOBS``: always the same, so each is made once."""

    def __init__(self) -> None:
        self._made: dict[int, JobStatus] = {}

    def of(self, waiting: Iterable[int], facts: Mapping[int, JobFacts]) -> dict[int, JobStatus]:
        """Return those jobs, by id."""
        known, why = self._made, f"more than {NEAR_JOBS:,} jobs wait before it"
        self._made = {
            job_id: known.get(job_id) or _kept(facts[job_id], why) for job_id in islice(waiting, NEAR_JOBS, None)
        }
        return self._made


def _kept(job: JobFacts, reason: str) -> JobStatus:
    status = JobStatus.of(TrackedJob(job.spec), reason=reason)
    return replace(status, state="held") if job.held_by else status


def _node(row: NodeStatus, why: str) -> NodeStatus:
    return replace(row, reason=": ".join(filter(None, (row.reason, why)))) if why else row


# When waiting jobs are expected to start ----------------------------------------------------------------------------
#
# As if each took its walltime, and none overtook another at its cost.

_MOST_JOBS: Final = 100
"""Forecasts stop here: those behind wait for too much that is not known."""


def expected_starts(picture: Snapshot, waiting: Iterable[int], now_s: float) -> dict[int, float]:
    """Return when, on the scheduler's clock, each of the first waiting jobs is expected to start.

    Nodes that are reserved in advance are for the jobs of the reservation only, in its time; before, they are like any.

    Args:
        picture: Nodes and jobs.
        waiting: The waiting jobs in the order in which they are considered.
        now_s: Now.
    """
    # no job starts on nodes that are lent
    usable = {row.name for row in picture.nodes if row.state in ("idle", "busy") and not row.lent}
    free = {row.name for row in picture.nodes if row.state == "idle" and not row.lent}
    jobs = {job.job: job for job in picture.jobs}
    parts: dict[int, tuple[Profile, float]] = {}
    ends_s: dict[int, float] = {}
    for kept in picture.reservations:
        part = _inside(kept, jobs, usable, free, now_s), kept.end_s
        parts.update((job_id, part) for job_id in kept.jobs)
        if kept.started:
            ends_s.update((job_id, kept.end_s) for job_id in kept.jobs)
    releases = [
        (max(now_s, ends_s.get(job.job, job.expected_end_s)), sum(1 for node in job.nodes if node in usable))
        for job in picture.jobs
        if job.expected_end_s is not None
    ]
    outside = Profile(now_s, len(free), releases)
    for kept in picture.reservations:
        idle = [node for node in kept.nodes if node in (free if kept.started else usable)]
        outside.take(max(now_s, kept.start_s), kept.end_s, len(idle))
    held: Counter[str] = Counter()
    for job in picture.jobs if picture.user_nodes is not None else ():
        held[job.user] += len(job.nodes)
    found: dict[int, float] = {}
    for job_id in islice(waiting, _MOST_JOBS):
        job = jobs[job_id]
        if picture.user_nodes is not None and held[job.user] + job.min_nodes > picture.user_nodes:
            continue  # It waits for other jobs of its user, whatever nodes are free.
        profile, until_s = parts.get(job_id, (outside, math.inf))
        start_s = profile.earliest(job.min_nodes, job.walltime_s)
        if math.isfinite(start_s) and start_s + job.walltime_s <= until_s:
            profile.take(start_s, start_s + job.walltime_s, job.min_nodes)
            found[job_id] = start_s
    return found


def _inside(
    kept: ReservationStatus, jobs: Mapping[int, JobStatus], usable: set[str], free: set[str], now_s: float
) -> Profile:
    """The nodes of a reservation, from its start on."""
    if not kept.started:
        return Profile(max(now_s, kept.start_s), sum(1 for node in kept.nodes if node in usable), ())
    own = [jobs[job_id] for job_id in kept.jobs if job_id in jobs]
    releases = [(max(now_s, job.expected_end_s), len(job.nodes)) for job in own if job.expected_end_s is not None]
    return Profile(now_s, sum(1 for node in kept.nodes if node in free), releases)
