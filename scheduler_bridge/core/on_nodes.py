"""What nodes that come and go do to the state."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from scheduler_bridge.core import on_sharing
from scheduler_bridge.core.effects import Effect
from scheduler_bridge.core.events import NodeDown, NodeDrained, NodeUp
from scheduler_bridge.core.lifecycle import JobState
from scheduler_bridge.core.state import SchedulerState

NodeEvent: TypeAlias = NodeUp | NodeDown | NodeDrained


def apply(state: SchedulerState, event: NodeEvent) -> list[Effect]:
    """Put a node into service or take it out; jobs on one that fails are ended, on one that is drained they go on."""
    match event:
        case NodeUp():
            state.pool.restore(event.node)
            state.changed = True
        case NodeDown() | NodeDrained():
            if event.node not in state.pool:
                state.anomalies.append(f"{event} is about an unknown node")
                return []
            state.pool.fail(event.node)
            state.changed = True
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
