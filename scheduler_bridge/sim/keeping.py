"""An independent account of advance reservations: who is placed on nodes that are kept, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from scheduler_bridge.core.effects import Effect, KeepNodes, SendOrder, StartJob
from scheduler_bridge.core.events import Event, JobStarted, JobSubmitted, ReservationCancelled, ReservationMade
from scheduler_bridge.model import AdvanceReservation, JobSpec

_SLACK_S: Final = 1e-6


class NotKeptError(AssertionError):
    """A job was placed on nodes that are kept for others; the text says which and when."""


@dataclass(slots=True)
class Keeping:
    """Believes events and effects only.

    Attributes:
        scaled: Walltimes are predicted for the size at which a job starts.
    """

    scaled: bool = False
    _specs: dict[int, JobSpec] = field(default_factory=dict)
    _ends_s: dict[int, float] = field(default_factory=dict)
    _placed: set[int] = field(default_factory=set)
    _asked: dict[str, AdvanceReservation] = field(default_factory=dict)
    _kept: dict[str, frozenset[str]] = field(default_factory=dict)

    def book(self, now: float, events: Sequence[Event], effects: Sequence[Effect]) -> None:
        """Take in one batch.

        Raises:
            NotKeptError: A job starts on, or gets, a kept node that it could still hold at the start of a reservation
                that it does not belong to; or it starts for its reservation elsewhere, too early or for too long.
        """
        for event in events:
            if isinstance(event, JobSubmitted):
                self._specs[event.job.job_id] = event.job
            elif isinstance(event, JobStarted) and event.job_id in self._ends_s:
                self._ends_s[event.job_id] = now + self._specs[event.job_id].walltime_s
            elif isinstance(event, ReservationMade):
                self._asked.setdefault(event.reservation.name, event.reservation)
            elif isinstance(event, ReservationCancelled):
                self._forget(event.name)
        for effect in effects:
            if isinstance(effect, KeepNodes) and effect.name in self._asked:  # else it was cancelled at once
                self._kept[effect.name] = frozenset(effect.nodes)
        for name in [name for name, asked in self._asked.items() if asked.end_s <= now or name not in self._kept]:
            self._forget(name)
        for effect in effects:
            if isinstance(effect, StartJob):
                self._started(effect, now)
            elif isinstance(effect, SendOrder) and effect.kind == "grow":
                self._place(effect.job_id, effect.nodes, self._ends_s[effect.job_id], now)

    def _forget(self, name: str) -> None:
        self._asked.pop(name, None)
        self._kept.pop(name, None)

    def _started(self, effect: StartJob, now: float) -> None:
        spec = self._specs[effect.job_id]
        nodes = len(effect.nodes)
        end_s = now + (spec.walltime_at_s(nodes) if self.scaled else spec.walltime_s)
        self._ends_s[effect.job_id] = end_s
        self._place(effect.job_id, effect.nodes, end_s, now)

    def _place(self, job_id: int, nodes: Sequence[str], end_s: float, now: float) -> None:
        spec = self._specs[job_id]
        for name, kept in self._kept.items():
            asked = self._asked[name]
            taken = kept.intersection(nodes)
            owner = (spec.reservation == name and asked.admits(spec.user)) or job_id in asked.jobs
            if owner and now >= asked.start_s and len(taken) == len(nodes):
                continue
            if taken and end_s > asked.start_s + _SLACK_S:
                raise NotKeptError(f"at {now} s: job {job_id} gets {sorted(taken)} until {end_s} s, kept as {asked}")
            if owner and now < asked.end_s and job_id not in self._placed:
                raise NotKeptError(
                    f"at {now} s: job {job_id} does not start as and where its reservation says: {asked}"
                )
        self._placed.add(job_id)
