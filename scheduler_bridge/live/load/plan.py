"""What a daemon is to be put under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WALLTIME_S: Final = 7200.0
"""Of jobs that are there from the beginning; those that follow them ask for half of it, and so may overtake."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A load.

    Attributes:
        queued: Jobs that wait all the time, each for more nodes than can come free.
        connected: Malleable jobs (1 to 4 nodes; two per job are there) that run and are connected.
        rate: Events a second: each message of a job, but the one that it connects with, and each submission, start and
            end of a job. Those that follow from others count, too: outcomes of orders, and all that a new job brings.
        requests: The share of them that asks for a node more, or offers one back: the scheduler decides about each.
        ends: The share of them by which a job ends; another one is submitted then, starts and says that it is ready.
            What is left of the rate are reports of progress, which are only remembered.
        seconds: How long.
        policy: Name of the policy.
    """

    queued: int = 10_000
    connected: int = 1_000
    rate: float = 5_000.0
    requests: float = 0.25
    ends: float = 0.02
    seconds: float = 10.0
    policy: str = "malleable"

    def __post_init__(self) -> None:
        if self.queued < 0 or self.connected < 1 or self.rate <= 0 or self.seconds <= 0:
            raise ValueError("a load needs at least one connected job, a rate, and seconds above 0")
        if not (0 <= self.requests <= 1 and 0 <= self.ends <= 1):
            raise ValueError("shares lie between 0 and 1")

    @property
    def nodes(self) -> int:
        """Nodes of the cluster."""
        return 2 * self.connected
