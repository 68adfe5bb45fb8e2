"""The cluster as a policy sees it: immutable, whole nodes, counts instead of names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from scheduler_bridge.model.job import JobSpec
from scheduler_bridge.model.reservation import Reservation


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that holds nodes.

    Attributes:
        spec: What was submitted.
        nodes: Nodes that it holds, those on order to arrive and those still to be released included.
        start_s: When it started (when it was told to, while it is starting).
        expected_end_s: Start plus walltime.
        max_nodes: Largest size now; below ``spec.max_nodes`` after the job offered nodes back.
        ready: Whether it takes orders at all (malleable handler registered, not ending).
        resizable_from_s: Earliest time of its next order (cooldown, or a failed order before).
        order: The kind of the order under way, if any.
        order_nodes: How many nodes that order moves.
        deferred: The job put the order off: nobody knows when it will be carried out.
        last_resize: The kind of its last completed order, if any.
    """

    spec: JobSpec
    nodes: int
    start_s: float
    expected_end_s: float
    max_nodes: int
    ready: bool = False
    resizable_from_s: float = 0.0
    order: Literal["grow", "shrink"] | None = None
    order_nodes: int = 0
    deferred: bool = False
    last_resize: Literal["grow", "shrink"] | None = None

    @property
    def releasing_nodes(self) -> int:
        """Nodes that a shrink under way is about to release; none if it is deferred."""
        return self.order_nodes if self.order == "shrink" and not self.deferred else 0

    def reclaimable_nodes(self, floor_nodes: int) -> int:
        """Nodes above ``floor_nodes`` that it could be asked to give back now or soon, besides those on their way."""
        if not self.ready or self.deferred:
            return 0
        # a job that has lost nodes may be below its floor
        return max(0, self.nodes - self.releasing_nodes - floor_nodes)

    def resizable(self, now: float) -> bool:
        """Whether an order may be sent to it at ``now``."""
        return self.ready and self.order is None and self.resizable_from_s <= now


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The whole state that a policy decides on.

    Attributes:
        total_nodes: Nodes in service.
        free_nodes: Nodes in service that nobody holds.
        queue: Waiting jobs in the order of their submission.
        running: Jobs that hold nodes, in the order of their starts.
        reservations: What the last pass promised to jobs; those that have left the queue since may be among them.
        accuracy: Per user, how much of the walltime that was asked for the last jobs used: a mean from 0 to 1. Users
            whose jobs have not ended yet are missing.
    """

    total_nodes: int
    free_nodes: int
    queue: tuple[JobSpec, ...]
    running: tuple[RunningJob, ...]
    reservations: tuple[Reservation, ...] = ()
    accuracy: Mapping[str, float] = field(default_factory=dict)
