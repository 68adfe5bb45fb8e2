"""The scheduler's state machine: events in, effects out, no clock, no I/O.

``SchedulerCore.handle_batch`` lets ``handlers`` change the ``state`` for each event, then asks the policy, which looks
at a ``view``, and has ``orders`` (or ``advance_reservations``, or ``co_scheduling``) carry out what it decided.
"""

from __future__ import annotations

from typing import Final

from scheduler_bridge.core import scheduler
from scheduler_bridge.core.events import InfeasibleDecisionError, InvariantError
from scheduler_bridge.core.history import Claim, Explanation, Moment, Remembered
from scheduler_bridge.core.scheduler import SchedulerCore
from scheduler_bridge.core.settings import Settings, settings_for
from scheduler_bridge.core.snapshot import JobStatus, NodeStatus, ReservationStatus, Snapshot
from scheduler_bridge.core.tracked import UP, JobState

__all__ = [
    "COMPILED",
    "UP",
    "Claim",
    "Explanation",
    "InfeasibleDecisionError",
    "InvariantError",
    "JobState",
    "JobStatus",
    "Moment",
    "NodeStatus",
    "Remembered",
    "ReservationStatus",
    "SchedulerCore",
    "Settings",
    "Snapshot",
    "settings_for",
]

COMPILED: Final = not str(scheduler.__file__).endswith(".py")
"""Whether the core is machine code, which decides the same in half of the time."""
