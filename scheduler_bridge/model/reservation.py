"""Future claims on nodes: a waiting job's, which a policy makes, and advance reservations."""

from __future__ import annotations

import math
import re
from typing import Final

import msgspec

from scheduler_bridge.model import wording


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """When a waiting job can start at the latest, if every walltime holds.

    Attributes:
        job_id: The waiting job.
        start_s: Seconds of the scheduler's clock; infinite while the nodes in service could never hold the job.
        nodes: The nodes that it will need.
        spare_nodes: Nodes free at ``start_s`` that it leaves to others, however long those run.
    """

    job_id: int
    start_s: float
    nodes: int
    spare_nodes: int

    def admits(self, nodes: int, end_s: float) -> bool:
        """Whether a job on ``nodes`` nodes that ends by ``end_s`` leaves the reservation as it is."""
        return end_s <= self.start_s or nodes <= self.spare_nodes

    def __str__(self) -> str:
        if math.isinf(self.start_s):
            return f"job {self.job_id} needs {wording.nodes(self.nodes)}, more than are in service"
        verb = "is" if self.nodes == 1 else "are"
        return f"{wording.nodes(self.nodes)} {verb} reserved for job {self.job_id} at {wording.seconds(self.start_s)}"


# Advance reservations, made by operators ----------------------------------------------------------------------------

_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,100}")


class InvalidReservationError(ValueError):
    """No cluster could keep nodes so; the text names the reservation and the field."""


class AdvanceReservation(msgspec.Struct, frozen=True):
    """Nodes that are kept for some jobs from a time on, for a while.

    Attributes:
        name: Unique among the reservations that are not over; jobs ask for it by this name.
        start_s: From when on, in seconds of the scheduler's clock.
        end_s: Until when.
        nodes: How many nodes.
        named: Which ones; empty: any.
        users: Who may ask for it; empty: everybody.
        jobs: Waiting jobs that belong to it without having asked for it.

    Raises:
        InvalidReservationError: A field is out of range or contradicts another one.
    """

    name: str
    start_s: float
    end_s: float
    nodes: int
    named: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    jobs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        finite = math.isfinite(self.start_s) and math.isfinite(self.end_s)
        for problem, culprit in (
            (not _NAME.fullmatch(self.name), "a name has 1 to 100 letters, digits, '.', '_' and '-'"),
            (not finite or self.end_s <= self.start_s, f"it ends at {self.end_s} s, must end after {self.start_s} s"),
            (self.nodes < 1, f"nodes is {self.nodes}, must be at least 1"),
            (len(set(self.named)) < len(self.named), "a node is named twice"),
            (
                bool(self.named) and len(self.named) != self.nodes,
                f"nodes is {self.nodes}, but {len(self.named)} are named",
            ),
        ):
            if problem:
                raise InvalidReservationError(f"reservation {self.name!r}: {culprit}")

    @property
    def duration_s(self) -> float:
        """How long it lasts."""
        return self.end_s - self.start_s

    def admits(self, user: str) -> bool:
        """Whether jobs of this user may ask for it."""
        return not self.users or user in self.users

    def meets(self, other: AdvanceReservation) -> bool:
        """Whether there is a time that lies in both."""
        return self.start_s < other.end_s and other.start_s < self.end_s
