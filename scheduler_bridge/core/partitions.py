"""Decisions beside advance reservations: the same policy decides for each part of the cluster, in a view of its own.

The parts, and what each view shows:

- each reservation that has begun: its nodes and its jobs, those that by their walltime end with it at the latest;
- all other nodes and jobs; the nodes that are kept look like those of a rigid job that ends with the reservation, so
  that whatever the policy promises takes them into account. As long as every job that waits would end before a
  reservation begins, its nodes belong to this part, but for running jobs that might stay longer;
- the nodes kept for later, lent to jobs that end in time: to the first job that the policy made a promise to, together
  with nodes of the part before, and else to jobs that find room on nodes of one reservation alone.

A job that holds lent nodes is not resized where a policy counts nodes that it cannot have. No policy knows any of this.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final, TypeAlias

from msgspec import structs

from scheduler_bridge.core import bookings, limits, orders
from scheduler_bridge.core.bookings import Booking
from scheduler_bridge.core.effects import Effect
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.core.tracked import TrackedJob
from scheduler_bridge.model import Because, ClusterView, JobSpec, Reservation, RunningJob, wording
from scheduler_bridge.policies import Decision, Policy, Reserve, Share, Start
from scheduler_bridge.policies.base import jobs_per_node

WhyWaiting: TypeAlias = Callable[[JobSpec, Reservation | None], str]
_PLACEHOLDER: Final = 1 << 62
"""Ids of the jobs that stand for kept nodes begin here."""


def decide(state: SchedulerState, policy: Policy, now: float) -> list[Effect]:
    """Let the policy decide for every part of the cluster, and carry that out."""
    policy = limits.under(state, policy)
    effects = bookings.replace_lost(state, now)
    whole = _Pass(state, policy, now, tuple(state.reservations.values()))
    try:
        for booking in state.bookings.values():
            if booking.started:
                effects += whole.inside(booking)
        effects += whole.outside()
        effects += whole.lend()
    finally:
        state.pool.confine(None)
    state.renew(whole.promised.values())
    return effects


def explainer(state: SchedulerState, policy: Policy, now: float) -> WhyWaiting:
    """What says why a job waits, at this moment."""
    policy = limits.under(state, policy)
    if not state.bookings:
        view = state.view()
        return lambda spec, promise: policy.why_waiting(view, spec, promise)
    outside = _Outside.of(state, policy, now, ())
    return lambda spec, promise: _why(state, policy, outside, spec, promise, now)


@dataclass(slots=True)
class _Pass:
    """One pass over all parts.

    Attributes:
        state: The state, which the pass changes.
        policy: What decides.
        now: When.
        before: What the last pass promised.
        promised: What this one does.
    """

    state: SchedulerState
    policy: Policy
    now: float
    before: tuple[Reservation, ...]
    promised: dict[int, Reservation] = field(default_factory=dict)

    def inside(self, booking: Booking) -> list[Effect]:
        """Decide for a reservation that has begun."""
        self.state.pool.confine(booking.ranks)
        view = _inside(self.state, booking, self.now, self.before)
        decisions = self.policy.decide(view, self.now)
        booking.inside.update(found.job_id for found in decisions if isinstance(found, Start | Share))
        effects = orders.carry_out(self.state, decisions, self.now)
        self._promise(booking.spec.end_s)
        return effects

    def outside(self) -> list[Effect]:
        """Decide for the rest; a job that could start if it were lent nodes does so, before others are considered."""
        effects: list[Effect] = []
        while True:
            outside = _Outside.of(self.state, self.policy, self.now, self.before)
            self.state.pool.confine(~outside.barred)
            decisions = self.policy.decide(outside.view, self.now)
            if (lent := self._lent(outside, decisions)) is None:
                effects += orders.carry_out(self.state, decisions, self.now)
                self._promise(math.inf)
                return effects
            starts = [found for found in decisions if isinstance(found, Start | Share)]
            effects += orders.carry_out(self.state, starts, self.now)
            state, spec = self.state, self.state.queue[lent.job_id].spec
            ours = ~bookings.barred(state, self.now + _time_s(state, spec, lent.nodes))
            state.pool.confine(ours, first=bookings.barred(state, math.inf))
            effects += orders.carry_out(state, [lent], self.now)

    def _lent(self, outside: _Outside, decisions: Iterable[Decision]) -> Start | None:
        """The first promise, if it can be kept at once with nodes that are kept for later."""
        first = next((found.reservation for found in decisions if isinstance(found, Reserve)), None)
        if first is None or not outside.barred:
            return None
        starts = [found for found in decisions if isinstance(found, Start | Share)]
        free = outside.view.free_nodes - sum([f.nodes if isinstance(f, Start) else f.free_nodes for f in starts])
        state, job = self.state, self.state.queue[first.job_id]
        spec, room = job.spec, limits.left(state, job)
        room -= sum([f.nodes for f in starts if state.queue[f.job_id].spec.user == spec.user])
        ours = ~bookings.barred(state, self.now + _time_s(state, spec, first.nodes))
        lendable = state.pool.all_free_ranks & outside.barred & ours
        if not lendable or first.nodes > min(room, lendable.bit_count() + free):
            return None
        return Start(spec.job_id, first.nodes, _reason(state, lendable))

    def lend(self) -> list[Effect]:
        """Let the policy place jobs that end in time on nodes that are kept for later, without any others."""
        effects: list[Effect] = []
        state = self.state
        for booking in sorted(state.bookings.values(), key=lambda booking: -booking.spec.start_s):
            starts_s = booking.spec.start_s
            ranks = booking.ranks & ~bookings.barred(state, starts_s)
            if booking.started or not (free := (state.pool.all_free_ranks & ranks).bit_count()):
                continue
            queue = [spec for spec in _ordinary(state) if self.now + _longest_s(state, spec) <= starts_s]
            if not queue:
                continue
            state.pool.confine(ranks)
            decisions = self.policy.decide(_view(state, state.pool.in_service, free, queue, (), ()), self.now)
            reason = _reason(state, booking.ranks)
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


# one reservation that has begun ---------------------------------------------------------------------------------------


def _inside(state: SchedulerState, booking: Booking, now: float, before: Sequence[Reservation]) -> ClusterView:
    """What the policy sees of a reservation; jobs that have not left it yet hold their nodes."""
    running = []
    for job_id, job in state.active.items():
        if job_id in booking.inside:
            running.append(job.view())
        elif here := (job.allocation.ranks & booking.ranks).bit_count():
            running.append(structs.replace(job.view(), nodes=here, ready=False, order=None, kept_nodes=0))
    queue = [
        job.spec
        for job in state.queue.values()
        if bookings.of(state, job.spec) is booking and now + _longest_s(state, job.spec) <= booking.spec.end_s
    ]
    nodes = booking.ranks & ~state.pool.down_ranks
    free = (state.pool.all_free_ranks & booking.ranks).bit_count()
    return _view(state, nodes.bit_count(), free, queue, running, before)


# all that is not reserved ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Outside:
    """The ordinary part: the view, and the nodes that are none of it."""

    view: ClusterView
    barred: int

    @classmethod
    def of(cls, state: SchedulerState, policy: Policy, now: float, before: Sequence[Reservation]) -> _Outside:
        """The ordinary part now."""
        queue = _ordinary(state)
        longest_s = max([_longest_s(state, spec) for spec in queue], default=0.0)
        closed, opens_s = list[Booking](), math.inf
        for booking in state.bookings.values():
            is_open = now + longest_s <= booking.spec.start_s and jobs_per_node(policy) == 1
            if booking.started or not is_open:
                closed.append(booking)
            else:
                opens_s = min(opens_s, booking.spec.start_s)
        barred = reduce(or_, [booking.ranks for booking in closed], 0)
        running = [
            _seen(job, barred, opens_s) for job_id, job in state.active.items() if bookings.host(state, job_id) is None
        ]
        running += _placeholders(state, closed, now)
        free = (state.pool.all_free_ranks & ~barred).bit_count()
        return cls(_view(state, state.pool.in_service, free, queue, running, before), barred)


def _ordinary(state: SchedulerState) -> list[JobSpec]:
    """The waiting jobs that belong to no reservation."""
    return [job.spec for job in state.queue.values() if bookings.of(state, job.spec) is None]


def _seen(job: TrackedJob, barred: int, opens_s: float) -> RunningJob:
    """A running job as it looks from outside: nodes that it has borrowed do not come back to this part."""
    view = job.view()
    if borrowed := (job.allocation.ranks & barred).bit_count():
        kept = min(view.nodes - view.releasing_nodes, max(view.kept_nodes, borrowed))
        return structs.replace(view, ready=False, kept_nodes=kept)
    if view.ready and view.expected_end_s > opens_s:  # it would stay on nodes that are to be free by then
        return structs.replace(view, max_nodes=view.nodes)
    return view


def _placeholders(state: SchedulerState, closed: Iterable[Booking], now: float) -> list[RunningJob]:
    """What holds the kept nodes until the reservations end."""
    found = []
    left = ~state.pool.down_ranks
    last_first = sorted(closed, key=lambda booking: (-booking.spec.end_s, booking.spec.name))
    for number, booking in enumerate(last_first):
        nodes = (booking.ranks & left).bit_count()
        left &= ~booking.ranks
        if nodes:
            job_id, end_s = _PLACEHOLDER + number, booking.spec.end_s
            spec = JobSpec(job_id, booking.spec.name, "", "rigid", nodes, nodes, nodes, end_s - now, now)
            found.append(RunningJob(spec, nodes, now, end_s, nodes, turn=sys.maxsize))
    return found


# what they have in common ---------------------------------------------------------------------------------------------


def _view(
    state: SchedulerState,
    total: int,
    free: int,
    queue: Sequence[JobSpec],
    running: Sequence[RunningJob],
    before: Iterable[Reservation],
) -> ClusterView:
    ids = {spec.job_id for spec in queue}
    return ClusterView(
        total_nodes=total,
        free_nodes=free,
        queue=tuple(queue),
        running=tuple(running),
        reservations=tuple([promise for promise in before if promise.job_id in ids]),
        accuracy=dict(state.accuracy),
        cores_per_node=state.settings.cores_per_node,
        scaled=state.settings.walltime == "scaled",
    )


def _time_s(state: SchedulerState, spec: JobSpec, nodes: int) -> float:
    """How long a job may take on so many nodes."""
    return spec.walltime_at_s(nodes) if state.settings.walltime == "scaled" else spec.walltime_s


def _longest_s(state: SchedulerState, spec: JobSpec) -> float:
    """How long a job may take, however many nodes it gets."""
    return _time_s(state, spec, spec.min_nodes)


def _reason(state: SchedulerState, ranks: int) -> Because:
    names = [booking.spec.name for booking in state.bookings.values() if booking.ranks & ranks]
    return Because("it ends before {}, for which nodes are kept, begins", (" and ".join(names),))


def _why(
    state: SchedulerState, policy: Policy, outside: _Outside, spec: JobSpec, promise: Reservation | None, now: float
) -> str:
    """Why a job waits, where there are reservations."""
    booking = bookings.of(state, spec)
    if booking is None:
        text = policy.why_waiting(outside.view, spec, promise)
        kept = (state.pool.free_ranks & outside.barred).bit_count()
        return f"{text}; {wording.are(kept)} free but reserved" if kept else text
    name, start_s, end_s = booking.spec.name, booking.spec.start_s, booking.spec.end_s
    if not booking.started:
        return f"its reservation {name} begins at {start_s:.0f} s"
    if now + _longest_s(state, spec) > end_s:
        return f"its walltime of {spec.walltime_s:g} s is more than is left of its reservation {name}"
    if promise is not None and bookings.of(state, state.jobs[promise.job_id].spec) is not booking:
        promise = None
    return policy.why_waiting(_inside(state, booking, now, ()), spec, promise)
