"""Advance reservations: the book of them, and decisions beside them.

A reservation gets its nodes when it is made: such as no job can hold any more at its start, if every walltime holds, so
no job has to go for it. Until its start they are lent to jobs that end before it. A node that goes out of service is
replaced, unless nodes were named.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_
from typing import Final, TypeAlias

from msgspec import structs

from scheduler_bridge.core import limits, orders
from scheduler_bridge.core.events import Effect, KeepNodes, RefuseReservation
from scheduler_bridge.core.state import Booking, SchedulerState
from scheduler_bridge.core.tracked import LIVE, JobState, TrackedJob
from scheduler_bridge.model import (
    AdvanceReservation,
    Allocation,
    Because,
    ClusterView,
    JobSpec,
    Reservation,
    RunningJob,
    wording,
)
from scheduler_bridge.model.allocation import lowest, members
from scheduler_bridge.policies import Decision, Policy, Reserve, Share, Start
from scheduler_bridge.policies.base import jobs_per_node


def booking_of(state: SchedulerState, spec: JobSpec) -> Booking | None:
    """The reservation that a job belongs to; None: none, or none any more."""
    if (booking := state.bookings.get(spec.reservation)) is not None and booking.spec.admits(spec.user):
        return booking
    return next((booking for booking in state.bookings.values() if spec.job_id in booking.spec.jobs), None)


def booking_used_by(state: SchedulerState, job_id: int) -> Booking | None:
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
    if (booking := booking_used_by(state, job.spec.job_id)) is not None:
        return booking.ranks
    return ~barred(state, job.expected_end_s)


def has_rivals(state: SchedulerState, job: TrackedJob) -> bool:
    """Whether jobs wait that may use the same nodes as a running one."""
    if not state.bookings:
        return bool(state.queue)
    part = booking_used_by(state, job.spec.job_id)
    return any(booking_of(state, other.spec) is part for other in state.queue.values())


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


def begin_and_end(state: SchedulerState, now: float) -> list[Effect]:
    """Begin and end the reservations that are due.

    A job that holds nodes of one that begins was to have ended. One that its walltime binds goes on until that is over:
    its start was late, or it is being killed. One that nothing binds is ordered to end.
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
            booking.ranks = (booking.ranks | found) & ~lowest(lost, min(found.bit_count(), lost.bit_count()))
            effects.append(KeepNodes(booking.spec.name, state.pool.name(Allocation((booking.ranks,)))))
    return effects


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
            names = _some(state.pool.name(Allocation((taken,))))
            return f"{names} cannot be free by its start: {_why_taken(state, spec, taken, now)}"
        return ranks
    vacant &= ~state.pool.down_ranks
    if vacant.bit_count() < spec.nodes:
        why = _why_taken(state, spec, state.pool.ranks & ~vacant, now)
        enough = f"only {wording.nodes(vacant.bit_count())}" if vacant else "no node"
        return f"{enough} can be free by its start: {why}"
    return _pick(state, vacant, spec.nodes)


def _vacant(state: SchedulerState, spec: AdvanceReservation, now: float) -> int:
    """The nodes that no job holds at the start, if every walltime holds, and no other reservation meanwhile."""
    ranks = state.pool.ranks & ~state.pool.leaving & ~state.pool.lent
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
    """Which jobs and reservations have those nodes then."""
    by_s = max(now, spec.start_s)
    jobs = [job for job in state.active.values() if job.allocation.ranks & ranks and not _is_gone(state, job, by_s)]
    reasons = [f"job {job.spec.job_id} may run until {wording.seconds(job.expected_end_s)}" for job in jobs]
    others = [other.spec.name for other in state.bookings.values() if other.ranks & ranks and other.spec.meets(spec)]
    reasons += [f"reservation {name} has some" for name in others]
    if lent := (ranks & state.pool.lent & state.pool.ranks).bit_count():
        reasons.append(f"{wording.are(lent)} lent")
    if down := (ranks & state.pool.down_ranks & ~state.pool.lent).bit_count():
        reasons.append(f"{wording.are(down)} out of service")
    return _some(reasons) or "there are no more"


