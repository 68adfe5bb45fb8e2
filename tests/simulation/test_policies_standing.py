"""What a policy concludes from what has not changed since the last pass is what it finds if it looks at everything."""

from __future__ import annotations

import random

import pytest
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core import Settings
from scheduler_bridge.core.events import CancelJob, Event, NodeDown, NodeUp
from scheduler_bridge.model import ClusterView, JobSpec, Reservation
from scheduler_bridge.policies import Decision, Policy
from scheduler_bridge.sim import Engine, Simulated
from scheduler_bridge.sim.engine import node_names


class Twice:
    """Decides on the view of the core and on a copy of it that knows nothing of the last pass."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name = policy.name
        self.standing = 0
        self.started = 0

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        decisions = self._policy.decide(view, now)
        assert view.snapshot().arrived is None
        assert decisions == self._policy.decide(view.snapshot(), now), f"at {now} s, with {view.arrived}"
        if view.arrived is not None and view.reservations:
            self.standing += 1
            self.started += len(decisions) > 1
        return decisions

    def why_waiting(self, view: ClusterView, job: JobSpec, reservation: Reservation | None) -> str:
        return self._policy.why_waiting(view, job, reservation)


def workload(rng: random.Random, share: float) -> list[Simulated]:
    """Jobs that come often, many at the same time; some run beyond what is expected of them."""
    jobs, now = [], 0.0
    for job_id in range(120):
        now += rng.choice([0.0, 1.0, 2.0, 5.0])
        nodes = rng.randint(1, 8)
        low, high = (max(1, nodes - 2), min(10, nodes + 3)) if rng.random() < share else (nodes, nodes)
        walltime_s = float(rng.randint(5, 60))
        job_class = "rigid" if low == high else "malleable"
        spec = JobSpec(job_id, "j", "u", job_class, nodes, low, high, walltime_s, now, rho=0.3)  # type: ignore[arg-type]  # one of two words
        jobs.append(
            simulated(spec, walltime_s * rng.choice([0.3, 1.0, 1.5]), start_delay_s=rng.choice([0.0, share * 2.0]))
        )
    return jobs


def troubles(rng: random.Random) -> list[tuple[float, Event]]:
    """Nodes that go and come back, and jobs that are cancelled."""
    found: list[tuple[float, Event]] = []
    for node in rng.sample(node_names(10), 4):
        at_s = rng.uniform(0.0, 200.0)
        found += [(at_s, NodeDown(node)), (at_s + rng.uniform(1.0, 100.0), NodeUp(node))]
    return found + [(rng.uniform(0.0, 200.0), CancelJob(rng.randrange(120))) for _ in range(20)]


@pytest.mark.parametrize("walltime", ["fixed", "scaled"])
@pytest.mark.parametrize("name", ["easy", "fcfs", "malleable"])
def test_a_reservation_stands_only_where_it_would_be_made_again(name: str, walltime: str) -> None:
    standing = started = 0
    for seed in range(3):
        rng = random.Random(seed)
        policy = Twice(policies.get(name))
        settings = Settings(walltime=walltime)  # type: ignore[arg-type]  # likewise
        Engine(10, policy, settings).run(workload(rng, seed / 2), troubles(rng))
        standing, started = standing + policy.standing, started + policy.started
    if name in ("easy", "fcfs"):
        assert standing > 30, "hardly ever did only submissions come"
        assert (started > 3) == (name == "easy")
