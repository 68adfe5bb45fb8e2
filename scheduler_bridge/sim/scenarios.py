"""Random scenarios for ``check_policy``, each given by its seed."""

from __future__ import annotations

import random

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
from scheduler_bridge.model import AdvanceReservation, JobClass, JobSpec
from scheduler_bridge.sim.check import Scenario
from scheduler_bridge.sim.models import SimJob

_LAST_SUBMIT_S = 60
_LAST_DISTURBANCE_S = 400


def random_scenario(seed: int, *, exact: bool = False) -> Scenario:
    """Make a small cluster with a dozen rigid and malleable jobs, in whole seconds, so that many things coincide.

    Some jobs end before their walltime, some after it; some never take orders. Unless ``exact``, starts, resizes and
    ends take time, resizes fail or are put off, jobs are cancelled and ask for nodes or offer some, and nodes go out of
    service; all nodes are back at the end. Nodes are reserved, by number or name, and some reservations are cancelled.

    Args:
        seed: Determines everything.
        exact: Walltimes bound all that jobs do: needed to check what a policy protects.
    """
    rng = random.Random(f"{seed} {exact}")
    nodes = rng.randint(1, 8)
    jobs = tuple(_job(rng, job_id, nodes, exact=exact) for job_id in range(rng.randint(1, 12)))
    cores = random.Random(f"{seed} cores").choice([1, 2, 4, 5])
    if exact:
        return Scenario(nodes, jobs, settings=Settings(cores_per_node=cores))
    happens: list[tuple[float, Event]] = [
        (float(rng.randint(_LAST_SUBMIT_S + 1, _LAST_DISTURBANCE_S)), _disturbance(rng, nodes, len(jobs)))
        for _ in range(rng.randint(0, 5))
    ]
    happens += _reservations(random.Random(f"{seed} reservations"), nodes)
    happens += [(_LAST_DISTURBANCE_S + 1.0, NodeUp(f"n{index:04d}")) for index in range(nodes)]
    settings = Settings(
        pass_interval_s=rng.choice([None, 5.0]),
        cooldown_s=rng.choice([0.0, 3.0]),
        failure_backoff_s=rng.choice([1.0, 30.0]),
        walltime_grace_s=rng.choice([0.0, 2.0]),
        cores_per_node=cores,
        walltime="scaled" if rng.random() < 0.3 else "fixed",
    )
    return Scenario(nodes, jobs, tuple(happens), settings)


def _job(rng: random.Random, job_id: int, largest: int, *, exact: bool) -> SimJob:
    low, preferred, high = sorted(rng.randint(1, largest) for _ in range(3))
    walltime_s, submit_s = float(rng.randint(1, 80)), float(rng.choice([0, rng.randint(0, _LAST_SUBMIT_S)]))
    runtime_s = float(rng.choice([walltime_s, rng.randint(1, 90)]))
    job_class: JobClass = "malleable" if rng.random() < 0.6 else "rigid"
    if job_class == "rigid":
        low = high = preferred
    spec = JobSpec(
        job_id=job_id,
        name=f"j{job_id}",
        user=rng.choice("abc"),
        job_class=job_class,
        nodes=preferred,
        min_nodes=low,
        max_nodes=high,
        walltime_s=walltime_s,
        submit_s=submit_s,
        rho=rng.choice([0.0, 0.1, 0.3]),
        reservation=""
        if exact
        else random.Random(f"{job_id} {submit_s} {walltime_s}").choice(["", "", "", "r0", "r1"]),
    )
    if exact:
        return SimJob(spec, runtime_s, ready_delay_s=rng.choice([0.0, 0.0, None]))
    return SimJob(
        spec,
        runtime_s,
        start_delay_s=_rarely(rng),
        ready_delay_s=rng.choice([0.0, 1.0, 5.0, None]),
        grow_s=_rarely(rng),
        shrink_s=_rarely(rng),
        workers_s=float(job_id % 3),
        defer_s=_rarely(rng),
        failing_orders=frozenset(rng.sample(range(4), rng.randint(0, 2))),
        own_choice=rng.random() < 0.5,
        kill_delay_s=_rarely(rng),
    )


def _reservations(rng: random.Random, nodes: int) -> list[tuple[float, Event]]:
    """None to three reservations, which may follow each other or ask for too much."""
    happens: list[tuple[float, Event]] = []
    for number in range(rng.choice([0, 0, 1, 2, 3])):
        made_s = float(rng.randint(0, _LAST_SUBMIT_S))
        start_s = made_s + rng.choice([0, rng.randint(1, 120)])
        named = tuple(f"n{index:04d}" for index in sorted(rng.sample(range(nodes), rng.randint(1, nodes))))
        reservation = AdvanceReservation(
            name=f"r{number}",
            start_s=start_s,
            end_s=start_s + rng.randint(1, 100),
            nodes=len(named),
            named=named if rng.random() < 0.4 else (),
            users=rng.choice([(), ("a",), ("a", "b")]),
            jobs=(rng.randrange(12),) if rng.random() < 0.2 else (),
        )
        happens.append((made_s, ReservationMade(reservation)))
        if rng.random() < 0.2:
            happens.append((made_s + rng.randint(0, 150), ReservationCancelled(reservation.name)))
    return happens


def _rarely(rng: random.Random) -> float:
    return rng.choice([0.0, 0.0, 0.0, 2.0, 7.0])


def _disturbance(rng: random.Random, nodes: int, jobs: int) -> Event:
    node, job_id = f"n{rng.randrange(nodes):04d}", rng.randrange(jobs)
    events: list[Event] = [NodeDown(node), NodeUp(node), CancelJob(job_id), EvolvingRequest(job_id, rng.randint(-3, 3))]
    return rng.choice(events)
