"""A read-only picture of the scheduler, for ``queue``, ``nodes`` and reports."""

from __future__ import annotations

from itertools import islice
from typing import Final

import msgspec

from scheduler_bridge.core import advance_reservations
from scheduler_bridge.core.events import OrderKind
from scheduler_bridge.core.nodes import NodeState
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.core.tracked import HOLDING, UP, JobState, TrackedJob
from scheduler_bridge.model import Allocation
from scheduler_bridge.policies import Policy

_WORDS: Final = {
    JobState.QUEUED: "waiting",
    JobState.CLAIMING: "starting",
    JobState.STARTING: "starting",
    **dict.fromkeys(UP, "running"),
    JobState.ENDING: "ending",
}
"""How users see the states of a job that has not ended."""


class JobStatus(msgspec.Struct, frozen=True):
    """One job, as users see it and the control protocol sends it; times in seconds on the scheduler's clock.

    It is no ``TrackedJob``: it never changes, has names and reasons in words, and also describes jobs that the core
    does not know yet.

    Attributes:
        job: Its id.
        state: held, waiting, starting, running, ending, or how it ended (completed, failed, cancelled, timeout, lost).
        nodes: The nodes that it holds.
        wanted_nodes: The size that was asked for.
        grows: Completed grow orders.
        shrinks: Completed shrink orders.
        ready: Whether it takes orders.
        resizing: The kind of the order under way.
        expected_start_s: What the policy has promised, or else what may be expected if every job takes its walltime.
        expected_end_s: For a job that holds nodes: start plus walltime.
        reason: Why it waits, what was decided last about it, or why it ended.
        progress: How far it says that it is, of ``progress_total``, in ``progress_unit``.
        priority: Higher ones are considered first.
        reservation: The advance reservation that it belongs to.
    """

    job: int
    name: str
    user: str
    job_class: str
    state: str
    nodes: tuple[str, ...]
    wanted_nodes: int
    min_nodes: int
    max_nodes: int
    walltime_s: float
    submit_s: float
    start_s: float | None
    end_s: float | None
    grows: int
    shrinks: int
    ready: bool = False
    resizing: OrderKind | None = None
    expected_start_s: float | None = None
    expected_end_s: float | None = None
    reason: str = ""
    progress: float | None = None
    progress_total: float | None = None
    progress_unit: str = ""
    priority: int = 0
    reservation: str = ""

    @classmethod
    def of(cls, job: TrackedJob, nodes: tuple[str, ...] = (), reason: str = "") -> JobStatus:
        """The status of a job that holds ``nodes``."""
        spec = job.spec
        return cls(
            job=spec.job_id,
            name=spec.name,
            user=spec.user,
            job_class=spec.job_class,
            state=job.outcome or _WORDS[job.state],
            nodes=nodes,
            wanted_nodes=spec.nodes,
            min_nodes=spec.min_nodes,
            max_nodes=spec.max_nodes,
            walltime_s=spec.walltime_s,
            submit_s=spec.submit_s,
            start_s=job.started_s,
            end_s=job.ended_s,
            grows=job.grows,
            shrinks=job.shrinks,
            ready=job.ready,
            resizing=job.order.kind if job.order is not None else None,
            expected_end_s=job.expected_end_s if job.state in HOLDING else None,
            reason=reason if job.outcome is None else reason.removeprefix(job.outcome).removeprefix(": "),
            reservation=spec.reservation,
        )


class NodeStatus(msgspec.Struct, frozen=True):
    """One node.

    Attributes:
        name: Its name.
        state: Idle (no job), busy, draining (its job is its last one, for now), or down.
        job: The job that holds it.
        releasing: A shrink order under way wishes it back.
        reason: That it is to leave. The daemon adds why it is down, if it does not answer; or who lends it.
        lent: It can be taken back at any time; only jobs that can leave it get it.
    """

    name: str
    state: NodeState
    job: int | None = None
    releasing: bool = False
    reason: str = ""
    lent: bool = False


