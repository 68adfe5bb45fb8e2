"""A read-only picture of the scheduler, for ``queue``, ``nodes`` and reports."""

from __future__ import annotations

from itertools import islice

import msgspec

from scheduler_bridge.core import advance_reservations
from scheduler_bridge.core.events import Outcome
from scheduler_bridge.core.nodes import NodeState
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.core.tracked import JobState, PendingOrder
from scheduler_bridge.model import AdvanceReservation, Allocation, JobSpec, Reservation
from scheduler_bridge.policies import Policy


class JobRow(msgspec.Struct, frozen=True):
    """One job. Times in seconds of the scheduler's clock.

    It is no ``TrackedJob``: it never changes, and has names and reasons in words, for people.

    Attributes:
        spec: What was submitted.
        state: Where it is in its life.
        nodes: The nodes it holds.
        ready: Whether it takes orders.
        order: The order under way.
        start_s: When it started.
        end_s: When it ended.
        outcome: How it ended.
        reason: Why it waits, what was decided last about it, or why it ended.
        expected_start_s: For a job that holds a reservation: its start at the latest, if all walltimes hold.
        expected_end_s: For a job that holds nodes: start plus walltime.
        grows: Completed grow orders.
        shrinks: Completed shrink orders.
    """

    spec: JobSpec
    state: JobState
    nodes: tuple[str, ...]
    ready: bool
    order: PendingOrder | None
    start_s: float | None
    end_s: float | None
    outcome: Outcome | None
    reason: str
    expected_start_s: float | None
    expected_end_s: float | None
    grows: int
    shrinks: int


class NodeRow(msgspec.Struct, frozen=True):
    """One node and the job that holds it.

    ``releasing``: wished back by a shrink order under way. ``leaving``: to leave the cluster when no job holds it.
    """

    node: str
    state: NodeState
    job_id: int | None
    releasing: bool
    leaving: bool = False


class ReservationRow(msgspec.Struct, frozen=True):
    """An advance reservation that is not over: the nodes kept for it, whether it has begun, and its jobs, by id."""

    spec: AdvanceReservation
    nodes: tuple[str, ...]
    started: bool
    jobs: tuple[int, ...]


class Snapshot(msgspec.Struct, frozen=True):
    """The whole scheduler at ``now_s``; jobs in the order of their submission, nodes in their own order.

    ``reservation`` is what the policy has promised to the first job that waits, ``advance`` what operators keep,
    ``user_nodes`` the most nodes that the jobs of one user hold together.
    """

    now_s: float
    policy: str
    jobs: tuple[JobRow, ...]
    nodes: tuple[NodeRow, ...]
    reservation: Reservation | None
    advance: tuple[ReservationRow, ...] = ()
    user_nodes: int | None = None


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
        reserved = reservation is not None and reservation.job_id == job.spec.job_id
        jobs.append(
            JobRow(
                spec=job.spec,
                state=job.state,
                nodes=state.pool.name(job.allocation),
                ready=job.ready,
                order=job.order,
                start_s=job.started_s,
                end_s=job.ended_s,
                outcome=job.outcome,
                reason=why(job.spec, reservation) if waits else str(job.note),
                expected_start_s=reservation.start_s if reservation is not None and reserved else None,
                expected_end_s=job.expected_end_s if job.spec.job_id in state.active else None,
                grows=job.grows,
                shrinks=job.shrinks,
            )
        )
    releasing = {
        node for job in state.active.values() if job.order and job.order.kind == "shrink" for node in job.order.nodes
    }
    owners = state.pool.owners()
    leaving = set(state.pool.name(Allocation((state.pool.leaving,)))) if state.pool.leaving else ()
    nodes = tuple(
        NodeRow(node, state.pool.state(node, owners), owners.get(node), node in releasing, node in leaving)
        for node in state.pool.names
    )
    promise = next(iter(state.reservations.values()), None)
    return Snapshot(now, policy.name, tuple(jobs), nodes, promise, advance(state), state.settings.user_nodes)


def advance(state: SchedulerState) -> tuple[ReservationRow, ...]:
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
        ReservationRow(
            booking.spec, state.pool.name(Allocation((booking.ranks,))), booking.started, tuple(sorted(jobs[name]))
        )
        for name, booking in state.bookings.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.spec.start_s, row.spec.name)))
