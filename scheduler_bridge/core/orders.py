"""Sending orders, and carrying out what a policy decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from scheduler_bridge.core import co_scheduling, limits
from scheduler_bridge.core.events import Effect, InfeasibleDecisionError, StartJob
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.core.tracked import Step, TrackedJob
from scheduler_bridge.model import Allocation, Because, Reason, wording
from scheduler_bridge.policies import Decision, Grow, Reserve, Share, Shrink, Stand, Start


def carry_out(state: SchedulerState, decisions: Sequence[Decision], now: float) -> list[Effect]:
    """Apply the decisions of one pass.

    Raises:
        InfeasibleDecisionError: One of them cannot be done, and the state is not tolerant.
    """
    effects: list[Effect] = []
    if not decisions or not isinstance(decisions[0], Stand):
        state.renew(())
    for decision in decisions:
        try:
            effects += _carried_out(state, decision, now)
        except InfeasibleDecisionError as error:
            if not state.tolerant:
                raise
            state.failure = f"the policy decided what cannot be done: {error}"
    return effects


def _carried_out(state: SchedulerState, decision: Decision, now: float) -> Sequence[Effect]:
    match decision:
        case Reserve():
            state.reservations[decision.reservation.job_id] = decision.reservation
        case Stand():
            pass  # they were not taken back
        case Start():
            return (_start(state, decision, now),)
        case Share():
            _check_limit(state, decision, state.queue.get(decision.job_id))
            if why := co_scheduling.infeasible(state, decision, now):
                raise InfeasibleDecisionError(f"{decision}: {why}")
            return co_scheduling.claim(state, decision, now)
        case Grow():
            job = _resizable(state, decision, now)
            if len(job.allocation) + decision.nodes > job.max_nodes or decision.nodes > state.pool.free:
                raise InfeasibleDecisionError(
                    f"{decision}: the job has {len(job.allocation)} of at most {job.max_nodes} nodes, "
                    f"{state.pool.free} are free"
                )
            _check_limit(state, decision, job)
            return send_grow(state, job, state.pool.take(decision.job_id, decision.nodes), decision.reason)
        case Shrink():
            job = _resizable(state, decision, now)
            if len(job.allocation) - decision.nodes < job.spec.min_nodes:
                raise InfeasibleDecisionError(
                    f"{decision}: the job has {len(job.allocation)} of at least {job.spec.min_nodes} nodes"
                )
            own = job.allocation.minus(job.lent).last(decision.nodes).ranks if job.lent else None
            return send_shrink(state, job, decision.nodes, decision.reason, own)
        case _:
            assert_never(decision)
    return ()


def are_known(state: SchedulerState, decisions: Sequence[Decision]) -> bool:
    """Whether the decisions of a pass leave everything as it is: they promise what is promised, and nothing else."""
    if decisions and isinstance(decisions[0], Stand):
        return len(decisions) == 1
    return len(decisions) == len(state.reservations) and all(
        isinstance(decision, Reserve) and decision.reservation == promise
        for decision, promise in zip(decisions, state.reservations.values(), strict=True)
    )


def _check_limit(state: SchedulerState, decision: Start | Share | Grow, job: TrackedJob | None) -> None:
    """See that the job's user may have as many nodes more as are decided."""
    if state.settings.user_nodes is not None and job is not None and decision.nodes > (room := limits.left(state, job)):
        raise InfeasibleDecisionError(f"{decision}: {job.spec.user or 'its user'} may have {room} nodes more")


def _start(state: SchedulerState, decision: Start, now: float) -> Effect:
    job = state.queue.get(decision.job_id)
    if job is None:
        raise InfeasibleDecisionError(f"{decision}: the job is not waiting")
    _check_limit(state, decision, job)
    spec = job.spec
    if not spec.min_nodes <= decision.nodes <= spec.max_nodes or decision.nodes > state.pool.free:
        raise InfeasibleDecisionError(
            f"{decision}: the job wants {spec.min_nodes} to {spec.max_nodes} nodes, {state.pool.free} are free"
        )
    job.step(Step.START)
    job.starts += 1
    job.start_ordered_s = now
    job.allocation = Allocation((state.pool.take(spec.job_id, decision.nodes),))
    state.expect(job)
    job.note = Because("started on {}: {}", (wording.nodes(decision.nodes), decision.reason))
    del state.queue[spec.job_id]
    state.reservations.pop(spec.job_id, None)
    state.activate(job)
    if state.prompt_starts:
        state.run(job, now)
    else:
        state.note(job)
    return StartJob(spec.job_id, state.pool.name(job.allocation))


def _resizable(state: SchedulerState, decision: Grow | Shrink, now: float) -> TrackedJob:
    job = state.active.get(decision.job_id)
    if job is None or not job.view().resizable(now) or decision.nodes < 1:
        where = "unknown or without nodes" if job is None else f"{job.state}, ready {job.ready}, order {job.order}"
        raise InfeasibleDecisionError(f"{decision}: the job takes no such order now ({where})")
    return job


def send_grow(state: SchedulerState, job: TrackedJob, ranks: int, reason: Reason) -> list[Effect]:
    """Order the job to use nodes that the pool holds for it from now on."""
    job.allocation = job.allocation.plus(ranks)
    note = Because(wording.ORDERED, ("grow", wording.nodes(ranks.bit_count()), reason))
    return state.send(job, "grow", Allocation((ranks,)), ranks.bit_count(), note)


def send_shrink(
    state: SchedulerState, job: TrackedJob, count: int, reason: Reason, ranks: int | None = None
) -> list[Effect]:
    """Order the job to release ``count`` nodes, those of ``ranks`` by preference.

    [D] Otherwise wished are those that it got last: place 0 sits on the first.
    """
    wished = job.allocation.last(count) if ranks is None else Allocation((ranks,))
    return state.send(job, "shrink", wished, count, Because(wording.ORDERED, ("shrink", wording.nodes(count), reason)))
