"""What every policy is: a pure function of the cluster and the time."""

from __future__ import annotations

from typing import Protocol

from scheduler_bridge.model import ClusterView, JobSpec, Reservation
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
