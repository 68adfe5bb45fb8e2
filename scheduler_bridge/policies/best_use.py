"""Best use: the smallest work starts first, and nodes go to the running jobs that make the most of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Final

from scheduler_bridge.model import ClusterView, JobSpec
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
from scheduler_bridge.policies.redistribution import ByPriority, Frontier, Holder, Priority
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


@register
def best_use(patience: float = 100.0, haste: float = 0.5, ratio: float = 3.0, worth_s: float = 30.0) -> Policy:
    """Best use: EASY at minimum sizes, smallest work first; nodes go to the jobs that make the most of them.

    (1) EASY backfilling; malleable jobs start at their minimum. Who needs less node-seconds comes first: jobs are
    queued by submission + patience x walltime x nodes / nodes of the machine, so that none is overtaken by jobs that
    are submitted later than that. (2) Where idle nodes do not suffice for a waiting job, running malleable jobs give
    some, those first that miss them least. (3) Nodes still idle go to those that make the most of them. What a job
    makes of a node is the part by which it becomes faster, (1 - rho) / nodes, divided by walltime^haste: long jobs
    give, short jobs get. (4) If no job waits and no node is idle, nodes move from the jobs that make the least of them
    to the one that makes the most, one job at a time. (5) A pass looks ahead to these moves, so that the next one does
    not take back what it gives: where resizes take no time, no job grows and shrinks at one instant (but now and then
    for a ``ratio`` close to 1, and beside jobs that never take orders where walltimes are scaled).

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
    base = ByPriority(use(haste), in_turn=True)
    redistribution = Rebalancing(base, ratio, worth_s) if ratio else base
    return ComposedPolicy("best-use", order, Easy(at_minimum), AtMinimum(), redistribution)


# Rebalancing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """As ``ByPriority``; and where no job waits and no node is idle, nodes move from the worst use to the best one.

    One job gets nodes at a time, and only as many that it still makes more of them than those that give them, so
    that they do not go back.

    A pass looks ahead to these moves. Idle nodes that the next one would move on go to where they end up at once, and
    where a job would get back what it gives, others give in its place. So nodes do not go to and fro, which is what
    resizes that take no time would do within one instant.

    Attributes:
        base: Makes room for waiting jobs, and hands idle nodes out. Its priority is proportional to a job's nodes.
        ratio: How much more the one must make of a node than the other, at least 1.
        worth_s: A move must end the job that gets nodes so much earlier, in seconds; jobs that end within it give none.
    """

    base: ByPriority
    ratio: float
    worth_s: float

    def resize(self, plan: Plan, waiting: Sequence[JobSpec], size: StartSize) -> None:
        """Do as the base does, then move nodes."""
        self.base.take(plan, waiting, size)
        self.base.give(plan, None if waiting else partial(self._pass_on, plan))
        if not waiting and plan.usable == 0 and plan.view.releasing_nodes == 0:
            self._move(plan)
        if plan.shrunk and all(plan.is_promised(spec) for spec in waiting):
            self._relieve(plan)

    def _pass_on(self, plan: Plan, gained: dict[int, Holder], others: Frontier[Holder]) -> None:
        """Let those that get idle nodes leave some to who makes more of them, as moves would."""

        def queue(taker: Holder) -> None:
            if taker.nodes < taker.most:
                others.push(self.base.takes(taker), taker)

        for taker in gained.values():
            queue(taker)
        while others:
            rank, taker = others.pop()
            if rank != self.base.takes(taker):
                continue  # it has given since, and is there once more
            moved = self._given(plan, sorted(gained.values(), key=self.base.gives), taker)
            if not moved:
                if taker.job is None:  # it only starts, and it is not known whether it will take part in moves
                    continue
                return
            for giver, nodes in moved:
                giver.nodes -= nodes
                queue(giver)
            taker.nodes += sum([nodes for _, nodes in moved])
            gained[taker.spec.job_id] = taker
            queue(taker)

    def _move(self, plan: Plan) -> None:
        """Shrink jobs for the one that makes the most of a node; it gets them when they are released."""
        taker = next(self.base.takers(plan), None)
        if taker is None or self._saved_s(plan, taker, taker.most) < self.worth_s:
            return
        for giver, nodes in self._given(plan, self._givers(plan), taker):
            assert giver.job is not None
            plan.shrink(giver.job, nodes, f"job {taker.spec.job_id} makes more of them")

    def _relieve(self, plan: Plan) -> None:
        """Let others give in the place of jobs that would get some back of what they give."""
        shrunk = {
            job.spec.job_id: Holder(job.spec, job.nodes - nodes, self.base.floor(job.spec), job.nodes, job)
            for job, nodes in plan.shrunk
        }
        while True:  # it ends: nodes go to who makes more of them even then, so none goes back
            taker = max([some for some in shrunk.values() if some.nodes < some.most], key=self.base.gives)
            assert taker.job is not None
            givers = Frontier(self._givers(plan), self.base.gives)
            for some in shrunk.values():
                givers.push(self.base.gives(some), some)
            moved = self._given(plan, givers, taker)
            if not moved:
                return
            for giver, nodes in moved:
                assert giver.job is not None
                plan.shrink_instead(giver.job, taker.job, nodes)
                giver.nodes -= nodes
                shrunk[giver.spec.job_id] = giver
            taker.nodes += sum([nodes for _, nodes in moved])

    def _givers(self, plan: Plan) -> Iterator[Holder]:
        """The running jobs that this pass does not resize and that can give nodes, who makes the least of one first."""
        for giver in self.base.givers(plan):
            assert giver.job is not None
            if giver.job.expected_end_s - plan.now >= self.worth_s and not plan.is_resized(giver.job):
                yield giver

    def _given(self, plan: Plan, givers: Iterable[Holder], taker: Holder) -> list[tuple[Holder, int]]:
        """Who gives how many to a job: each until it makes as much of them, but for the ratio; none if not worth it."""
        spec, nodes = taker.spec, taker.nodes
        moved: list[tuple[Holder, int]] = []
        for giver in givers:
            if giver.nodes <= giver.least:
                continue
            level = self._level(giver.spec, giver.nodes, spec, nodes)
            given = min(taker.most - nodes, giver.nodes - giver.least, level)
            if given <= 0:
                break
            moved.append((giver, given))
            nodes += given
        for index, (giver, given) in enumerate(moved[:-1]):  # what the later ones gave may be too much with that
            back = min(given, max(0, self._level(spec, nodes, giver.spec, giver.nodes - given)))
            moved[index] = giver, given - back
            nodes -= back
        if self._saved_s(plan, taker, nodes) < self.worth_s:
            return []
        return [(giver, given) for giver, given in moved if given]

    def _level(self, giver: JobSpec, gives: int, taker: JobSpec, gets: int) -> int:
        """How many nodes a job on ``gives`` can give to one on ``gets``, which makes more of them even then."""
        each, gain = self.base.priority.of(giver, 1), self.ratio * self.base.priority.of(taker, 1)
        return int((gives * each - gets * gain) / (each + gain))

    @staticmethod
    def _saved_s(plan: Plan, taker: Holder, nodes: int) -> float:
        """By how much earlier it would end on ``nodes``, by its ``rho``: where walltimes are not scaled, too."""
        spec, job = taker.spec, taker.job
        if job is None:
            left_s = plan.view.walltime_s(spec, taker.nodes)
        else:
            end_s = job.end_at_s(taker.nodes, plan.now) if plan.view.scaled else job.expected_end_s
            left_s = max(0.0, end_s - plan.now)
        return left_s * (1.0 - math.pow(taker.nodes / nodes, 1.0 - spec.rho))
