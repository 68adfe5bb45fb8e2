"""Best use: the smallest work starts first, and nodes go to the running jobs that make the most of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from scheduler_bridge.model import ClusterView, JobSpec, RunningJob
from scheduler_bridge.policies.backfill import Easy
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import (
    AtMinimum,
    ComposedPolicy,
    QueueOrder,
    StartSize,
    at_minimum,
    by_submission,
)
from scheduler_bridge.policies.plan import Plan
from scheduler_bridge.policies.redistribution import ByPriority, Priority
from scheduler_bridge.policies.registry import InvalidParameterError, register

_LEAST_SCALABLE: Final = 0.01
"""The gain of a job that does not scale at all, so that it can be divided by."""


@cache
def small_work_first(patience: float) -> QueueOrder:
    """An order by submission plus ``patience`` times the work: the walltime, if the job had the whole machine.

    The order of two jobs never changes while both wait, and a job is overtaken in the queue only by those that are
    submitted within ``patience`` times its own work.
    """

    def order(view: ClusterView, now: float) -> Sequence[JobSpec]:  # noqa: ARG001 - other orders depend on the time
        return view.queue_by(_work(patience / max(1, view.total_nodes)))

    return order


@lru_cache(maxsize=16)
def _work(factor: float) -> Callable[[JobSpec], float]:
    return lambda spec: spec.submit_s + factor * spec.walltime_s * spec.nodes


@cache
def use(haste: float) -> Priority:
    """How little a job makes of one more node, and so how little it misses one: nodes x walltime^haste / (1 - rho).

    A node more makes a job on n nodes faster by the part (1 - rho) / n. That counts for more in a short job, the more
    so the larger ``haste`` is.
    """

    def of(spec: JobSpec, nodes: int) -> float:
        return nodes * math.pow(spec.walltime_s, haste) / max(_LEAST_SCALABLE, 1.0 - spec.rho)

    return Priority(of, "the job that makes the most of them")


@dataclass(frozen=True, slots=True)
class Levelling:
    """As ``ByPriority``; and where nobody waits and no node is idle, nodes move from the worst use to the best one.

    One job gets nodes at a time, and only so many that it still makes more of them than those that give them, so
    that they do not go back.

    Attributes:
        base: Makes room for waiting jobs, and hands idle nodes out.
        ratio: How much more the one must make of a node than the other.
        worth_s: A move must end the job that gets nodes so much earlier, in seconds; jobs that end within it give none.
    """

    base: ByPriority
    ratio: float
    worth_s: float

    def resize(self, plan: Plan, waiting: Sequence[JobSpec], size: StartSize) -> None:
        """Do as the base does, then move nodes."""
        self.base.resize(plan, waiting, size)
        if not waiting and plan.usable == 0 and plan.view.releasing_nodes == 0:
            self._move(plan)

    def _move(self, plan: Plan) -> None:
        """Shrink jobs for the one that makes the most of a node; it gets them when they are released."""
        of = self.base.priority.of
        for taker in plan.view.running_by(_takes(of)):
            if plan.is_resized(taker) or taker.resizable_from_s > plan.now:
                continue
            if (most := self._worthwhile(taker, plan.now)) > 0:
                self._take(plan, taker, most)
            return

    def _worthwhile(self, taker: RunningJob, now: float) -> int:
        """How many nodes it could get; 0: too little is left of it."""
        most = taker.max_nodes - taker.nodes
        saved_s = taker.end_at_s(taker.nodes, now) - _end_s(taker, taker.nodes + most, now)
        return most if saved_s >= self.worth_s else 0

    def _take(self, plan: Plan, taker: RunningJob, most: int) -> None:
        of = self.base.priority.of
        taken: list[tuple[RunningJob, int]] = []
        got = 0
        for donor in plan.view.running_by(_gives(of)):
            if donor.resizable_from_s > plan.now or donor.expected_end_s - plan.now < self.worth_s:
                continue
            nodes = self._level(donor, taker, got, most - got)
            if nodes <= 0 or donor.spec.job_id == taker.spec.job_id:
                break
            taken.append((donor, nodes))
            got += nodes
        if got and taker.end_at_s(taker.nodes, plan.now) - _end_s(taker, taker.nodes + got, plan.now) >= self.worth_s:
            for donor, nodes in taken:
                plan.shrink(donor, nodes, f"job {taker.spec.job_id} makes more of them")

    def _level(self, donor: RunningJob, taker: RunningJob, got: int, most: int) -> int:
        """How many nodes the donor gives until both would make as much of them, but for the ratio."""
        of = self.base.priority.of
        each, gain = of(donor.spec, 1), self.ratio * of(taker.spec, 1)
        level = int((donor.nodes * each - (taker.nodes + got) * gain) / (each + gain))
        return min(most, donor.reclaimable_nodes(self.base.floor(donor.spec)), level)


def _end_s(job: RunningJob, nodes: int, now: float) -> float:
    """When it would end on so many nodes by its ``rho``, also where walltimes are not scaled."""
    return now + max(0.0, job.expected_end_s - now) * math.pow(job.nodes / nodes, 1.0 - job.spec.rho)


@cache
def _takes(of: Callable[[JobSpec, int], float]) -> Callable[[RunningJob], float | None]:
    """The jobs that can get nodes, who makes the most of one first."""

    def key(job: RunningJob) -> float | None:
        able = job.ready and job.order is None and job.nodes < job.max_nodes and not job.shares
        return of(job.spec, job.nodes) if able else None

    return key


@cache
def _gives(of: Callable[[JobSpec, int], float]) -> Callable[[RunningJob], float | None]:
    """The jobs that can give nodes, who makes the least of one first."""

    def key(job: RunningJob) -> float | None:
        able = job.order is None and job.reclaimable_nodes(at_minimum(job.spec)) > 0
        return -of(job.spec, job.nodes) if able else None

    return key


@register
def best_use(patience: float = 100.0, haste: float = 0.5, ratio: float = 3.0, worth_s: float = 30.0) -> Policy:
    """Best use: EASY at minimum sizes, smallest work first; nodes go to the jobs that make the most of them.

    (1) EASY backfilling; malleable jobs start at their minimum. Who needs less node-seconds comes first: jobs are
    queued by submission + patience x walltime x nodes / nodes of the machine, so that nobody is overtaken by jobs that
    are submitted later than that. (2) Where idle nodes do not suffice for a waiting job, running malleable jobs give
    some, those first that miss them least. (3) Nodes still idle go to those that make the most of them. What a job
    makes of a node is the part by which it becomes faster, (1 - rho) / nodes, divided by walltime^haste: long jobs
    give, short jobs get. (4) If nobody waits and no node is idle, nodes move from the jobs that make the least of them
    to the one that makes the most, one job at a time.

    Parameters: ``patience``: see (1); 0 is the order of submission. ``haste``: how much shorter jobs come before longer
    ones; 0: not at all. ``ratio``: a node moves only if its new job makes so much more of it; 0: nodes do not move.
    ``worth_s``: and only if that job ends so much earlier.

    Source: this project. Smallest work first is as old as batch systems; that short jobs should get more than their
    share of the nodes follows from Berg, Vesilo, Harchol-Balter, "heSRPT: Optimal scheduling of parallel jobs with
    known sizes", 2020.
    [D] The walltime stands for the size of a job, not what is left of it: so no order changes while nothing happens.
    [D] The defaults were chosen on other seeds than those on which the policy is judged.
    """
    for name, value in (("patience", patience), ("haste", haste), ("ratio", ratio), ("worth_s", worth_s)):
        if not (math.isfinite(value) and value >= 0):
            raise InvalidParameterError(f"best-use: {name} is {value!r}, must be a number, not negative")
    if 0 < ratio < 1:
        raise InvalidParameterError(f"best-use: ratio is {ratio!r}, must be 0 (nodes do not move) or at least 1")
    order = small_work_first(patience) if patience else by_submission
    base = ByPriority(use(haste))
    redistribution = Levelling(base, ratio, worth_s) if ratio else base
    return ComposedPolicy("best-use", order, Easy(at_minimum), AtMinimum(), redistribution)
