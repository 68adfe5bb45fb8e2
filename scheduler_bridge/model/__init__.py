"""What the scheduler talks about: jobs, allotments, reservations and the cluster as a policy sees it."""

from __future__ import annotations

from scheduler_bridge.model import wording
from scheduler_bridge.model.allotment import Allotment
from scheduler_bridge.model.cluster import ClusterView, RunningJob
from scheduler_bridge.model.job import InvalidJobError, JobClass, JobSpec
from scheduler_bridge.model.reservation import Reservation

__all__ = ["Allotment", "ClusterView", "InvalidJobError", "JobClass", "JobSpec", "Reservation", "RunningJob", "wording"]
