"""What nodes that come and go do to the state."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from scheduler_bridge.core import on_sharing, orders
from scheduler_bridge.core.effects import Effect, NodeLeft
from scheduler_bridge.core.events import NodeDown, NodeDrained, NodeRemoved, NodeUp
from scheduler_bridge.core.lifecycle import JobState
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.model.allocation import lowest

NodeEvent: TypeAlias = NodeUp | NodeDown | NodeDrained | NodeRemoved


def apply(state: SchedulerState, event: NodeEvent) -> list[Effect]:
    """Put a node into service or take it out; jobs on one that fails are ended, on one that is drained they go on."""
    match event:
        case NodeUp():
            state.pool.restore(event.node)
            state.changed = True
        case NodeDown() | NodeDrained() | NodeRemoved():
            if event.node not in state.pool:
                state.anomalies.append(f"{event} is about an unknown node")
                return []
            state.changed = True
            if isinstance(event, NodeRemoved):
                state.pool.expel(event.node)
                _ask_anew(state, event.node)
                return []
            state.pool.fail(event.node)
            return _lose(state, event.node, event.reason) if isinstance(event, NodeDown) else []
        case _:
            assert_never(event)
    return []


def _lose(state: SchedulerState, node: str, why: str) -> list[Effect]:
    """End the jobs on a node; one that is only about to start there waits again."""
    effects: list[Effect] = []
    reason = f"node {node} is out of service" + (f": {why}" if why else "")
    for job_id in state.pool.holders(node):
        job = state.jobs[job_id]
        if job.state is JobState.CLAIMING:
            on_sharing.abandon(state, job, reason)
        else:
            effects += state.kill(job, "lost", reason)
    return effects


def _ask_anew(state: SchedulerState, node: str) -> None:
    """Forget which jobs kept the node when they were asked for it before."""
    for job_id in state.pool.holders(node):
        state.jobs[job_id].keeps &= ~(state.pool.rank((node,)) or 0)


def vacate(state: SchedulerState, now: float) -> list[Effect]:
    """Let nodes leave that are to do so and that nobody holds; ask malleable jobs for those that they hold.

    A job is asked under every policy, for an operator wants it. It is not asked for its first node, where its place 0
    is, nor below its minimum, and for each node only once, unless it refuses altogether: the nodes that it releases are
    its own choice, and it would become ever smaller. What it does not give back it leaves when it ends.
    """
    effects: list[Effect] = []
    for job in list(state.active.values()):
        if not (asked := job.allocation.ranks & state.pool.leaving & ~job.keeps) or not job.view().resizable(now):
            continue
        first = job.allocation.chunks[0]
        asked &= ~(first & -first)
        count = min(asked.bit_count(), len(job.allocation) - job.spec.min_nodes)
        if count > 0:  # a job that has lost nodes may be below its minimum
            effects += orders.send_shrink(state, job, count, "nodes are to leave the cluster", lowest(asked, count))
    effects += [NodeLeft(node) for node in state.pool.vacated()]
    return effects
