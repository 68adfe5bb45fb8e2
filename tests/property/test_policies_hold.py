"""Every registered policy on random workloads: delays, failing and slow resizes, lost nodes, cancels, overruns."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core import Settings
from scheduler_bridge.core.events import (
    CancelJob,
    Event,
    EvolvingRequest,
    NodeDown,
    NodeUp,
    ReservationCancelled,
    ReservationMade,
)
from scheduler_bridge.model import AdvanceReservation, JobSpec
from scheduler_bridge.policies.compose import at_minimum, at_preferred
from scheduler_bridge.sim import Scenario, check_policy

CONSERVES: dict[str, Literal["nothing", "head", "any"]] = {
    "backfilling": "any",
    "best-use": "nothing",
    "conservative": "nothing",
    "penalty": "nothing",
}
NEED = {"easy-clock-compat": at_preferred, "keep-pref": at_preferred, "sd-policy": at_preferred}
PROTECTS: dict[str, Literal["nothing", "promises", "head"]] = {
    "backfilling": "nothing",
    "best-use": "nothing",
    "conservative": "promises",
    "easy-clock-compat": "nothing",
    "malleable-compat": "nothing",
    "penalty": "nothing",
    "sd-policy": "nothing",
}
READS_THE_CLOCK = ("easy-clock-compat",)
"""What is wrong with it, and stays."""
END_S = 400  # all disturbances are over by then

WHOLE = st.integers(min_value=0, max_value=60)
CORES = st.sampled_from([1, 2, 4, 5])
RARELY = st.sampled_from([0, 0, 0, 2, 7])


@st.composite
def specs(draw: st.DrawFn, job_id: int, largest: int, reservation: str = "") -> JobSpec:
    job_class: Literal["rigid", "malleable"] = draw(st.sampled_from(["rigid", "malleable", "malleable"]))
    low = draw(st.integers(1, largest))
    nodes = low if job_class == "rigid" else draw(st.integers(low, largest))
    high = low if job_class == "rigid" else draw(st.integers(nodes, largest))
    walltime_s, submit_s = draw(st.integers(1, 80)), draw(WHOLE)
    user, rho = draw(st.sampled_from("uv")), draw(st.sampled_from([0.0, 0.1, 0.3]))
    name = f"j{job_id}"
    times = float(walltime_s), float(submit_s)
    return JobSpec(job_id, name, user, job_class, nodes, low, high, *times, rho=rho, reservation=reservation)


@st.composite
def reservations(draw: st.DrawFn, nodes: int) -> list[tuple[float, Event]]:
    """Up to two, of which some are cancelled and some ask for too much."""
    happens: list[tuple[float, Event]] = []
    for name in ("r", "s")[: draw(st.integers(0, 2))]:
        made_s, start_s = draw(WHOLE), draw(st.integers(0, 150))
        named = draw(st.lists(st.sampled_from([f"n{index:04d}" for index in range(nodes)]), min_size=1, unique=True))
        users = draw(st.sampled_from([(), ("u",)]))
        ends_s = float(start_s + draw(st.integers(1, 100)))
        wanted = tuple(named) if draw(st.booleans()) else ()
        reservation = AdvanceReservation(name, float(start_s), ends_s, len(named), wanted, users)
        happens.append((float(made_s), ReservationMade(reservation)))
        if draw(st.integers(0, 3)) == 0:
            happens.append((float(made_s + draw(WHOLE)), ReservationCancelled(name)))
    return happens


@st.composite
def calm(draw: st.DrawFn) -> Scenario:
    """No delays, no disturbances; runtimes below, at and above the walltime; some jobs never become ready."""
    nodes = draw(st.integers(1, 8))
    jobs = []
    for job_id in range(draw(st.integers(1, 12))):
        spec = draw(specs(job_id, nodes))
        ready = draw(st.sampled_from([0.0, 0.0, None]))
        jobs.append(simulated(spec, float(draw(st.integers(1, 90))), ready_delay_s=ready))
    return Scenario(nodes, tuple(jobs), settings=Settings(cores_per_node=draw(CORES)))


@st.composite
def rough(draw: st.DrawFn) -> Scenario:
    """Everything that can happen."""
    nodes = draw(st.integers(1, 8))
    jobs = []
    for job_id in range(draw(st.integers(1, 10))):
        spec = draw(specs(job_id, nodes, draw(st.sampled_from(["", "", "r", "s"]))))
        jobs.append(
            simulated(
                spec,
                float(draw(st.integers(1, 90))),
                start_delay_s=draw(RARELY),
                ready_delay_s=draw(st.sampled_from([0.0, 1.0, 5.0, None])),
                grow_s=draw(RARELY),
                shrink_s=draw(RARELY),
                workers_s=draw(RARELY),
                defer_s=draw(RARELY),
                failing_orders=draw(st.frozensets(st.integers(0, 3), max_size=2)),
                own_choice=draw(st.booleans()),
                kill_delay_s=draw(RARELY),
            )
        )
    ids = st.integers(0, len(jobs) - 1)
    names = st.integers(0, nodes - 1).map(lambda index: f"n{index:04d}")
    event: st.SearchStrategy[Event] = st.one_of(
        names.map(NodeDown),
        names.map(NodeUp),
        ids.map(CancelJob),
        st.builds(EvolvingRequest, ids, st.integers(-3, 3)),
    )
    times = st.integers(61, END_S - 1).map(float)  # the jobs are all submitted by then
    happens = draw(st.lists(st.tuples(times, event), max_size=5))
    back = [(float(END_S), NodeUp(f"n{index:04d}")) for index in range(nodes)]
    parameters = Settings(
        pass_interval_s=draw(st.sampled_from([None, 5.0])),
        cooldown_s=draw(st.sampled_from([0.0, 3.0])),
        failure_backoff_s=draw(st.sampled_from([1.0, 30.0])),
        walltime_grace_s=draw(st.sampled_from([0.0, 2.0])),
        cores_per_node=draw(CORES),
        walltime=draw(st.sampled_from(["fixed", "fixed", "scaled"])),
    )
    return Scenario(nodes, tuple(jobs), (*draw(reservations(nodes)), *happens, *back), parameters)


IN_ORDER: dict[str, object] = {"patience": 0.0, "ratio": 1.0, "worth_s": 0.0}
"""In the order of submission, best-use claims what ``easy`` does, wherever its nodes move."""
VARIANTS: list[tuple[str, dict[str, object]]] = [
    *((name, {}) for name in policies.names()),
    ("mebf", {"expand": "spare", "plus": "shrink"}),
    ("mebf", {"expand": "intensive", "plus": "expand"}),
    ("best-use", {"patience": 1.0, "haste": 1.0, "ratio": 1.0, "worth_s": 0.0}),
    ("best-use", IN_ORDER),
    ("penalty", {"over": "conservative"}),
    ("penalty", {"over": "avg", "age_s": 10.0}),
    ("sd-policy", {"max_slowdown": "inf", "mates": 3, "jobs_per_node": 3, "free_nodes": "yes"}),
    ("sd-policy", {"max_slowdown": "dynamic", "considered": 2, "sharing_factor": 0.7}),
    ("sd-policy", {"max_slowdown": "inf", "jobs_per_node": 3, "free_nodes": "yes", "nodes": "n000[0135]"}),
]


@pytest.mark.parametrize(("name", "parameters"), VARIANTS)
@given(scenario=calm())
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_policy_holds_where_walltimes_are_exact(name: str, parameters: dict[str, object], scenario: Scenario) -> None:
    check_policy(
        lambda: policies.get(name, **parameters),
        scenario,
        conserves="head" if parameters is IN_ORDER else CONSERVES.get(name, "head"),
        need=NEED.get(name, at_minimum),
        protects="head" if parameters is IN_ORDER else PROTECTS.get(name, "head"),
        shifts=name not in READS_THE_CLOCK,
    )


@pytest.mark.parametrize(("name", "parameters"), VARIANTS)
@given(scenario=rough())
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_policy_holds_whatever_happens(name: str, parameters: dict[str, object], scenario: Scenario) -> None:
    check_policy(lambda: policies.get(name, **parameters), scenario, shifts=name not in READS_THE_CLOCK)
