"""The vocabulary of the scheduler: jobs, allocations, reservations and the cluster as a policy sees it.

Everything here is plain data that never changes; the core, the simulator and the daemon share it.
"""

from __future__ import annotations

from scheduler_bridge.model import wording
from scheduler_bridge.model.allocation import EVERY_NODE, Allocation, NodeFilter
from scheduler_bridge.model.cluster import (
    AnyIndex,
    ClusterView,
    Index,
    Key,
    Line,
    Need,
    QueueKey,
    RunningJob,
    UserKey,
    aged,
)
from scheduler_bridge.model.job import InvalidJobError, JobClass, JobSpec
from scheduler_bridge.model.reservation import AdvanceReservation, InvalidReservationError, Reservation
from scheduler_bridge.model.wording import Because, Reason

__all__ = [
    "EVERY_NODE",
    "AdvanceReservation",
    "Allocation",
    "AnyIndex",
    "Because",
    "ClusterView",
    "Index",
    "InvalidJobError",
    "InvalidReservationError",
    "JobClass",
    "JobSpec",
    "Key",
    "Line",
    "Need",
    "NodeFilter",
    "QueueKey",
    "Reason",
    "Reservation",
    "RunningJob",
    "UserKey",
    "aged",
    "wording",
]
