"""What the answers to orders, and evolving requests, do to the state."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias, assert_never

from scheduler_bridge.core import on_sharing
from scheduler_bridge.core.effects import Effect, Refuse
from scheduler_bridge.core.events import (
    EvolvingRequest,
    GrowCompleted,
    NodesLost,
    ResizeDeferred,
    ResizeFailed,
    ShrinkCompleted,
    WorkersChanged,
)
from scheduler_bridge.core.job_parts import PendingOrder
from scheduler_bridge.core.lifecycle import JobState, Step
from scheduler_bridge.core.on_jobs import PAST
from scheduler_bridge.core.orders import send_shrink
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.core.tracked import TrackedJob
from scheduler_bridge.model import Because, wording

Answer: TypeAlias = GrowCompleted | ShrinkCompleted | WorkersChanged | ResizeFailed | ResizeDeferred


def answer(state: SchedulerState, event: Answer, now: float) -> list[Effect]:
    """Apply a job's answer to its order. An answer that does not fit the order changes nothing."""
    job = state.jobs.get(event.job_id)
    if job is None:
        state.anomalies.append(f"{event} is about an unknown job")
        return []
    if job.state in PAST:
        return []
    order = job.order
    if order is None or order.order != event.order:
        state.anomalies.append(f"{event}, but the order under way is {order}")
        return []
    match event:
        case GrowCompleted():
            return _grown(state, job, order, event, now)
        case ShrinkCompleted():
            return _shrunk(state, job, order, event, now)
        case WorkersChanged():
            return _adjusted(state, job, order, event, now)
        case ResizeFailed():
            _failed(state, job, order, event, now)
        case ResizeDeferred():
            job.order = replace(order, deferred=True)
            job.note = f"put the {order.kind} order off: {event.reason}"
            state.touch(job)
        case _:
            assert_never(event)
    return []


def _close(state: SchedulerState, job: TrackedJob, now: float, pause_s: float, *, allows: bool = True) -> None:
    """The order is done with; the next one may follow after ``pause_s``; ``allows``: a decision may follow at once."""
    job.step(Step.RESIZED)
    job.order = None
    if pause_s > 0:
        job.resizable_from_s = now + pause_s
        state.watch(job, job.resizable_from_s)
    if allows:
        state.touch(job)
    else:
        state.note(job)


def _grown(
    state: SchedulerState, job: TrackedJob, order: PendingOrder, event: GrowCompleted, now: float
) -> list[Effect]:
    gained = _ranks(state, order, event.nodes)
    if order.kind != "grow" or gained is None or gained & ~order.ranks:
        return _broken(state, job, f"it reports to have grown by {event.nodes}, ordered was {order}")
    if unused := order.ranks & ~gained:
        job.allocation = job.allocation.minus(unused)
        state.pool.release(job.spec.job_id, unused)
    state.expect_again(job, len(job.allocation) - gained.bit_count(), now)
    job.grows += 1
    job.last_resize = "grow"
    job.note = Because("grew by {} to {}", (gained.bit_count(), wording.nodes(len(job.allocation))))
    _close(state, job, now, state.settings.cooldown_s)
    return []


def _shrunk(
    state: SchedulerState, job: TrackedJob, order: PendingOrder, event: ShrinkCompleted, now: float
) -> list[Effect]:
    released = _ranks(state, order, event.nodes)
    held = job.allocation.ranks
    if order.kind != "shrink" or released is None or released.bit_count() != order.count or released & ~held:
        return _broken(state, job, f"it reports to have released {event.nodes}, ordered was {order}")
    job.allocation = job.allocation.minus(released)
    state.pool.release(job.spec.job_id, released)
    state.expect_again(job, len(job.allocation) + order.count, now)
    job.keeps |= order.ranks & ~released & state.pool.leaving
    job.shrinks += 1
    job.last_resize = "shrink"
    job.note = Because("shrank by {} to {}", (order.count, wording.nodes(len(job.allocation))))
    _close(state, job, now, state.settings.cooldown_s)
    return []


def _adjusted(
    state: SchedulerState, job: TrackedJob, order: PendingOrder, event: WorkersChanged, now: float
) -> list[Effect]:
    """[D] Another number of cores is no reason for a pause."""
    if order.kind != "workers":
        return _broken(state, job, f"it reports {event}, ordered was {order}")
    allows = state.sharing.jobs_per_node > 2 or on_sharing.takes(state, job)  # else it has become no mate
    effects = on_sharing.adjusted(state, job, order, now)
    _close(state, job, now, 0.0, allows=allows)
    return effects