def _some(texts: Sequence[str]) -> str:
    return ", ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")


# Decisions beside advance reservations --------------------------------------------------------------------------------
#
# The same policy decides for each part of the cluster, in a view of its own. The parts, and what each view shows:
#
# - each reservation that has begun: its nodes and its jobs, those that by their walltime end with it at the latest;
# - all other nodes and jobs; the nodes that are kept look like those of a rigid job that ends with the reservation, so
#   that whatever the policy promises takes them into account. As long as every job that waits would end before a
#   reservation begins, its nodes belong to this part, but for running jobs that might stay longer;
# - the nodes kept for later, lent to jobs that end in time: to the first job that the policy made a promise to,
#   together with nodes of the part before, and else to jobs that find room on nodes of one reservation alone.
#
# A job that holds lent nodes is not resized where a policy counts nodes that it cannot have. No policy knows any of
# this.

WhyWaiting: TypeAlias = Callable[[JobSpec, Reservation | None], str]
_PLACEHOLDER: Final = 1 << 62
"""Ids of the jobs that stand for kept nodes begin here."""


def decide(state: SchedulerState, policy: Policy, now: float) -> list[Effect]:
    """Let the policy decide for every part of the cluster, and carry that out."""
    effects = replace_lost(state, now)
    parts = _Parts(state, limits.under(state, policy), now, tuple(state.reservations.values()))
    try:
        for booking in state.bookings.values():
            if booking.started:
                effects += parts.decide_inside(booking)
        effects += parts.decide_outside()
        effects += parts.lend()
    finally:
        state.pool.confine(None)
    state.renew(parts.promised.values())
    return effects


def explainer(state: SchedulerState, policy: Policy, now: float) -> WhyWaiting:
    """A function that says why a job waits, as things are now."""
    policy = limits.under(state, policy)
    if not state.bookings:
        return partial(policy.why_waiting, state.view())
    parts = _Parts(state, policy, now, ())
    return partial(parts.why, *parts.outside())


