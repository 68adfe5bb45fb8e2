"""What must hold after every batch of events. A violation is a defect of the core or of a policy."""

from __future__ import annotations

from scheduler_bridge.core.lifecycle import HOLDING, JobState
from scheduler_bridge.core.nodes import NodeState
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.core.tracked import TrackedJob


class InvariantError(RuntimeError):
    """The state contradicts itself; the text says where."""


def _require(condition: bool, story: str) -> None:
    if not condition:
        raise InvariantError(story)


def check_touched(state: SchedulerState) -> None:
    """Check the jobs that the batch changed, and the sums over all. Costs little enough to be always on.

    Raises:
        InvariantError: Something does not hold.
    """
    for job_id in state.touched:
        _check_job(state, state.jobs[job_id])
    held = sum([len(job.allotment) for job in state.active.values()])
    _require(held == state.pool.held, f"jobs hold {held} nodes, the pool says {state.pool.held}")


def check_all(state: SchedulerState) -> None:
    """Check everything, node by node and job by job; for tests.

    Raises:
        InvariantError: Something does not hold.
    """
    for job in state.jobs.values():
        _check_job(state, job)
    owners = {node: job.spec.job_id for job in state.active.values() for node in job.allotment}
    for node in state.pool.names:
        owner = state.pool.owner(node)
        _require(owner == owners.get(node), f"node {node}: the pool says job {owner}, the jobs {owners.get(node)}")
        held = state.pool.state(node) in (NodeState.HELD, NodeState.LOST)
        _require(held == (owner is not None), f"node {node} is {state.pool.state(node)} with owner {owner}")
    _require(len(state.pool) >= state.pool.free + state.pool.held, f"{state.pool.free} free and {state.pool.held} held")


def _check_job(state: SchedulerState, job: TrackedJob) -> None:
    spec, size = job.spec, len(job.allotment)
    who = f"job {spec.job_id} ({job.state}, {size} nodes, order {job.order}, last: {job.note})"
    for node in job.allotment:
        _require(state.pool.owner(node) == spec.job_id, f"{who} holds {node}, the pool says {state.pool.owner(node)}")
    holding = job.state in HOLDING
    _require(holding == (spec.job_id in state.active), f"{who}: in the wrong list")
    _require((job.state is JobState.QUEUED) == (spec.job_id in state.queue), f"{who}: in the wrong queue")
    if holding:
        _require(spec.min_nodes <= size <= spec.max_nodes, f"{who}: bounds {spec.min_nodes} to {spec.max_nodes}")
    else:
        _require(size == 0, f"{who}: holds nodes")
    _require(job.starts == (0 if job.told_to_start_s is None else 1), f"{who}: started {job.starts} times")
    _check_order(job, who)


def _check_order(job: TrackedJob, who: str) -> None:
    order = job.order
    if job.state in (JobState.GROWING, JobState.SHRINKING):
        expected = "grow" if job.state is JobState.GROWING else "shrink"
        _require(order is not None and order.kind == expected, f"{who}: no such order")
    elif job.state is not JobState.ENDING:
        _require(order is None, f"{who}: an order that nobody waits for")
    if order is None:
        return
    _require(job.spec.is_malleable, f"{who}: an order to a rigid job")
    _require(set(order.nodes) <= set(job.allotment), f"{who}: the order's nodes are not held")
    smallest = len(job.allotment) - (order.count if order.kind == "shrink" else 0)
    _require(smallest >= job.spec.min_nodes, f"{who}: the order leads below {job.spec.min_nodes} nodes")