def _ranks(state: SchedulerState, order: PendingOrder, nodes: tuple[str, ...]) -> int | None:
    """The ranks of ``nodes``, which mostly are those of the order."""
    return order.ranks if nodes == order.nodes else state.pool.rank(nodes)


def _broken(state: SchedulerState, job: TrackedJob, story: str) -> list[Effect]:
    """End a job that used or released other nodes than ordered: nobody knows any more where it runs."""
    state.anomalies.append(f"job {job.spec.job_id}: {story}")
    return state.kill(job, "failed", f"the job broke the protocol: {story}")


def _failed(state: SchedulerState, job: TrackedJob, order: PendingOrder, event: ResizeFailed, now: float) -> None:
    """The job goes on at its old size; nodes that were to arrive come back."""
    if order.kind == "grow":
        job.allocation = job.allocation.minus(order.ranks)
        state.pool.release(job.spec.job_id, order.ranks)
    what = f"{order.kind} by {wording.nodes(order.count)}" if order.kind != "workers" else f"use {order.count} cores"
    job.note = f"did not {what}: {event.reason or 'no reason given'}"
    _close(state, job, now, state.settings.failure_backoff_s)
    if order.kind == "workers":
        on_sharing.refused(state, job, event.reason)


def lost(state: SchedulerState, event: NodesLost, now: float) -> list[Effect]:
    """The job goes on without nodes that it held. They are free: its processes there died, not they.

    It may fall below its minimum so; an order under way stays as it is.
    """
    job = state.jobs.get(event.job_id)
    if job is None or job.state is JobState.QUEUED:
        state.anomalies.append(f"{event} is about a job that does not run")
        return []
    if job.state in PAST:
        return []
    gone = state.pool.rank(event.nodes)
    arriving = job.order.ranks if job.order is not None and job.order.kind == "grow" else 0
    if not gone or gone & ~(job.allocation.ranks & ~arriving) or gone == job.allocation.ranks:
        return _broken(state, job, f"it reports to have lost {event.nodes} of {state.pool.name(job.allocation)}")
    if state.sharing.stacks.by_job:
        on_sharing.left(state, job, gone)
    job.allocation = job.allocation.minus(gone)
    state.pool.release(job.spec.job_id, gone)
    if job.order is not None and job.order.kind != "grow":
        job.order = _without(job.order, event.nodes, gone)
    count = gone.bit_count()
    state.expect_again(job, len(job.allocation) + count, now)
    job.losses += count
    job.note = f"lost {wording.nodes(count)}, goes on with {len(job.allocation)}: {event.reason or 'no reason given'}"
    state.touch(job)
    return []


def _without(order: PendingOrder, nodes: tuple[str, ...], ranks: int) -> PendingOrder:
    """What is left of an order when the job has lost nodes."""
    lost_nodes = set(nodes)
    left = tuple([node for node in order.nodes if node not in lost_nodes])
    core_ids = order.core_ids  # of each node, or none
    if core_ids:
        core_ids = tuple([ids for node, ids in zip(order.nodes, core_ids, strict=True) if node not in lost_nodes])
    return replace(order, nodes=left, ranks=order.ranks & ~ranks, core_ids=core_ids)


def request(state: SchedulerState, event: EvolvingRequest, now: float) -> list[Effect]:
    """Take an offer at once, or note a wish for after the pass: queued jobs come first.

    An offer also lowers the job's maximum, so that it is not given the nodes back right away; a wish raises it.
    """
    job = state.jobs.get(event.job_id)
    if job is None or job.state is JobState.QUEUED:
        state.anomalies.append(f"{event} is about a job that does not run")
        return []
    if job.state in PAST:
        return []
    if event.delta == 0 or job.state is not JobState.RUNNING or not job.view().resizable(now):
        return [Refuse(event.job_id, f"job {event.job_id} is {job.state} and takes no order now")]
    if event.delta > 0:
        state.wishes[event.job_id] = event.delta
        job.max_nodes = min(job.spec.max_nodes, max(job.max_nodes, len(job.allocation) + event.delta))
        state.touch(job)
        return []
    count = min(-event.delta, len(job.allocation) - job.spec.min_nodes)
    if count <= 0:
        return [Refuse(event.job_id, f"job {event.job_id} is at its minimum of {wording.nodes(job.spec.min_nodes)}")]
    job.max_nodes = len(job.allocation) - count
    return send_shrink(state, job, count, "the job offered them back")
