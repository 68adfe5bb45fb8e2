"""What nodes that come and go do to the state."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from scheduler_bridge.core.effects import Effect
from scheduler_bridge.core.events import NodeDown, NodeUp
from scheduler_bridge.core.state import SchedulerState

NodeEvent: TypeAlias = NodeUp | NodeDown


def apply(state: SchedulerState, event: NodeEvent) -> list[Effect]:
    """Put a node into service or take it out; a job on a node that fails is ended, whatever its class."""
    match event:
        case NodeUp():
            state.pool.restore(event.node)
            state.changed = True
        case NodeDown():
            if event.node not in state.pool:
                state.anomalies.append(f"{event} is about an unknown node")
                return []
            owner = state.pool.fail(event.node)
            state.changed = True
            if owner is not None:
                return state.kill(state.jobs[owner], "lost", f"node {event.node} is out of service")
        case _:
            assert_never(event)
    return []
