"""What the scheduler talks about: jobs, allotments, reservations and the cluster as a policy sees it."""

from __future__ import annotations

from scheduler_bridge.model import wording
from scheduler_bridge.model.advance import AdvanceReservation, InvalidReservationError
from scheduler_bridge.model.allotment import Allotment
from scheduler_bridge.model.because import Because, Reason
from scheduler_bridge.model.cluster import AnyIndex, ClusterView, Index, Key, QueueKey, RunningJob, UserKey
from scheduler_bridge.model.job import InvalidJobError, JobClass, JobSpec
from scheduler_bridge.model.line import Line, Need
from scheduler_bridge.model.node_filter import EVERY_NODE, NodeFilter
from scheduler_bridge.model.reservation import Reservation

__all__ = [
    "EVERY_NODE",
    "AdvanceReservation",
    "Allotment",
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
    "wording",
]
