"""Moving nodes between running malleable jobs, by a priority: from the highest to waiting jobs, then to the lowest."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, Generic, TypeAlias, TypeVar

from scheduler_bridge.model import Because, JobSpec, Key, RunningJob, wording
from scheduler_bridge.policies.compose import StartSize, at_minimum
from scheduler_bridge.policies.plan import Floor, Plan

# A heap on top of a sorted sequence -----------------------------------------------------------------------------------

_Item = TypeVar("_Item")


class Frontier(Generic[_Item]):
    """A heap on top of a sequence that is sorted already: of that only as much is looked at as is needed.

    Args:
        rest: The items, lowest rank first.
        rank: Where an item stands; no two items have the same rank.
    """

    def __init__(self, rest: Iterator[_Item], rank: Callable[[_Item], tuple[float, int]]) -> None:
        self._rest = rest
        self._rank = rank
        self._heap: list[tuple[tuple[float, int], _Item]] = []
        self._fresh: tuple[tuple[float, int], _Item] | None = None
        self._look()

    def _look(self) -> None:
        item = next(self._rest, None)
        self._fresh = None if item is None else (self._rank(item), item)

    def __bool__(self) -> bool:
        return self._fresh is not None or bool(self._heap)

    def __iter__(self) -> Iterator[_Item]:
        """Take the items out one by one."""
        while self:
            yield self.pop()[1]

    def push(self, rank: tuple[float, int], item: _Item) -> None:
        """Put an item in, perhaps one that was there before."""
        heapq.heappush(self._heap, (rank, item))

    def pop(self) -> tuple[tuple[float, int], _Item]:
        """Take the item of the lowest rank out.

        Raises:
            IndexError: There is none.
        """
        if self._fresh is None or (self._heap and self._heap[0][0] < self._fresh[0]):
            return heapq.heappop(self._heap)
        first = self._fresh
        self._look()
        return first

    def turns(self, sizes: range, rank: Callable[[int], tuple[float, int]]) -> int:
        """How often in a row the item just taken out has its turn, if it ranks so by the sizes to come, rising."""
        others = [entry[0] for entry in (self._fresh, self._heap[0] if self._heap else None) if entry is not None]
        return 1 + (bisect_left(sizes, min(others), key=rank) if others else len(sizes))


@dataclass(frozen=True, slots=True)
class Priority:
    """Who gives first (the highest) and who gets first (the lowest).

    Attributes:
        of: The priority of a job that holds a number of nodes.
        lowest: Who gets first, in words.
    """

    of: Callable[[JobSpec, int], float]
    lowest: str


BY_SIZE: Final = Priority(lambda spec, nodes: nodes, "the smallest malleable job")  # noqa: ARG005 - as any
"""Current nodes [2024 paper, malleable algorithm]."""

ABOVE_MINIMUM: Final = Priority(lambda spec, nodes: nodes - spec.min_nodes, "the job least above its minimum")
"""Current minus minimum nodes [2025 paper, equation 1]."""

ABOVE_PREFERRED: Final = Priority(lambda spec, nodes: nodes - spec.nodes, "the job furthest below its preferred size")
"""Current minus preferred nodes [2025 paper, equation 2]."""


def _share_of_range(spec: JobSpec, nodes: int) -> float:
    span = spec.max_nodes - spec.min_nodes
    return (nodes - spec.min_nodes) / span if span else 0.0


SHARE_OF_RANGE: Final = Priority(_share_of_range, "the job lowest in its range")
"""Current minus minimum, divided by maximum minus minimum [2025 paper, equation 3]. [D] 0 if they are the same."""


@dataclass(slots=True)
class Holder:
    """A job as the pass leaves it so far: it can give nodes down to ``least``, or get them up to ``most``.

    ``job`` is None while it only starts.
    """

    spec: JobSpec
    nodes: int
    least: int
    most: int
    job: RunningJob | None


Settle: TypeAlias = Callable[[dict[int, Holder], Frontier[Holder]], None]
"""Changes what the jobs get, by their ids, or lets others have part of it, who got nothing so far."""


@dataclass(frozen=True, slots=True)
class ByPriority:
    """Shrink jobs of high priority so that waiting ones start; give idle nodes to jobs of low priority.

    [D] Nodes are taken for the first blocked job, and for later ones that do not delay its reservation, and only if
    the job then starts; never more than needed; free nodes, and nodes on their way already, count towards its start.
    [D] Ties go to the smaller job id. [D] Nodes on their way to a waiting job are not taken for it again, nor given to
    others.

    Attributes:
        priority: Who gives and who gets.
        floor: How far a job may be asked to shrink.
        evenly: Nodes move one at a time, each by the priorities that the one before left, and all that move from or
            to a job make one order. Otherwise a job gives or gets all it can before the next one does: few orders.
        in_turn: Once the first blocked job is about to start, nodes are taken for those before the next blocked one
            only: what delays that one's reservation is for the next pass to say. Otherwise a pass may take nodes for a
            job that the next pass holds back.
    """

    priority: Priority
    floor: Floor = at_minimum
    evenly: bool = False
    in_turn: bool = False

    def resize(self, plan: Plan, waiting: Sequence[JobSpec], size: StartSize) -> None:
        """Take nodes for waiting jobs first, then hand out what is left."""
        self.take(plan, waiting, size)
        self.give(plan)

    def take(self, plan: Plan, waiting: Sequence[JobSpec], size: StartSize) -> None:
        """Shrink for every waiting job, in order, whose start that completes and that delays no reservation."""
        if not waiting or (total := givable_nodes(plan, self.floor)) == 0:
            return
        donors = Frontier(self.givers(plan), self.gives)
        line = plan.line(waiting, size.need)
        head, passed_head = plan.reservation, plan.reservation is None
        while total > 0:
            soon = plan.soon
            in_turn = self.in_turn and head is not None and not plan.is_stuck
            if passed_head and not in_turn:
                by_s = math.inf if head is None else head.start_s
                spec = line.next_fitting(soon + 1, soon + total, plan.spare, plan.now, by_s)
            else:  # whom the others must not delay: it needs no room beside itself
                spec = line.next()
                passed_head = head is not None and spec is not None and spec.job_id == head.job_id
            if spec is None:
                return
            need, missing = line.need, line.need - soon
            if plan.is_started(spec) or plan.is_promised(spec):
                continue
            if not 0 < missing <= total:
                if in_turn and missing > total:
                    return
                continue
            if head is None or spec.job_id != head.job_id:
                if plan.room(spec, need, at=need) < need:
                    continue
                plan.charge(spec, need, at=need)
            total -= missing
            reason = Because("so that job {} can start on {}", (spec.job_id, wording.nodes(need)))
            for job, nodes in self._collect(donors, missing):
                plan.shrink(job, nodes, reason, ((spec.job_id, need),))
            plan.promise(spec, need)

    def givers(self, plan: Plan) -> Iterator[Holder]:
        """The running jobs that can give nodes now, the highest priority first."""
        for job in plan.view.running_by(giving_order(self.priority, self.floor)):
            if job.resizable_from_s <= plan.now:
                yield Holder(job.spec, job.nodes, self.floor(job.spec), job.nodes, job)

    def gives(self, giver: Holder) -> tuple[float, int]:
        """Where it stands among those that give."""
        return self._giver(giver.spec, giver.nodes)

    def _giver(self, spec: JobSpec, nodes: int) -> tuple[float, int]:
        return -self.priority.of(spec, nodes), spec.job_id

    def _collect(self, donors: Frontier[Holder], missing: int) -> list[tuple[RunningJob, int]]:
        """Take ``missing`` nodes, which are there, from the donors; return how many from whom."""
        taken: dict[int, tuple[RunningJob, int]] = {}
        while missing > 0:
            rank, donor = donors.pop()
            assert donor.job is not None
            nodes = min(missing, donor.nodes - donor.least)
            if self.evenly:
                after = range(donor.nodes - 1, donor.nodes - nodes, -1)
                nodes = donors.turns(after, partial(self._giver, donor.spec))
            donor.nodes -= nodes
            missing -= nodes
            job_id = donor.spec.job_id
            taken[job_id] = (donor.job, nodes + (taken[job_id][1] if job_id in taken else 0))
            if donor.nodes > donor.least:
                donors.push(self.gives(donor) if self.evenly else rank, donor)
        return list(taken.values())

    def give(self, plan: Plan, settle: Settle | None = None) -> None:
        """Hand idle nodes out, the lowest priority first; ``settle`` may change who gets how many.

        [D] While a reservation stands, a ready job may get any idle nodes, because it can give them back, unless it is
        below its floor; a job that only starts cannot yet, so it gets what does not delay the reservation. [D] If the
        reserved job needs nothing but nodes of jobs that are being resized just now, the idle nodes stay with it.
        """
        idle = plan.usable
        if idle == 0 or (plan.is_stuck and plan.reservation is not None and plan.reservation.start_s <= plan.now):
            return
        takers = Frontier(self.takers(plan), self.takes)
        for spec, nodes in plan.started:
            if nodes < spec.max_nodes:
                taker = Holder(spec, nodes, nodes, spec.max_nodes, None)
                takers.push(self.takes(taker), taker)
        gained: dict[int, Holder] = {}
        while takers and idle > 0:
            _, taker = takers.pop()
            nodes = min(idle, taker.most - taker.nodes)
            if self.evenly:
                after = range(taker.nodes + 1, taker.nodes + nodes)
                nodes = takers.turns(after, partial(self._taker, taker.spec))
            if taker.job is None:
                nodes = plan.room(taker.spec, nodes, at=taker.nodes)
                plan.charge(taker.spec, nodes, at=taker.nodes)
            if nodes <= 0:
                continue
            idle -= nodes
            taker.nodes += nodes
            gained[taker.spec.job_id] = taker
            if self.evenly and taker.nodes < taker.most:
                takers.push(self.takes(taker), taker)
        if settle is not None:
            settle(gained, takers)
        for taker in gained.values():
            if taker.nodes > taker.least:
                self._hand(plan, taker, taker.nodes - taker.least)

    def takers(self, plan: Plan) -> Iterator[Holder]:
        """The running malleable jobs that can get nodes, the lowest priority first."""
        for job in plan.view.running_by(taking_order(self.priority)):
            if job.resizable_from_s > plan.now or plan.is_resized(job):
                continue
            if plan.reservation is None or job.nodes >= self.floor(job.spec):
                yield Holder(job.spec, job.nodes, job.nodes, job.max_nodes, job)

    def takes(self, taker: Holder) -> tuple[float, int]:
        """Where it stands among those that get."""
        return self._taker(taker.spec, taker.nodes)

    def _taker(self, spec: JobSpec, nodes: int) -> tuple[float, int]:
        return self.priority.of(spec, nodes), spec.job_id

    def _hand(self, plan: Plan, taker: Holder, nodes: int) -> None:
        if taker.job is None:
            plan.enlarge(taker.spec, nodes)
        else:
            plan.grow(taker.job, nodes, Because("idle nodes go to {}", (self.priority.lowest,)))


def givable_nodes(plan: Plan, floor: Floor) -> int:
    """How many nodes above ``floor`` running jobs can give now."""
    measure = _givable(floor)
    return plan.view.total(measure) - sum([measure(job) for job in plan.view.paused(plan.now)])


@cache
def _givable(floor: Floor) -> Callable[[RunningJob], int]:
    """Measure what a job could be ordered to give, if it is not on pause."""
    return lambda job: job.reclaimable_nodes(floor(job.spec)) if job.order is None else 0


@cache
def giving_order(priority: Priority, floor: Floor) -> Key:
    """The jobs that can give nodes, if they are not on pause, the highest priority first."""

    def key(job: RunningJob) -> float | None:
        able = job.order is None and job.reclaimable_nodes(floor(job.spec)) > 0
        return -priority.of(job.spec, job.nodes) if able else None

    return key


@cache
def taking_order(priority: Priority) -> Key:
    """The jobs that can take nodes, if they are not on pause, the lowest priority first."""

    def key(job: RunningJob) -> float | None:
        able = job.ready and job.order is None and job.nodes < job.max_nodes and not job.shares
        return priority.of(job.spec, job.nodes) if able else None

    return key
