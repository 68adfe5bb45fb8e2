"""What every policy is: a pure function of the cluster and the time."""

from __future__ import annotations

from typing import Protocol

from scheduler_bridge.model import EVERY_NODE, ClusterView, JobSpec, NodeFilter, Reservation
from scheduler_bridge.policies.decision import Decision


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
    known: float = getattr(part, "stands_until", _at_once)(view, now)
    return known


def _at_once(view: ClusterView, now: float) -> float:  # noqa: ARG001 - the time may decide, whatever the view is
    return now


class Around:
    """What decides by way of a policy, and is like it in all else.

    Attributes:
        policy: The policy.
    """

    __slots__ = ()
    policy: Policy

    @property
    def name(self) -> str:
        """The policy's."""
        return self.policy.name

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
