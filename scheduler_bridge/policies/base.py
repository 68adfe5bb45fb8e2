"""The protocol of policies, which are pure functions of the cluster and the time, and the decisions that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from scheduler_bridge.model import EVERY_NODE, ClusterView, JobSpec, NodeFilter, Reason, Reservation


class Policy(Protocol):
    """Decides once per instant, after all events of the instant. Keeps no state between passes that it hides."""

    @property
    def name(self) -> str:
        """The name it is registered by."""

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        """What to do at ``now`` (seconds of the scheduler's clock).

        The decisions together must be feasible: starts and grows use free nodes only, grows and shrinks go to jobs
        that are ``resizable(now)``, at most one per job, and every size stays within the job's bounds.
        """

    def why_waiting(self, view: ClusterView, job: JobSpec, reservation: Reservation | None) -> str:
        """Why ``job`` of ``view.queue`` was not started in the last pass, which made ``reservation``."""


def jobs_per_node(policy: Policy) -> int:
    """How many jobs a policy lets share a node: 1, unless it says otherwise."""
    return getattr(policy, "jobs_per_node", 1)


def shared_nodes(policy: Policy) -> NodeFilter:
    """Which nodes a policy lets jobs share: any, unless it says otherwise."""
    return getattr(policy, "shared_nodes", EVERY_NODE)


def stands_until(part: object, view: ClusterView, now: float) -> float:
    """Until when (seconds) a pass over this very view decides as one at ``now`` that started and resized no job.

    A policy, or a part of one, that knows has a method of this name; what has none is asked at every pass.
    """
    known: Callable[[ClusterView, float], float] | None = getattr(part, "stands_until", None)
    return now if known is None else known(view, now)  # the time may decide, whatever the view is


class Around:
    """What decides by way of a policy, and is like it in all else."""

    __slots__ = ()
    policy: Policy

    @property
    def name(self) -> str:
        """The policy's; that of its type, if it has none."""
        return str(getattr(self.policy, "name", type(self.policy).__name__))

    @property
    def jobs_per_node(self) -> int:
        """The policy's."""
        return jobs_per_node(self.policy)

    @property
    def shared_nodes(self) -> NodeFilter:
        """The policy's."""
        return shared_nodes(self.policy)

    def why_waiting(self, view: ClusterView, job: JobSpec, reservation: Reservation | None) -> str:
        """What the policy says."""
        return self.policy.why_waiting(view, job, reservation)


# Decisions. Sizes are numbers of nodes; the scheduler core chooses which nodes ----------------------------------------


class Start(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Start a waiting job on ``nodes`` nodes."""

    job_id: int
    nodes: int
    reason: Reason


class Grow(msgspec.Struct, frozen=True, tag=True):
    """Give ``nodes`` free nodes to a running malleable job."""

    job_id: int
    nodes: int
    reason: Reason


class Shrink(msgspec.Struct, frozen=True, tag=True):
    """Take ``nodes`` nodes from a running malleable job.

    ``for_jobs``: the waiting jobs that are to start once they are free, and on how many nodes each.
    """

    job_id: int
    nodes: int
    reason: Reason
    for_jobs: tuple[tuple[int, int], ...] = ()


class Share(msgspec.Struct, frozen=True, tag=True):
    """Start a waiting job on all nodes of running ones, the mates, which give it ``cores`` of each.

    Attributes:
        job_id: The waiting job.
        nodes: On how many nodes it starts.
        mates: The running jobs.
        cores: What each mate gives of each of its nodes.
        free_nodes: How many of the nodes are free ones, of which it gets all cores.
        reason: Why.
    """

    job_id: int
    nodes: int
    mates: tuple[int, ...]
    cores: int
    free_nodes: int
    reason: Reason


class Reserve(msgspec.Struct, frozen=True, tag=True, gc=False):
    """No job may start in a way that delays this reservation; it holds until the next pass, or longer: ``Stand``."""

    reservation: Reservation


class Stand(msgspec.Struct, frozen=True, tag=True, gc=False):
    """What the last pass promised stands, but for the jobs that start or get another reservation: comes first."""


Decision: TypeAlias = Start | Share | Grow | Shrink | Reserve | Stand


def in_full(decisions: Sequence[Decision], before: Iterable[Reservation]) -> list[Decision]:
    """Name every reservation, those that stand, too; ``before`` is what was promised before."""
    if not decisions or not isinstance(decisions[0], Stand):
        return list(decisions)
    promises = {promise.job_id: promise for promise in before}
    for decision in decisions:
        if isinstance(decision, Start | Share):
            promises.pop(decision.job_id, None)
    named = {decision.reservation.job_id: decision for decision in decisions if isinstance(decision, Reserve)}
    standing = {job_id: Reserve(promise) for job_id, promise in promises.items()}
    others = [decision for decision in decisions if not isinstance(decision, Stand | Reserve)]
    return [*{**standing, **named}.values(), *others]