@dataclass(slots=True)
class _Parts:
    """The parts in one pass; ``before`` is what the last one promised, ``promised`` what this one does."""

    state: SchedulerState
    policy: Policy
    now: float
    before: tuple[Reservation, ...]
    promised: dict[int, Reservation] = field(default_factory=dict)

    def decide_inside(self, booking: Booking) -> list[Effect]:
        """Decide for a reservation that has begun."""
        self.state.pool.confine(booking.ranks)
        decisions = self.policy.decide(self.inside(booking), self.now)
        booking.inside.update(found.job_id for found in decisions if isinstance(found, Start | Share))
        effects = orders.carry_out(self.state, decisions, self.now)
        self._promise(booking.spec.end_s)
        return effects

    def decide_outside(self) -> list[Effect]:
        """Decide for the rest; a job that could start if it were lent nodes does so, before others are considered."""
        effects: list[Effect] = []
        state = self.state
        while True:
            view, closed = self.outside()
            state.pool.confine(~closed)
            decisions = self.policy.decide(view, self.now)
            if (lent := self._lent(view, closed, decisions)) is None:
                effects += orders.carry_out(state, decisions, self.now)
                break
            starts = [found for found in decisions if isinstance(found, Start | Share)]
            effects += orders.carry_out(state, starts, self.now)
            ours = ~barred(state, self._end_s(state.queue[lent.job_id].spec, lent.nodes))
            state.pool.confine(ours, first=barred(state, math.inf))
            effects += orders.carry_out(state, [lent], self.now)
            if lent.job_id in state.queue:  # it could not be done, and would be decided again
                break
        self._promise(math.inf)
        return effects

    def _lent(self, view: ClusterView, closed: int, decisions: Iterable[Decision]) -> Start | None:
        """The first promise, if it can be kept at once with nodes that are kept for later."""
        starts = [found for found in decisions if isinstance(found, Start | Share)]
        started = {found.job_id for found in starts}
        promises = [found.reservation for found in decisions if isinstance(found, Reserve)]
        first = next((promise for promise in promises if promise.job_id not in started), None)
        if first is None or not closed:
            return None
        free = view.free_nodes - sum([f.nodes if isinstance(f, Start) else f.free_nodes for f in starts])
        state, job = self.state, self.state.queue[first.job_id]
        spec, room = job.spec, limits.left(state, job)
        room -= sum([f.nodes for f in starts if state.queue[f.job_id].spec.user == spec.user])
        lendable = state.pool.all_free_ranks & closed & ~barred(state, self._end_s(spec, first.nodes))
        if not lendable or first.nodes > min(room, lendable.bit_count() + free):
            return None
        return Start(spec.job_id, first.nodes, self._reason(lendable))

    def lend(self) -> list[Effect]:
        """Let the policy place jobs that end in time on nodes that are kept for later, without any others."""
        effects: list[Effect] = []
        state = self.state
        for booking in sorted(state.bookings.values(), key=lambda booking: -booking.spec.start_s):
            starts_s = booking.spec.start_s
            ranks = booking.ranks & ~barred(state, starts_s)
            if booking.started or not (free := (state.pool.all_free_ranks & ranks).bit_count()):
                continue
            queue = [spec for spec in self._belonging(None) if self._end_s(spec) <= starts_s]
            if not queue:
                continue
            state.pool.confine(ranks)
            view = replace(self._view(state.pool.in_service, free, queue, ()), reservations=())
            reason = self._reason(booking.ranks)
            decisions = self.policy.decide(view, self.now)
            starts = [Start(found.job_id, found.nodes, reason) for found in decisions if isinstance(found, Start)]
            for start in starts:
                self.promised.pop(start.job_id, None)
            effects += orders.carry_out(state, starts, self.now)
        return effects

    def _promise(self, until_s: float) -> None:
        """Keep what was promised to jobs that can be over by then."""
        for job_id, promise in self.state.reservations.items():
            if promise.start_s + self.state.jobs[job_id].spec.walltime_s <= until_s:
                self.promised[job_id] = promise

    def _reason(self, ranks: int) -> Because:
        names = [booking.spec.name for booking in self.state.bookings.values() if booking.ranks & ranks]
        return Because("it ends before {}, for which nodes are kept, begins", (" and ".join(names),))

    def why(self, view: ClusterView, closed: int, spec: JobSpec, promise: Reservation | None) -> str:
        """Why a job waits; the ordinary part and the nodes that are none of it come first."""
        state = self.state
        booking = booking_of(state, spec)
        if booking is None:
            text = self.policy.why_waiting(view, spec, promise)
            kept = (state.pool.all_free_ranks & closed).bit_count()
            return f"{text}; {wording.are(kept)} free but reserved" if kept else text
        name = booking.spec.name
        if not booking.started:
            return f"its reservation {name} begins at {booking.spec.start_s:.0f} s"
        if self._end_s(spec) > booking.spec.end_s:
            return f"its walltime of {spec.walltime_s:g} s is more than is left of its reservation {name}"
        if promise is not None and booking_of(state, state.jobs[promise.job_id].spec) is not booking:
            promise = None
        return self.policy.why_waiting(self.inside(booking), spec, promise)

    # what the policy sees -------------------------------------------------------------------------------------------

    def inside(self, booking: Booking) -> ClusterView:
        """A reservation that has begun; jobs that have not left it yet hold their nodes."""
        pool, running = self.state.pool, []
        for job_id, job in self.state.active.items():
            if job_id in booking.inside:
                running.append(job.view())
            elif here := (job.allocation.ranks & booking.ranks).bit_count():
                running.append(structs.replace(job.view(), nodes=here, ready=False, order=None, kept_nodes=0))
        queue = [spec for spec in self._belonging(booking) if self._end_s(spec) <= booking.spec.end_s]
        free = (pool.all_free_ranks & booking.ranks).bit_count()
        return self._view((booking.ranks & ~pool.down_ranks).bit_count(), free, queue, running)

    def outside(self) -> tuple[ClusterView, int]:
        """All that is not reserved, and the nodes that are none of it."""
        state, queue = self.state, self._belonging(None)
        longest_s = max(map(self._end_s, queue), default=self.now)
        closed, opens_s = list[Booking](), math.inf
        for booking in state.bookings.values():
            if booking.started or longest_s > booking.spec.start_s or jobs_per_node(self.policy) != 1:
                closed.append(booking)
            else:
                opens_s = min(opens_s, booking.spec.start_s)
        ranks = reduce(or_, [booking.ranks for booking in closed], 0)
        running = [
            _seen(job, ranks, opens_s) for job_id, job in state.active.items() if booking_used_by(state, job_id) is None
        ]
        running += self._placeholders(closed)
        free = (state.pool.all_free_ranks & ~ranks).bit_count()
        return self._view(state.pool.in_service, free, queue, running), ranks

    def _belonging(self, booking: Booking | None) -> list[JobSpec]:
        """The waiting jobs that belong to a reservation; None: to none."""
        return [job.spec for job in self.state.queue.values() if booking_of(self.state, job.spec) is booking]

    def _placeholders(self, closed: Iterable[Booking]) -> list[RunningJob]:
        """What holds the kept nodes until the reservations end."""
        found, now = [], self.now
        left = ~self.state.pool.down_ranks
        last_first = sorted(closed, key=lambda booking: (-booking.spec.end_s, booking.spec.name))
        for number, booking in enumerate(last_first):
            nodes = (booking.ranks & left).bit_count()
            left &= ~booking.ranks
            if nodes:
                job_id, end_s = _PLACEHOLDER + number, booking.spec.end_s
                spec = JobSpec(job_id, booking.spec.name, "", "rigid", nodes, nodes, nodes, end_s - now, now)
                found.append(RunningJob(spec, nodes, now, end_s, nodes, turn=sys.maxsize))
        return found

    def _view(self, total: int, free: int, queue: Sequence[JobSpec], running: Sequence[RunningJob]) -> ClusterView:
        ids, settings = {spec.job_id for spec in queue}, self.state.settings
        return ClusterView(
            total_nodes=total,
            free_nodes=free,
            queue=tuple(queue),
            running=tuple(running),
            reservations=tuple([promise for promise in self.before if promise.job_id in ids]),
            accuracy=dict(self.state.accuracy),
            cores_per_node=settings.cores_per_node,
            scaled=settings.walltime == "scaled",
        )

    def _end_s(self, spec: JobSpec, nodes: int | None = None) -> float:
        """When a job that starts now may end on this number of nodes; None: on any."""
        nodes = spec.min_nodes if nodes is None else nodes
        scaled = self.state.settings.walltime == "scaled"
        return self.now + (spec.walltime_at_s(nodes) if scaled else spec.walltime_s)


def _seen(job: TrackedJob, closed: int, opens_s: float) -> RunningJob:
    """A running job as it looks from outside: nodes that it has borrowed do not come back to this part."""
    view = job.view()
    if borrowed := (job.allocation.ranks & closed).bit_count():
        kept = min(view.nodes - view.releasing_nodes, max(view.kept_nodes, borrowed))
        return structs.replace(view, ready=False, kept_nodes=kept)
    if view.ready and view.expected_end_s > opens_s:  # it would stay on nodes that are to be free by then
        return structs.replace(view, max_nodes=view.nodes)
    return view
