"""What the worker slots of a place remember: how much to process at a time, how fast, and what was done."""

from __future__ import annotations

from dataclasses import dataclass

from glb.config import Config
from glb.core.pacing import Granularity, Pacer
from glb.statistics import Statistics


@dataclass(eq=False)
class Slot:
    """What one worker slot remembers between bags; written by the worker in it only.

    Attributes:
        number: Which slot it is.
        granularity: How much to process at a time.
        pacer: Holds the worker to a rate; None: no limit.
        seen: What the state machine's ``calls`` were when the worker last looked.
        away: Whether everything that the present call does not process was set out before it.
        held: Tasks and bytes of the worker's bag when it last looked.
        tasks: Tasks processed.
        bytes_sent: Bytes of the bags given away.
        busy_s: Seconds spent processing, pauses included.
        alive_s: Seconds with a bag.
    """

    number: int
    granularity: Granularity
    pacer: Pacer | None
    seen: int = 0
    away: bool = False
    held: tuple[int, int] = (0, 0)
    tasks: int = 0
    bytes_sent: int = 0
    busy_s: float = 0.0
    alive_s: float = 0.0

    @classmethod
    def of(cls, number: int, config: Config, now: float) -> Slot:
        """Return a new slot for a computation with these settings."""
        granularity = Granularity(config.granularity, config.target_s, config.rate)
        return cls(number, granularity, None if config.rate is None else Pacer(config.rate, now))

    def settle(self, statistics: Statistics) -> None:
        """Add what was done to ``statistics``, and begin anew; nobody works here."""
        statistics.tasks += self.tasks
        statistics.bytes_sent += self.bytes_sent
        statistics.busy_s += self.busy_s
        statistics.balancing_s += self.alive_s - self.busy_s
        if self.pacer is not None:
            statistics.worst_lag_s = max(statistics.worst_lag_s, self.pacer.worst_lag_s)
            statistics.given_up_s += self.pacer.given_up_s
            self.pacer.given_up_s = 0.0
        self.held = (0, 0)
        self.tasks = self.bytes_sent = 0
        self.busy_s = self.alive_s = 0.0
