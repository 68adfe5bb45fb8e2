"""What a run of the model yields."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glb.statistics import Statistics

    from .machine import Job


@dataclass(frozen=True)
class Outcome:
    """One computation on the modelled machine; seconds are those of the model.

    Attributes:
        job: What was computed.
        total_s: From the first task to the folded result on place 0.
        last_task_s: When the last task had been processed.
        finish_s: When place 0 knew that all had been.
        spread_s: When half, 90 % and 99 % of the places had had work; None if so many never had.
        messages: Messages of all places.
        bytes: Bytes of all messages.
        home_messages: Messages that place 0 sent or received.
        statistics: Counts of all places.
        events: Events of the simulation.
    """

    job: Job
    total_s: float
    last_task_s: float
    finish_s: float
    spread_s: tuple[float | None, float | None, float | None]
    messages: int
    bytes: int
    home_messages: int
    statistics: Statistics
    events: int

    @property
    def efficiency(self) -> float:
        """The least time that the places could have needed over the time that they did."""
        return self.job.work_s / self.total_s

    @property
    def balance(self) -> float:
        """The same up to the last task: what the stealing alone achieves."""
        return self.job.work_s / self.last_task_s

    @property
    def steals(self) -> float:
        """Bags received per place."""
        return self.statistics.received / self.job.places

    @property
    def messages_per_place(self) -> float:
        """Messages sent per place."""
        return self.messages / self.job.places

    @property
    def end_s(self) -> float:
        """From the last task to the folded result."""
        return self.total_s - self.last_task_s


def spread(first_work_s: Sequence[float], places: int) -> tuple[float | None, float | None, float | None]:
    """Return when half, 90 % and 99 % of ``places`` had had work, given when each that ever had first did."""
    times = sorted(first_work_s)
    needed = [ceil(share * places) for share in (0.5, 0.9, 0.99)]
    half, most, all_but = (times[count - 1] if count <= len(times) else None for count in needed)
    return half, most, all_but
