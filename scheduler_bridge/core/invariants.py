"""What must hold after every batch of events. An ``InvariantError`` shows a defect of the core or of a policy."""

from __future__ import annotations

from typing import Final

from scheduler_bridge.core.events import InvariantError
from scheduler_bridge.core.node_sharing import Stack
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.core.tracked import HOLDING, JobState, TrackedJob
from scheduler_bridge.model.allocation import lowest

_ORDER_OF: Final = {JobState.GROWING: "grow", JobState.SHRINKING: "shrink", JobState.ADJUSTING: "workers"}


def check_touched(state: SchedulerState) -> None:
    """Check the jobs that the batch changed, and the sums over all. Costs little enough to be always on."""
    shared = state.sharing.by_job
    for job in state.touched.values():
        if (found := _contradiction(state, job)) or job.order is not None or job.state in _ORDER_OF:
            _check_order(job, found)
        if (size := job.allocation.size) != job.counted:
            state.counted += size - job.counted
            job.counted = size
        if shared:
            _check_shares(state, job)
    _check_held(state, state.counted)


def check_all(state: SchedulerState) -> None:
    """Check everything, node by node and job by job; for tests."""
    for job in state.jobs.values():
        _check_order(job, _contradiction(state, job))
    if found := state.pool.check():
        raise InvariantError(found)
    _check_held(state, sum([len(job.allocation) for job in state.active.values()]))
    _check_bookings(state)
    met = 0
    for stack in state.sharing:
        if stack.ranks & met:
            raise InvariantError("a node is in two stacks")
        met |= stack.ranks
    for job in state.active.values():
        _check_shares(state, job)


def _check_held(state: SchedulerState, held: int) -> None:
    if held != state.pool.held + state.pool.extra:
        raise InvariantError(f"jobs hold {held} nodes, the pool says {state.pool.held} and {state.pool.extra} again")


def _check_bookings(state: SchedulerState) -> None:
    kept = list(state.bookings.values())
    for number, booking in enumerate(kept):
        for other in kept[:number]:
            if booking.ranks & other.ranks and booking.spec.meets(other.spec):
                raise InvariantError(f"{booking.spec.name} and {other.spec.name} keep the same node")
        for job_id in booking.inside & state.active.keys():
            if state.active[job_id].allocation.ranks & ~booking.ranks & ~state.pool.down_ranks & ~state.pool.lent:
                raise InvariantError(f"job {job_id} is on other nodes than those of {booking.spec.name}")


def _check_order(job: TrackedJob, found: str) -> None:
    """Check the job's order, unless something else was ``found`` wrong with it already."""
    if found := found or _order_contradiction(job):
        size = len(job.allocation)
        raise InvariantError(
            f"job {job.spec.job_id} ({job.state}, {size} nodes, order {job.order}, last: {job.note}): {found}"
        )


def _contradiction(state: SchedulerState, job: TrackedJob) -> str:
    """What is wrong with the job's nodes and lists; empty if nothing is."""
    spec, allocation, where = job.spec, job.allocation, job.state
    size, job_id, holding = allocation.size, spec.job_id, where in HOLDING
    if state.pool.holdings.get(job_id, 0) != allocation.ranks:
        return "the pool knows of other nodes"
    if holding != (job_id in state.active) or (where is JobState.QUEUED) != (job_id in state.queue):
        return "in the wrong list"
    if holding:
        if job.lent != allocation.ranks & state.pool.lent:
            return "it counts other nodes as lent"
        if job.lent and not (spec.resilient and spec.is_malleable and lowest(allocation.chunks[0], 1) & ~job.lent):
            return "it has lent nodes that it cannot leave"
        if (size < spec.min_nodes and not job.losses) or size > spec.max_nodes:
            return f"out of its bounds, {spec.min_nodes} to {spec.max_nodes}"
    elif size > 0:
        return "holds nodes in a state without nodes"
    if job.starts != (job.start_ordered_s is not None):
        return f"started {job.starts} times"
    return ""


def _order_contradiction(job: TrackedJob) -> str:
    """What is wrong with the job's order; empty if nothing is."""
    order, state = job.order, job.state
    resizing = state in _ORDER_OF
    if order is None:
        return "its order is lost" if resizing else ""
    if not resizing and state is not JobState.ENDING:
        return "has an order that is not under way"
    if resizing and order.kind != _ORDER_OF[state]:
        return "has an order of the other kind"
    if not job.spec.is_malleable:
        return "a rigid job has an order"
    if order.count < 1:
        return f"the order is about {order.count} nodes"
    if order.ranks & ~job.allocation.ranks:
        return "the order's nodes are not the job's"
    if order.kind == "shrink" and len(job.allocation) - order.count < job.spec.min_nodes and not job.losses:
        return f"the order leads below {job.spec.min_nodes} nodes"
    return ""


def _check_shares(state: SchedulerState, job: TrackedJob) -> None:
    """Check the job's part of shared nodes."""
    sharing = state.sharing
    for stack in sharing.of(job.spec.job_id):
        found = _core_contradiction(stack, sharing.every_core)
        if stack.ranks & ~job.allocation.ranks:
            found = "shares nodes that it does not hold"
        elif not found and len(stack.cores) > sharing.jobs_per_node:
            found = f"the policy lets {sharing.jobs_per_node} jobs share a node"
        elif not found and (stack.cores[job.spec.job_id] == 0) != (job.state is JobState.CLAIMING):
            found = f"uses {stack.count(job.spec.job_id)} cores"
        if found:
            raise InvariantError(f"job {job.spec.job_id} ({job.state}): {found}: {stack}")


def _core_contradiction(stack: Stack, every_core: int) -> str:
    """What is wrong with the jobs' cores; empty if nothing is."""
    used = 0
    for cores in stack.cores.values():
        if used & cores:
            return "a core is in two allocations"
        used |= cores
    return "the nodes have no such core" if used & ~every_core else ""
