"""Policies are composed: queue order x backfill x start size x redistribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from scheduler_bridge.model import EVERY_NODE, ClusterView, JobSpec, NodeFilter, Reservation
from scheduler_bridge.policies.base import Decision, stands_until
from scheduler_bridge.policies.plan import Plan

QueueOrder: TypeAlias = Callable[[ClusterView, float], Sequence[JobSpec]]
"""Who comes first: the waiting jobs at a time, the most urgent first."""


class StartSize(Protocol):
    """With how many nodes a job starts."""

    def need(self, spec: JobSpec, total_nodes: int) -> int:
        """The fewest nodes that it starts with while ``total_nodes`` nodes are in service."""

    def pick(self, spec: JobSpec, available: int) -> int:
        """The nodes that it starts with if ``available`` (at least ``need``) may be used."""


class Backfill(Protocol):
    """Which waiting jobs start, and which of them hold reservations."""

    def start(self, plan: Plan, queue: Sequence[JobSpec], size: StartSize) -> None:
        """Start jobs of ``queue`` in ``plan``."""

    def why(self, need: int, view: ClusterView, reservation: Reservation | None, job: JobSpec) -> str:
        """Why ``job``, which needs ``need`` nodes, waits; ``reservation`` is its own, else the first one."""


class Redistribution(Protocol):
    """How nodes move between running malleable jobs."""

    def resize(self, plan: Plan, waiting: Sequence[JobSpec], size: StartSize) -> None:
        """Shrink and grow jobs in ``plan``; ``waiting`` are the jobs that did not start, in the queue's order."""


@dataclass(frozen=True, slots=True)
class ComposedPolicy:
    """A policy made of four exchangeable parts; without a redistribution malleable jobs are never resized.

    ``jobs_per_node`` is how many jobs it lets share a node, ``shared_nodes`` which nodes it lets them share.
    """

    name: str
    order: QueueOrder
    backfill: Backfill
    size: StartSize
    redistribution: Redistribution | None = None
    jobs_per_node: int = 1
    shared_nodes: NodeFilter = EVERY_NODE

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        """One pass: order the queue, start what may start, then move nodes between running jobs."""
        queue = self.order(view, now)
        if not queue and self.redistribution is None:
            return []
        plan = Plan(view, now)
        self.backfill.start(plan, queue, self.size)
        if self.redistribution is not None:
            self.redistribution.resize(plan, plan.waiting(queue), self.size)
        return plan.decisions()

    def stands_until(self, view: ClusterView, now: float) -> float:
        """When one of its parts may decide otherwise, though nothing has happened."""
        if self.order is not by_submission:  # other orders may depend on the time
            return now
        until_s = stands_until(self.backfill, view, now)
        return until_s if self.redistribution is None else min(until_s, stands_until(self.redistribution, view, now))

    def why_waiting(self, view: ClusterView, job: JobSpec, reservation: Reservation | None) -> str:
        """In one sentence, with the reservation that stands in the way, if any."""
        return self.backfill.why(self.size.need(job, view.total_nodes), view, reservation, job)


def by_submission(view: ClusterView, now: float) -> Sequence[JobSpec]:  # noqa: ARG001 - other orders depend on the time
    """First come, first served."""
    return view.queue


def at_minimum(spec: JobSpec) -> int:
    """Running jobs give nodes down to their minimum."""
    return spec.min_nodes


def at_preferred(spec: JobSpec) -> int:
    """Running jobs give nodes down to the size that they asked for."""
    return spec.nodes


class AtMinimum:
    """The job's minimum (a rigid job's size) [2024 paper, malleable algorithm]."""

    def need(self, spec: JobSpec, total_nodes: int) -> int:  # noqa: ARG002 - other sizes depend on it
        """The job's minimum."""
        return spec.min_nodes

    def pick(self, spec: JobSpec, available: int) -> int:  # noqa: ARG002 - other sizes depend on it
        """The job's minimum."""
        return spec.min_nodes


class Moldable(AtMinimum):
    """As many nodes as may be used, up to the job's maximum; at least its minimum [2024 paper]."""

    def pick(self, spec: JobSpec, available: int) -> int:
        """All that is available, up to the job's maximum."""
        return min(spec.max_nodes, available)


class Preferred(AtMinimum):
    """The size asked for; if less may be used, as much as that, at least the minimum [2025 paper, pref]."""

    def pick(self, spec: JobSpec, available: int) -> int:
        """The size that the job asked for, or what is available."""
        return min(spec.nodes, available)


class OnlyPreferred(Preferred):
    """The size asked for and no other [2025 paper, keep-pref].

    [D] A malleable job that asked for more nodes than are in service starts on all of these, at least on its minimum.
    """

    def need(self, spec: JobSpec, total_nodes: int) -> int:
        """The size that the job asked for, if there is such a number of nodes."""
        return max(spec.min_nodes, min(spec.nodes, total_nodes))
