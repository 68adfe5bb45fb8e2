"""The time of a reservation against what one finds by looking at every job at every time."""

from __future__ import annotations

import math
from typing import Final, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from scheduler_bridge.model import ClusterView, JobSpec, RunningJob
from scheduler_bridge.policies.compose import at_minimum, at_preferred
from scheduler_bridge.policies.plan import Floor, Plan

NOW_S: Final = 50.0
TIMES = st.integers(0, 100).map(float)
"""Half of them are over: jobs may be overdue, and pauses at an end."""
COPIES = st.sampled_from([1, 1, 1, 50])
NODES = st.integers(1, 40) | st.integers(1, 1000)
FLOORS = st.sampled_from([None, at_minimum, at_preferred])


def spec_of(job_id: int, low: int, nodes: int, high: int, walltime_s: float) -> JobSpec:
    kind: Literal["rigid", "malleable"] = "rigid" if low == high else "malleable"
    return JobSpec(job_id, "j", "u", kind, nodes, low, high, walltime_s, 0.0, rho=0.25)


@st.composite
def specs(draw: st.DrawFn, job_id: int) -> JobSpec:
    low, nodes, high = sorted(draw(st.tuples(*[st.integers(1, 6)] * 3)))
    return spec_of(job_id, low, nodes, high, draw(st.sampled_from([5.0, 20.0, 40.0])))


@st.composite
def running(draw: st.DrawFn, job_id: int) -> RunningJob:
    """A job at any size: it may have lost nodes, be resized, be on pause, or share its nodes."""
    spec = draw(specs(job_id))
    nodes = draw(st.integers(1, spec.max_nodes))
    order: Literal["grow", "shrink"] | None = draw(st.sampled_from([None, "grow", "shrink"])) if nodes > 1 else None
    shares = order is None and draw(st.integers(0, 5)) == 0
    return RunningJob(
        spec,
        nodes,
        0.0,
        draw(TIMES),
        spec.max_nodes,
        ready=spec.is_malleable and draw(st.booleans()),
        resizable_from_s=draw(st.sampled_from([0.0, NOW_S, 60.0, 70.0])),
        order=order,
        order_nodes=draw(st.integers(1, nodes - 1)) if order is not None else 0,
        deferred=order is not None and draw(st.booleans()),
        neighbours=int(shares),
        kept_nodes=draw(st.integers(0, nodes)) if shares else 0,
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """The plan of a pass in which some jobs may have been started; there may be many of each kind of running jobs."""
    kinds, copies = [draw(running(job_id)) for job_id in range(draw(st.integers(0, 8)))], draw(COPIES)
    jobs = [
        structs.replace(job, spec=structs.replace(job.spec, job_id=10 * copy + number), expected_end_s=end_s)
        for number, job in enumerate(kinds)
        for copy, end_s in enumerate(draw(st.permutations([job.expected_end_s + copy / 4 for copy in range(copies)])))
    ]
    free = draw(st.integers(0, 6))
    view = ClusterView(
        total_nodes=free + sum(job.nodes for job in jobs),
        free_nodes=free,
        queue=(),
        running=tuple(jobs),
        scaled=draw(st.booleans()),
    )
    plan = Plan(view, NOW_S)
    for job_id in range(1000, 1000 + draw(st.integers(0, 2))):
        spec = draw(specs(job_id))
        if spec.min_nodes <= plan.free:
            plan.start(spec, spec.min_nodes, "")
    return plan


def releases(plan: Plan, floor: Floor | None) -> list[tuple[float, int]]:
    """When which number of nodes comes free, job by job, in no order."""
    view, found = plan.view, [(NOW_S, plan.free)]
    for spec, nodes in plan.started:
        found.append((NOW_S + view.walltime_s(spec, nodes), nodes))
    for job in view.running:
        given = job.reclaimable_nodes(floor(job.spec)) if floor is not None else 0
        left = job.nodes - job.releasing_nodes - given
        shrinks = view.scaled and left < job.nodes
        end_s = job.end_at_s(max(1, left), NOW_S) if shrinks else job.expected_end_s
        found += [
            (NOW_S, job.releasing_nodes),
            (max(NOW_S, job.resizable_from_s), given),
            (max(NOW_S, end_s), left - job.kept_nodes),
        ]
    return found


def naive(plan: Plan, nodes: int, floor: Floor | None) -> tuple[float, int]:
    """The earliest time at which ``nodes`` nodes are free, and how many more of them there are then."""
    every = releases(plan, floor)
    for time_s in sorted({time_s for time_s, _ in every}):
        free = sum(count for from_s, count in every if from_s <= time_s)
        if free >= nodes:
            return time_s, free - nodes
    return math.inf, 0


@given(plans(), NODES, FLOORS)
@settings(max_examples=500, deadline=None)
def test_a_reservation_is_at_the_first_time_with_enough_nodes(plan: Plan, nodes: int, floor: Floor | None) -> None:
    reservation = plan.reserve(spec_of(9999, nodes, nodes, nodes, 10.0), nodes, floor=floor)
    assert (reservation.start_s, reservation.spare_nodes) == naive(plan, nodes, floor)


@given(plans(), NODES)
@settings(max_examples=200, deadline=None)
def test_a_profile_has_enough_nodes_from_the_same_time_on(plan: Plan, nodes: int) -> None:
    assert plan.profile().earliest(nodes, 0.0) == naive(plan, nodes, None)[0]


@pytest.mark.parametrize("nodes", [1, 3])
def test_it_is_the_very_job_that_makes_it_enough(nodes: int) -> None:
    jobs = [RunningJob(spec_of(number, 3, 3, 3, 5.0), nodes, 0.0, NOW_S + number, 3) for number in range(300)]
    plan = Plan(ClusterView(300 * nodes, 0, (), jobs), NOW_S)
    for number in range(300):
        wanted = number * nodes + 1
        reservation = plan.reserve(spec_of(9999, wanted, wanted, wanted, 10.0), wanted, floor=None)
        assert (reservation.start_s, reservation.spare_nodes) == (NOW_S + number, nodes - 1)
