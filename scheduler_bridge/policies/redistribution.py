"""Moving nodes between running malleable jobs, by a priority: from the highest to waiting jobs, then to the lowest."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler_bridge.model import JobSpec, RunningJob, wording
from scheduler_bridge.policies.compose import StartSize, at_minimum
from scheduler_bridge.policies.plan import Floor, Plan


@dataclass(frozen=True, slots=True)
class Priority:
    """Who gives first (the highest) and who gets first (the lowest).

    Attributes:
        of: The priority of a job that holds so many nodes.
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
    """

    priority: Priority
    floor: Floor = at_minimum
    evenly: bool = False

    def resize(self, plan: Plan, waiting: Sequence[JobSpec], size: StartSize) -> None:
        """Take nodes for waiting jobs first, then hand out what is left."""
        self._take(plan, waiting, size)
        self._give(plan, waiting)

    def _take(self, plan: Plan, waiting: Sequence[JobSpec], size: StartSize) -> None:
        """Shrink for every waiting job, in order, whose start that completes and that delays no reservation."""
        donors = self._donors(plan)
        total = sum(donor.left for donor in donors.values())
        heap = [(-self.priority.of(donor.job.spec, donor.job.nodes), job_id) for job_id, donor in donors.items()]
        heapq.heapify(heap)
        for spec in waiting:
            if total == 0:
                return
            need = size.need(spec, plan.view.total_nodes)
            missing = need - plan.soon
            if plan.is_promised(spec) or not 0 < missing <= total:
                continue
            is_head = plan.reservation is not None and plan.reservation.job_id == spec.job_id
            if not is_head:
                if not plan.admits(spec, need):
                    continue
                plan.charge(spec, need)
            total -= missing
            for job_id, nodes in self._collect(heap, donors, missing).items():
                reason = f"so that job {spec.job_id} can start on {wording.nodes(need)}"
                plan.shrink(donors[job_id].job, nodes, reason)
            plan.promise(spec, need)

    def _donors(self, plan: Plan) -> dict[int, _Donor]:
        """The running jobs that can give nodes now, by id."""
        able = [job for job in plan.view.running if job.resizable(plan.now)]
        donors = (_Donor(job, job.reclaimable_nodes(self.floor(job.spec))) for job in able)
        return {donor.job.spec.job_id: donor for donor in donors if donor.left > 0}

    def _collect(self, heap: list[tuple[float, int]], donors: dict[int, _Donor], missing: int) -> dict[int, int]:
        """Take ``missing`` nodes, which are there, from the donors on the heap; return how many from whom."""
        taken: dict[int, int] = {}
        while missing > 0:
            priority, job_id = heapq.heappop(heap)
            donor = donors[job_id]
            nodes = 1 if self.evenly else min(missing, donor.left)
            donor.left -= nodes
            missing -= nodes
            taken[job_id] = taken.get(job_id, 0) + nodes
            if donor.left > 0:
                if self.evenly:
                    priority = -self.priority.of(donor.job.spec, self.floor(donor.job.spec) + donor.left)
                heapq.heappush(heap, (priority, job_id))
        return taken

    def _give(self, plan: Plan, waiting: Sequence[JobSpec]) -> None:
        """Hand idle nodes out, the lowest priority first.

        [D] While a reservation stands, a ready job may get any idle nodes, because it can give them back, unless it is
        below its floor; a job that only starts cannot yet, so it gets what does not delay the reservation. [D] If the
        reserved job needs nothing but nodes of jobs that are being resized just now, the idle nodes stay with it.
        """
        head = plan.reservation
        if head is not None and head.start_s <= plan.now and any(_is_stuck(plan, spec) for spec in waiting):
            return
        takers = self._takers(plan)
        heap = [(self.priority.of(taker.spec, taker.nodes), job_id) for job_id, taker in takers.items()]
        heapq.heapify(heap)
        gained: dict[int, int] = {}
        idle = plan.usable
        while heap and idle > 0:
            _, job_id = heapq.heappop(heap)
            taker = takers[job_id]
            nodes = min(1 if self.evenly else idle, idle, taker.limit - taker.nodes)
            if taker.job is None:
                nodes = plan.room(taker.spec, nodes)
                plan.charge(taker.spec, nodes)
            if nodes <= 0:
                continue
            idle -= nodes
            taker.nodes += nodes
            gained[job_id] = gained.get(job_id, 0) + nodes
            if self.evenly and taker.nodes < taker.limit:
                heapq.heappush(heap, (self.priority.of(taker.spec, taker.nodes), job_id))
        for job_id, nodes in gained.items():
            self._hand(plan, takers[job_id], nodes)

    def _takers(self, plan: Plan) -> dict[int, _Taker]:
        """The malleable jobs that can get nodes, running or just started, by id."""
        takers: dict[int, _Taker] = {}
        for job in plan.view.running:
            if not job.resizable(plan.now) or job.nodes >= job.max_nodes or plan.is_resized(job):
                continue
            if plan.reservation is None or job.nodes >= self.floor(job.spec):
                takers[job.spec.job_id] = _Taker(job.spec, job.nodes, job.max_nodes, job)
        for spec, nodes in plan.started:
            if nodes < spec.max_nodes:
                takers[spec.job_id] = _Taker(spec, nodes, spec.max_nodes, None)
        return takers

    def _hand(self, plan: Plan, taker: _Taker, nodes: int) -> None:
        if taker.job is None:
            plan.enlarge(taker.spec, nodes, "larger because nodes are idle")
        else:
            plan.grow(taker.job, nodes, f"idle nodes go to {self.priority.lowest}")


@dataclass(slots=True)
class _Donor:
    """A running job and the nodes that it can still give."""

    job: RunningJob
    left: int


@dataclass(slots=True)
class _Taker:
    """A job that can get nodes up to ``limit``; ``job`` is None while it only starts."""

    spec: JobSpec
    nodes: int
    limit: int
    job: RunningJob | None


def _is_stuck(plan: Plan, spec: JobSpec) -> bool:
    """Whether ``spec`` holds the reservation and its nodes are not all free or being released."""
    return plan.reservation is not None and spec.job_id == plan.reservation.job_id and not plan.is_promised(spec)
