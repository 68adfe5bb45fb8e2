"""The book of advance reservations: which nodes are kept for whom, and whom they may be lent to until then.

A reservation gets its nodes when it is made: such as nobody can hold any more at its start, if every walltime holds, so
no job has to go for it. Until its start they are lent to jobs that end before it. A node that goes out of service is
replaced, unless nodes were named.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from scheduler_bridge.core.effects import Effect, KeepNodes, RefuseReservation
from scheduler_bridge.core.lifecycle import LIVE, JobState
from scheduler_bridge.model import AdvanceReservation, Allocation, JobSpec, wording
from scheduler_bridge.model.allocation import lowest, members

if TYPE_CHECKING:
    from scheduler_bridge.core.state import SchedulerState
    from scheduler_bridge.core.tracked import TrackedJob


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
@dataclass(slots=True)
class Booking:
    """A reservation that is not over.

    Attributes:
        spec: What was asked for.
        ranks: The nodes that are kept for it.
        started: Whether its time has come.
        inside: The jobs that it has started, ended ones included.
    """

    spec: AdvanceReservation
    ranks: int
    started: bool = False
    inside: set[int] = field(default_factory=set)


def of(state: SchedulerState, spec: JobSpec) -> Booking | None:
    """The reservation that a job belongs to; None: none, or none any more."""
    if (booking := state.bookings.get(spec.reservation)) is not None and booking.spec.admits(spec.user):
        return booking
    return next((booking for booking in state.bookings.values() if spec.job_id in booking.spec.jobs), None)


def host(state: SchedulerState, job_id: int) -> Booking | None:
    """The reservation on whose nodes a job runs as its own."""
    return next((booking for booking in state.bookings.values() if job_id in booking.inside), None)


def barred(state: SchedulerState, until_s: float) -> int:
    """The nodes that an ordinary job that holds nodes until then must leave alone."""
    ranks = 0
    for booking in state.bookings.values():
        if booking.started or booking.spec.start_s < until_s:
            ranks |= booking.ranks
    return ranks


def allowed(state: SchedulerState, job: TrackedJob) -> int:
    """The nodes that a running job may get more of."""
    if (booking := host(state, job.spec.job_id)) is not None:
        return booking.ranks
    return ~barred(state, job.expected_end_s)


def has_rivals(state: SchedulerState, job: TrackedJob) -> bool:
    """Whether jobs wait that may use the same nodes as a running one."""
    if not state.bookings:
        return bool(state.queue)
    part = host(state, job.spec.job_id)
    return any(of(state, other.spec) is part for other in state.queue.values())


def make(state: SchedulerState, spec: AdvanceReservation, now: float) -> list[Effect]:
    """Keep nodes, or say why that cannot be."""
    if reason := _impossible(state, spec, now):
        return [RefuseReservation(spec.name, reason)]
    ranks = _choose(state, spec, now)
    if isinstance(ranks, str):
        return [RefuseReservation(spec.name, ranks)]
    state.bookings[spec.name] = Booking(spec, ranks, started=spec.start_s <= now)
    state.changed = True
    return [KeepNodes(spec.name, state.pool.name(Allocation((ranks,))))]


def cancel(state: SchedulerState, name: str) -> None:
    """Keep the nodes no longer; jobs that wait for them are ordinary ones from now on."""
    if state.bookings.pop(name, None) is not None:  # else it was refused, or is over
        state.changed = True


def next_turn_s(state: SchedulerState) -> float | None:
    """When the next reservation begins or ends."""
    times = [booking.spec.end_s if booking.started else booking.spec.start_s for booking in state.bookings.values()]
    return min(times, default=None)


def ring(state: SchedulerState, now: float) -> list[Effect]:
    """Begin and end the reservations that are due.

    Whoever holds nodes of one that begins was to be gone. A job that its walltime binds goes on until that is over: its
    start was late, or it is being killed. One that nothing binds is told to end.
    """
    effects: list[Effect] = []
    for name, booking in list(state.bookings.items()):
        if not booking.started and booking.spec.start_s <= now:
            booking.started = state.changed = True
            for job in list(state.active.values()):
                if job.allocation.ranks & booking.ranks and not job.bound and job.state in LIVE:
                    effects += state.kill(job, "timeout", f"its nodes are reserved for {name} from now on")
        if booking.spec.end_s <= now:
            del state.bookings[name]
            state.changed = True
    return effects


def replace_lost(state: SchedulerState, now: float) -> list[Effect]:
    """Find other nodes for those that went out of service."""
    effects: list[Effect] = []
    for booking in state.bookings.values():
        missing = booking.spec.nodes - (booking.ranks & ~state.pool.down_ranks).bit_count()
        if missing <= 0 or booking.spec.named:
            continue
        found = _pick(state, _vacant(state, booking.spec, now) & ~booking.ranks & ~state.pool.down_ranks, missing)
        if found:
            lost = booking.ranks & state.pool.down_ranks
            booking.ranks = (booking.ranks | found) & ~_lowest(lost, found.bit_count())
            effects.append(KeepNodes(booking.spec.name, state.pool.name(Allocation((booking.ranks,)))))
    return effects


def _lowest(ranks: int, count: int) -> int:
    return lowest(ranks, min(count, ranks.bit_count()))


def _impossible(state: SchedulerState, spec: AdvanceReservation, now: float) -> str:
    """Why there can be no such reservation, whatever runs; empty if there can."""
    if spec.name in state.bookings:
        return f"there is a reservation {spec.name} already"
    if spec.end_s <= now:
        return f"it would have ended at {wording.seconds(spec.end_s)}, now it is {wording.seconds(now)}"
    if spec.nodes > len(state.pool):
        return f"it asks for {wording.nodes(spec.nodes)}, the cluster has {len(state.pool)}"
    if unknown := [node for node in spec.named if node not in state.pool]:
        return f"there is no node {unknown[0]}"
    if strange := [job_id for job_id in spec.jobs if job_id not in state.queue]:
        return f"job {strange[0]} does not wait"
    return ""


def _choose(state: SchedulerState, spec: AdvanceReservation, now: float) -> int | str:
    """The nodes to keep, or why there are not enough."""
    vacant = _vacant(state, spec, now)
    if spec.named:
        ranks = state.pool.rank(spec.named) or 0
        if taken := ranks & ~vacant:
            return f"{_list(state, taken)} cannot be free by its start: {_why_taken(state, spec, taken, now)}"
        return ranks
    vacant &= ~state.pool.down_ranks
    if vacant.bit_count() < spec.nodes:
        everything = state.pool.ranks & ~vacant
        why = _why_taken(state, spec, everything, now)
        enough = f"only {wording.nodes(vacant.bit_count())}" if vacant else "no node"
        return f"{enough} can be free by its start: {why}"
    return _pick(state, vacant, spec.nodes)


def _vacant(state: SchedulerState, spec: AdvanceReservation, now: float) -> int:
    """The nodes that no job holds at the start, if every walltime holds, and no other reservation meanwhile."""
    ranks = state.pool.ranks & ~state.pool.leaving
    for job in state.active.values():
        if not _is_gone(state, job, max(now, spec.start_s)):
            ranks &= ~job.allocation.ranks
    for booking in state.bookings.values():
        if booking.spec.name != spec.name and booking.spec.meets(spec):
            ranks &= ~booking.ranks
    return ranks


def _is_gone(state: SchedulerState, job: TrackedJob, by_s: float) -> bool:
    """Whether a job that holds nodes must have ended by then."""
    if job.state in (JobState.CLAIMING, JobState.ENDING) or not job.bound:
        return False
    return job.expected_end_s + state.settings.walltime_grace_s <= by_s


def _pick(state: SchedulerState, ranks: int, count: int) -> int:
    """At most ``count`` of the nodes: free ones first, and those that jobs are given last."""
    free = state.pool.all_free_ranks
    best = sorted(members(ranks), key=lambda rank: (not free >> rank & 1, -rank))
    return sum(1 << rank for rank in best[:count])


def _why_taken(state: SchedulerState, spec: AdvanceReservation, ranks: int, now: float) -> str:
    """Who has those nodes then."""
    by_s = max(now, spec.start_s)
    jobs = [job for job in state.active.values() if job.allocation.ranks & ranks and not _is_gone(state, job, by_s)]
    told = [f"job {job.spec.job_id} may run until {wording.seconds(job.expected_end_s)}" for job in jobs]
    others = [other.spec.name for other in state.bookings.values() if other.ranks & ranks and other.spec.meets(spec)]
    told += [f"reservation {name} has some" for name in others]
    if down := (ranks & state.pool.down_ranks).bit_count():
        told.append(f"{wording.are(down)} out of service")
    return _some(told) or "there are no more"


def _some(texts: Iterable[str]) -> str:
    texts = list(texts)
    return ", ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")


def _list(state: SchedulerState, ranks: int) -> str:
    return _some(state.pool.name(Allocation((ranks,))))
