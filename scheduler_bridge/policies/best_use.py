"""Best use: the smallest work starts first, and nodes go to the running jobs that make the most of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Final

from scheduler_bridge.model import ClusterView, JobSpec
from scheduler_bridge.policies.backfill import Easy
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import (
    AtMinimum,
    ComposedPolicy,
    QueueOrder,
    at_minimum,
    by_submission,
)
from scheduler_bridge.policies.levelling import Levelling
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


@register
def best_use(patience: float = 100.0, haste: float = 0.5, ratio: float = 3.0, worth_s: float = 30.0) -> Policy:
    """Best use: EASY at minimum sizes, smallest work first; nodes go to the jobs that make the most of them.

    (1) EASY backfilling; malleable jobs start at their minimum. Who needs less node-seconds comes first: jobs are
    queued by submission + patience x walltime x nodes / nodes of the machine, so that nobody is overtaken by jobs that
    are submitted later than that. (2) Where idle nodes do not suffice for a waiting job, running malleable jobs give
    some, those first that miss them least. (3) Nodes still idle go to those that make the most of them. What a job
    makes of a node is the part by which it becomes faster, (1 - rho) / nodes, divided by walltime^haste: long jobs
    give, short jobs get. (4) If nobody waits and no node is idle, nodes move from the jobs that make the least of them
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
    redistribution = Levelling(base, ratio, worth_s) if ratio else base
    return ComposedPolicy("best-use", order, Easy(at_minimum), AtMinimum(), redistribution)