class ReservationStatus(msgspec.Struct, frozen=True):
    """An advance reservation that is not over; times in seconds on the scheduler's clock.

    ``nodes``: those kept for it. ``users``: who may ask for it; empty: everybody. ``jobs``: those of its jobs that wait
    or run. ``started``: its time has come.
    """

    name: str
    start_s: float
    end_s: float
    nodes: tuple[str, ...]
    users: tuple[str, ...] = ()
    jobs: tuple[int, ...] = ()
    started: bool = False


class Snapshot(msgspec.Struct, frozen=True, tag_field="type", tag="snapshot"):
    """The cluster at one moment; ended jobs included.

    ``reservations``: what operators keep. ``user_nodes``: what one user's jobs hold together at most.

    Of the following the core knows nothing, the daemon fills it in. ``held_node_s``: node-seconds that jobs have held
    so far; ``utilization``: their part of those that there were. ``log_behind``: why the log cannot be written, so that
    no jobs are taken; empty: it can. ``loans``: what was lent, used and taken back; empty: nodes stay.
    """

    now_s: float
    policy: str
    utilization: float
    nodes: tuple[NodeStatus, ...]
    jobs: tuple[JobStatus, ...]
    reservations: tuple[ReservationStatus, ...] = ()
    user_nodes: int | None = None
    held_node_s: float = 0.0
    log_behind: str = ""
    loans: str = ""

    def job(self, job_id: int) -> JobStatus:
        """Return one job.

        Raises:
            KeyError: There never was such a job.
        """
        for job in self.jobs:
            if job.job == job_id:
                return job
        raise KeyError(job_id)


def take(state: SchedulerState, policy: Policy, now: float, most_waiting: int | None = None) -> Snapshot:
    """Take a picture of ``state``, with the first ``most_waiting`` of the waiting jobs; None: all."""
    near = None if most_waiting is None else set(islice(state.queue, most_waiting))
    why = advance_reservations.explainer(state, policy, now)
    jobs = []
    for job in state.jobs.values():
        waits = job.state is JobState.QUEUED
        if waits and near is not None and job.spec.job_id not in near:
            continue
        reservation = state.reservation_of(job.spec.job_id) if waits else None
        reason = why(job.spec, reservation) if waits else str(job.note)
        status = JobStatus.of(job, state.pool.name(job.allocation), reason)
        if reservation is not None and reservation.job_id == job.spec.job_id:
            status = msgspec.structs.replace(status, expected_start_s=reservation.start_s)
        jobs.append(status)
    releasing = {
        node for job in state.active.values() if job.order and job.order.kind == "shrink" for node in job.order.nodes
    }
    owners = state.pool.owners()
    leaving, lent = (set(state.pool.name(Allocation((ranks,)))) for ranks in (state.pool.leaving, state.pool.lent))
    nodes = tuple(
        NodeStatus(
            name=node,
            state=state.pool.state(node, owners),
            job=owners.get(node),
            releasing=node in releasing,
            reason="is to leave the cluster" if node in leaving else "",
            lent=node in lent,
        )
        for node in state.pool.names
    )
    return Snapshot(now, policy.name, 0.0, nodes, tuple(jobs), advance(state), state.settings.user_nodes)


def advance(state: SchedulerState) -> tuple[ReservationStatus, ...]:
    """The reservations, the next one first."""
    if not state.bookings:
        return ()
    jobs: dict[str, list[int]] = {
        name: [job_id for job_id in state.active if job_id in booking.inside]
        for name, booking in state.bookings.items()
    }
    for job_id, job in state.queue.items():
        if (booking := advance_reservations.booking_of(state, job.spec)) is not None:
            jobs[booking.spec.name].append(job_id)
    rows = [
        ReservationStatus(
            name,
            booking.spec.start_s,
            booking.spec.end_s,
            state.pool.name(Allocation((booking.ranks,))),
            booking.spec.users,
            tuple(sorted(jobs[name])),
            booking.started,
        )
        for name, booking in state.bookings.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.start_s, row.name)))
