"""Conservative backfilling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from scheduler_bridge.model import ClusterView, JobSpec, Reservation
from scheduler_bridge.policies.backfill import IN_ORDER, too_few
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import ComposedPolicy, Moldable, StartSize, by_submission
from scheduler_bridge.policies.plan import Plan
from scheduler_bridge.policies.profile import Span
from scheduler_bridge.policies.registry import register
from scheduler_bridge.policies.timetable import Slot, Timetable, left


@register
def conservative() -> Policy:
    """Conservative backfilling: every waiting job holds a reservation, and overtaking delays none of them.

    A job starts if its walltime fits before and beside all reservations. A reservation moves only forward: when a job
    ends early, the waiting jobs, in the order of the queue, take the earliest start that delays no other one.

    Source: Mu'alem and Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling
    the IBM SP2 with Backfilling", IEEE Transactions on Parallel and Distributed Systems 12(6), 2001.
    [D] Malleable jobs are moldable, as in ``easy``: they reserve at their minimum, start on as many nodes as delay
    none, up to their maximum, and keep that size. [D] The first job of the queue does not start on free nodes that
    a later job's reservation needs during its walltime: what was promised is kept.
    """
    return ComposedPolicy("conservative", by_submission, EveryReservation(), Moldable())


# Backfilling with a reservation for every job -------------------------------------------------------------------------

OVERTAKES: Final = "backfilled: it delays no reservation"


class EveryReservation:
    """Every waiting job holds a reservation, and no job starts in a way that delays any of them.

    The reservations of the last pass stay; in the order of the queue each job gives its own up for the earliest one
    that delays no other one (it finds its old one again at worst), and starts if that is now. A reservation that does
    not hold any more, because a start, an end or a node was late, is made anew. [D] A job that the nodes in service
    cannot hold blocks no other.

    A reservation leaves no nodes to others: they hold their own. Who could not move forward before is only looked at
    again if nodes have come free where it could use them (``Candidates``).

    It does not count on nodes that running jobs could give back: compose it without a redistribution.
    """

    def start(self, plan: Plan, queue: Sequence[JobSpec], size: StartSize) -> None:
        """Start every job whose earliest reservation begins now; promise the others theirs."""
        if not queue:
            return
        view = plan.view
        followed = queue is view.queue and not plan.releasing
        table = view.index(Timetable) if followed else Timetable(plan.profile())
        table.begin(view, queue, size, plan.now)
        _Draft(plan, table, size).consider()

    def stands_until(self, view: ClusterView, now: float) -> float:
        """The first of the promised starts."""
        if view.releasing_nodes:
            return now
        return min([promise.start_s for promise in view.reservations], default=math.inf)

    def why(self, need: int, view: ClusterView, reservation: Reservation | None, job: JobSpec) -> str:
        """Its own reservation, and what it waits for."""
        if need > view.free_nodes or reservation is None:
            return too_few(need, view, reservation)
        if reservation.job_id != job.job_id:
            return f"it would delay others: {reservation}"
        return f"to start now would delay others; {reservation}"


class _Draft:
    """One pass over a timetable, in which what is decided is entered."""

    def __init__(self, plan: Plan, table: Timetable, size: StartSize) -> None:
        self._plan = plan
        self._table = table
        self._size = size
        self._before_s: dict[int, float] = {}  # promised starts that could not stay
        self._drop(self._put_off())

    def _put_off(self) -> list[Span]:
        """Put the promises whose time is over off until now; return where more is promised than there is."""
        now, table = self._plan.now, self._table
        tight = table.tight
        if table.soonest_s <= now:
            table.soonest_s = min([slot.start_s for slot in table.slots.values()], default=math.inf)
        if table.soonest_s <= now:
            for job_id, slot in table.slots.items():
                if slot.start_s <= now:
                    table.candidates.drop(slot)
                if slot.start_s < now:
                    self._before_s[job_id] = slot.start_s
                    if table.move(slot, now) < 0:
                        tight.append((now, now + slot.length_s))
            table.soonest_s = now
        return [(start_s, end_s) for start_s, end_s in tight if end_s > now and self._lacks(start_s, end_s)]

    def _lacks(self, start_s: float, end_s: float) -> bool:
        return self._table.profile.room(max(start_s, self._plan.now), end_s) < 0

    def _drop(self, broken: Sequence[Span]) -> None:
        """Keep the promises, first come, first served, and drop those that do not hold."""
        if not broken:
            return
        table, starts_s = self._table, list[tuple[Slot, float]]()
        for slot in table.slots.values():
            start_s, end_s = slot.start_s, slot.start_s + slot.length_s
            if start_s < math.inf and [span for span in broken if start_s < span[1] and span[0] < end_s]:
                starts_s.append((slot, start_s))
                table.move(slot, math.inf)
        for slot, start_s in starts_s:
            if table.move(slot, start_s) < 0:
                table.move(slot, math.inf)
                self._before_s.setdefault(slot.spec.job_id, start_s)
                table.candidates.drop(slot)
                table.candidates.freed.append((start_s, start_s + slot.length_s, 0))

    def consider(self) -> None:
        """Start or promise, in the order of the queue, where anything can change; only that is noted if it can be."""
        plan, table, before_s = self._plan, self._table, self._before_s
        now, most, candidates = plan.now, table.profile.in_the_end, table.candidates
        changed = list[Slot]()
        line = iter(table.slots.values())
        front = next(line, None)
        for slot in candidates.turns(table.profile, now):
            promised_s, start_s = slot.start_s, math.inf
            if now < promised_s < math.inf:
                start_s = candidates.earlier(slot)
            elif slot.need <= most:
                table.move(slot, math.inf)
                start_s = table.profile.earliest(slot.need, slot.length_s)
            if start_s < math.inf and self._place(slot, promised_s, start_s, IN_ORDER if slot is front else OVERTAKES):
                if slot is front:
                    front = next(line, None)
                continue
            if slot.start_s != (before_s.get(slot.spec.job_id, promised_s) if before_s else promised_s):
                changed.append(slot)
        plan.stands = table.follows and all(slot.start_s < math.inf for slot in changed)
        table.end(plan.view, changed, stands=plan.stands)
        for slot in changed if plan.stands else table.slots.values():
            if slot.start_s < math.inf:
                plan.reservations.append(Reservation(slot.spec.job_id, slot.start_s, slot.need, 0))

    def _place(self, slot: Slot, before_s: float, start_s: float, reason: str) -> bool:
        """Promise a job its earliest start instead of the one before; start it if that is now, and return whether."""
        plan, table, spec = self._plan, self._table, slot.spec
        now, end_s = plan.now, start_s + slot.length_s
        starts = start_s <= now and slot.need <= plan.usable
        if starts:
            table.move(slot, math.inf)
            nodes = self._size.pick(spec, min(plan.usable, table.profile.room(now, end_s)))
            plan.start(spec, nodes, reason)
            end_s = now + plan.view.walltime_s(spec, nodes)
            table.start(slot, end_s, nodes)
        elif slot.start_s < math.inf:
            table.advance(slot, start_s)
            return False
        else:
            table.move(slot, start_s)
            table.candidates.place(slot)
        if before_s < math.inf:
            for span in left(before_s, before_s + slot.length_s, start_s, end_s):
                table.candidates.freed.append((*span, 0))
        return starts
