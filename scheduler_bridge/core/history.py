"""What was decided about a job, when and why: the history that ``malleable explain`` shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal, TypeAlias

import msgspec

from scheduler_bridge.core import advance_reservations
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.core.tracked import JobState
from scheduler_bridge.model import Reason, Reservation
from scheduler_bridge.policies import Policy

Remembered: TypeAlias = frozenset[int] | Literal["all"]
"""The jobs whose histories are kept."""

_MOMENTS: Final = 200
_NEAR_JOBS: Final = 50
"""Of how many waiting jobs, from the front of the queue, it is taken down why they wait if all jobs are remembered."""


class Claim(msgspec.Struct, frozen=True):
    """Nodes that a waiting job counts on.

    Attributes:
        job_id: The job that holds them.
        nodes: How many they are.
        until_s: When they come free at the latest, if walltimes hold; None: they are being released.
    """

    job_id: int
    nodes: int
    until_s: float | None


class Moment(msgspec.Struct, frozen=True):
    """Something was decided about a job or happened to it, or it waits for another reason than before.

    Attributes:
        time_s: When.
        nodes: The nodes that the job holds from then on; those on order to arrive included.
        text: What and why.
        counts_on: What a waiting job waits for.
    """

    time_s: float
    nodes: int
    text: str
    counts_on: tuple[Claim, ...] = ()


class Explanation(msgspec.Struct, frozen=True):
    """Why a job is where it is. Times in seconds of the scheduler's clock.

    Attributes:
        text: Why it waits, what was decided last about it and why, or how it ended.
        expected_start_s: A waiting job's start at the latest, if all walltimes hold and it holds a reservation.
        counts_on: What a waiting job waits for.
        moments: How it came about, the latest last; the beginning is missing if there were very many.
    """

    job_id: int
    name: str
    state: JobState
    now_s: float
    text: str
    nodes: tuple[str, ...]
    expected_start_s: float | None
    counts_on: tuple[Claim, ...]
    moments: tuple[Moment, ...]


@dataclass(slots=True)
class Histories:
    """Keeps histories by looking at the state after the events of an instant, and again after the pass."""

    remembered: Remembered
    _moments: dict[int, deque[Moment]] = field(default_factory=dict)
    _notes: dict[int, Reason] = field(default_factory=dict)
    _waits: dict[int, object] = field(default_factory=dict)

    def of(self, job_id: int) -> tuple[Moment, ...]:
        """The history of a job; empty if it is not remembered."""
        return tuple(self._moments.get(job_id, ()))

    def note(self, state: SchedulerState, now: float) -> None:
        """Take down what has become of the jobs touched in this batch."""
        for job_id in self._among(state.touched):
            job = state.jobs[job_id]
            if self._notes.get(job_id) != job.note:
                self._notes[job_id] = job.note
                self._add(job_id, Moment(now, len(job.allocation), str(job.note)))

    def note_waits(self, state: SchedulerState, policy: Policy, now: float) -> None:
        """Take down why jobs wait after a pass, where that is not what it was.

        It is the same as long as the same job's reservation at the same time stands in the way, and there are enough
        free nodes, or not, as before: the text, in which the number of free nodes may change, is made only then.
        """
        explain, claims = None, dict[int, tuple[Claim, ...]]()
        # Where all are remembered, those far back in a long queue would cost more than all else that is decided.
        near = islice(state.queue, _NEAR_JOBS) if self.remembered == "all" else state.queue
        first, free = next(iter(state.reservations.values()), None), state.pool.free
        usual = [_why(first, fits=fits) for fits in (False, True)]
        for job_id in self._among(near):
            spec, reservation = state.jobs[job_id].spec, state.reservations.get(job_id, first)
            fits = spec.min_nodes <= free
            why = usual[fits] if reservation is first else _why(reservation, fits=fits)
            if self._waits.get(job_id) == why:
                continue
            self._waits[job_id] = why
            explain = explain or advance_reservations.explainer(state, policy, now)
            if reservation is not None and reservation.job_id not in claims:
                claims[reservation.job_id] = counts_on(state, reservation)
            found = claims[reservation.job_id] if reservation is not None else ()
            self._add(job_id, Moment(now, 0, f"waits: {explain(spec, reservation)}", found))

    def _among(self, job_ids: Iterable[int]) -> Iterable[int]:
        if self.remembered == "all":
            return job_ids
        return self.remembered.intersection(job_ids)

    def _add(self, job_id: int, moment: Moment) -> None:
        self._moments.setdefault(job_id, deque(maxlen=_MOMENTS)).append(moment)


def _why(reservation: Reservation | None, *, fits: bool) -> object:
    """What must change before it is said anew why a job waits, in whose way ``reservation`` stands."""
    return None if reservation is None else (reservation.job_id, reservation.start_s), fits


def counts_on(state: SchedulerState, reservation: Reservation) -> tuple[Claim, ...]:
    """The nodes that come free until the reservation begins: those being released first, then by time."""
    found: list[Claim] = []
    for job in [job.view() for job in state.active.values()]:
        if releasing := job.releasing_nodes:
            found.append(Claim(job.spec.job_id, releasing, None))
        left = job.nodes - releasing - job.kept_nodes  # others stay on nodes that it shares
        if job.expected_end_s <= reservation.start_s and left > 0:
            found.append(Claim(job.spec.job_id, left, job.expected_end_s))
    return tuple(sorted(found, key=lambda claim: (claim.until_s is not None, claim.until_s or 0.0, claim.job_id)))


def explain(state: SchedulerState, policy: Policy, histories: Histories, job_id: int, now: float) -> Explanation:
    """Explain where a job is.

    Raises:
        KeyError: No such job.
    """
    job = state.jobs[job_id]
    text, start_s, claims = str(job.note), None, tuple[Claim, ...]()
    if job.state is JobState.QUEUED:
        reservation = state.reservation_of(job_id)
        text = advance_reservations.explainer(state, policy, now)(job.spec, reservation)
        if reservation is not None:
            claims = counts_on(state, reservation)
            start_s = reservation.start_s if reservation.job_id == job_id else None
    nodes = state.pool.name(job.allocation)
    return Explanation(job_id, job.spec.label, job.state, now, text, nodes, start_s, claims, histories.of(job_id))
