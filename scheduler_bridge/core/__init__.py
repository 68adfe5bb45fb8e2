"""The scheduler's state machine: events in, effects out, no clock, no I/O."""

from __future__ import annotations

from scheduler_bridge.core.errors import InfeasibleDecisionError, InvariantError
from scheduler_bridge.core.history import Claim, Explanation, Moment, Remembered
from scheduler_bridge.core.lifecycle import JobState
from scheduler_bridge.core.nodes import NodeState
from scheduler_bridge.core.presets import settings_for
from scheduler_bridge.core.scheduler import SchedulerCore
from scheduler_bridge.core.settings import Settings
from scheduler_bridge.core.snapshot import JobRow, NodeRow, ReservationRow, Snapshot

__all__ = [
    "Claim",
    "Explanation",
    "InfeasibleDecisionError",
    "InvariantError",
    "JobRow",
    "JobState",
    "Moment",
    "NodeRow",
    "NodeState",
    "Remembered",
    "ReservationRow",
    "SchedulerCore",
    "Settings",
    "Snapshot",
    "settings_for",
]
