"""Policies with one part wrong, the way such parts go wrong: random scenarios find each of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from scheduler_bridge import policies
from scheduler_bridge.model import ClusterView, JobSpec, Line, RunningJob
from scheduler_bridge.policies import Policy, redistribution
from scheduler_bridge.policies.backfill import AnyThatFits, Easy
from scheduler_bridge.policies.compose import (
    AtMinimum,
    ComposedPolicy,
    Moldable,
    OnlyPreferred,
    StartSize,
    at_minimum,
    at_preferred,
    by_submission,
)
from scheduler_bridge.policies.conservative import EveryReservation
from scheduler_bridge.policies.plan import Plan
from scheduler_bridge.policies.redistribution import ABOVE_PREFERRED, BY_SIZE, ByPriority
from scheduler_bridge.sim import AuditError, Protects, check_policy, random_scenario

SCENARIOS = 400
READS_THE_CLOCK = "easy-clock-compat"
"""Its defect is the published one."""


class NoSpareRule(Easy):
    """Lets overtake whatever fits, beside a reservation."""

    @staticmethod
    def _candidate(plan: Plan, line: Line) -> JobSpec | None:
        return line.next()

    @staticmethod
    def _overtake(plan: Plan, spec: JobSpec, need: int, size: StartSize) -> None:
        if need <= plan.usable:
            plan.start(spec, size.pick(spec, plan.usable), "it fits")


class WalltimeAsInstant(Easy):
    """Compares a walltime with a point in time, as a published code does the other way round."""

    @staticmethod
    def _candidate(plan: Plan, line: Line) -> JobSpec | None:
        return line.next()

    @staticmethod
    def _overtake(plan: Plan, spec: JobSpec, need: int, size: StartSize) -> None:
        assert plan.reservation is not None
        if need <= plan.usable and spec.walltime_s <= plan.reservation.start_s:
            plan.start(spec, size.pick(spec, min(plan.usable, need)), "it ends in time")


class Forgetful(EveryReservation):
    """Makes all reservations anew in every pass."""

    def start(self, plan: Plan, queue: Sequence[JobSpec], size: StartSize) -> None:
        view = plan.view
        plan.view = ClusterView(view.total_nodes, view.free_nodes, view.queue, view.running)
        super().start(plan, queue, size)


class TooLarge(Moldable):
    """Forgets the maximum."""

    def pick(self, spec: JobSpec, available: int) -> int:
        return available if spec.is_malleable else spec.nodes


class Hasty(AnyThatFits):
    """Starts jobs on nodes that are still being released."""

    def start(self, plan: Plan, queue: Sequence[JobSpec], size: StartSize) -> None:
        plan.free = plan.soon
        super().start(plan, queue, size)


class Insatiable(ByPriority):
    """Never counts down: every donor gives all that is missing, as a published code does."""

    def _collect(self, donors: Any, missing: int) -> list[tuple[RunningJob, int]]:
        found = []
        while donors:
            found.append((donors.pop()[1].job, missing))
        return found


class Stubborn(ByPriority):
    """Asks a job that refused again at once."""

    def _reclaimable(self, plan: Plan) -> int:
        return sum(donor.nodes - donor.least for donor in self.givers(plan))

    def givers(self, plan: Plan) -> Iterator[Any]:
        able = [job for job in plan.view.running if job.ready and job.nodes > job.spec.min_nodes]
        return (redistribution.Holder(job.spec, job.nodes, job.spec.min_nodes, job.nodes, job) for job in able)


def by_name(view: ClusterView, now: float) -> Sequence[JobSpec]:
    return sorted(view.queue, key=lambda spec: spec.name)


def by_hour(view: ClusterView, now: float) -> Sequence[JobSpec]:
    return view.queue if now % 60 < 30 else view.queue[::-1]


PLANTED: dict[str, tuple[Callable[[], Policy], str]] = {
    "no spare rule": (lambda: ComposedPolicy("x", by_submission, NoSpareRule(), Moldable()), "moved to|first"),
    "walltime as instant": (
        lambda: ComposedPolicy("x", by_submission, WalltimeAsInstant(), Moldable()),
        "renamed jobs",
    ),
    "conservative forgets": (lambda: ComposedPolicy("x", by_submission, Forgetful(), Moldable()), "moved to"),
    "reserves what is not given back": (
        lambda: ComposedPolicy(
            "x", by_submission, Easy(at_minimum), OnlyPreferred(), ByPriority(ABOVE_PREFERRED, at_preferred)
        ),
        "moved to|starts late|first",
    ),
    "grows what is reserved": (
        lambda: ComposedPolicy("x", by_submission, Easy(), AtMinimum(), ByPriority(BY_SIZE)),
        "moved to|starts late|first",
    ),
    "beyond the maximum": (lambda: ComposedPolicy("x", by_submission, AnyThatFits(), TooLarge()), "Start"),
    "uses nodes being released": (
        lambda: ComposedPolicy("x", by_submission, Hasty(), AtMinimum(), ByPriority(BY_SIZE)),
        "use . nodes more than|leads to",
    ),
    "takes all from everybody": (
        lambda: ComposedPolicy("x", by_submission, Easy(at_minimum), AtMinimum(), Insatiable(BY_SIZE)),
        "leads to",
    ),
    "orders busy jobs": (
        lambda: ComposedPolicy("x", by_submission, Easy(at_minimum), AtMinimum(), Stubborn(BY_SIZE)),
        "takes no order",
    ),
    "order by name": (lambda: ComposedPolicy("x", by_name, Easy(), Moldable()), "renamed jobs"),
    "order by the hour": (lambda: ComposedPolicy("x", by_hour, Easy(), Moldable()), "renamed jobs"),
    "a published one": (lambda: policies.get(READS_THE_CLOCK), "renamed jobs"),
}


def first_finding(make: Callable[[], Policy], protects: Protects) -> str:
    """What is found in the first scenario that shows anything."""
    for seed in range(SCENARIOS):
        for exact in (True, False):
            try:
                check_policy(make, random_scenario(seed, exact=exact), protects=protects)
            except AuditError as error:
                return str(error)
    return "nothing"


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_is_found(name: str) -> None:
    make, story = PLANTED[name]
    assert re.search(story, first_finding(make, "promises"))


@pytest.mark.parametrize("name", policies.names())
def test_the_same_scenarios_find_nothing_wrong_with_the_real_ones(name: str) -> None:
    for seed in range(30):
        check_policy(lambda: policies.get(name), random_scenario(seed), shifts=name != READS_THE_CLOCK)
        check_policy(lambda: policies.get(name), random_scenario(seed, exact=True), shifts=name != READS_THE_CLOCK)
