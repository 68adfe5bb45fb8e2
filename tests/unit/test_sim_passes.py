"""What is one decision, and what makes a second pass at one instant."""

from __future__ import annotations

import math
import random
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
from msgspec import structs

from scheduler_bridge import policies
from scheduler_bridge.core import Settings, settings_for
from scheduler_bridge.core.events import (
    Effect,
    Event,
    GrowCompleted,
    JobStarted,
    MalleableReady,
    ShrinkCompleted,
    WakeUp,
    WorkersChanged,
)
from scheduler_bridge.model import ClusterView
from scheduler_bridge.policies import Decision, Policy
from scheduler_bridge.policies.base import Around, stands_until
from scheduler_bridge.sim import Behaviour, Engine, ReplayOptions, parse_cost, replay, sim_jobs
from scheduler_bridge.workloads import TraceJob, Workload
from scheduler_bridge.workloads.workload import Dependencies

ANSWERS = (JobStarted, MalleableReady, GrowCompleted, ShrinkCompleted, WorkersChanged)
NODES, CORES = 8, 4
POLICIES = ("fcfs", "conservative", "min", "pref", "avg", "keep-pref", "mebf", "best-use", "sd-policy")
"""Of the last one cores move, too, which costs nothing."""


def workload(*, malleable: bool) -> Workload:
    """Jobs of whole tens of seconds, many of which come, and end, at one instant."""
    draw = random.Random(11)
    jobs = []
    for number in range(60):
        nodes = draw.randint(2, 6)
        low, high = (draw.randint(1, nodes), draw.randint(nodes, NODES)) if malleable else (nodes, nodes)
        runtime_s, submit_s = 10.0 * draw.randint(1, 8), 10.0 * draw.randint(0, 60)
        jobs.append(
            TraceJob(
                number, submit_s, runtime_s, 3 * runtime_s, nodes, low, high, "malleable" if malleable else "rigid"
            )
        )
    return Workload("tens", NODES, tuple(sorted(jobs, key=lambda job: (job.submit_s, job.job_id))))


def passes(jobs: Workload, policy: str, behaviour: Behaviour) -> dict[float, list[Sequence[Event]]]:
    """The events of every pass, by instant."""
    found: dict[float, list[Sequence[Event]]] = defaultdict(list)

    def observe(now: float, events: Sequence[Event], effects: Sequence[Effect]) -> None:
        if not all(isinstance(event, JobStarted) for event in events):  # which the core decides nothing on
            found[now].append(list(events))
        assert events or not effects

    options = ReplayOptions(behaviour=behaviour, settings=Settings(cores_per_node=CORES, walltime="scaled"))
    replay(jobs, policies.get(policy), options=options, observer=observe)
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_only_answers_make_a_second_pass_at_an_instant(policy: str) -> None:
    by_instant = passes(workload(malleable=True), policy, Behaviour())
    assert any(len(first) > 1 for first, *_ in by_instant.values())
    for now, (_, *later) in by_instant.items():
        for events in later:
            assert all(isinstance(event, ANSWERS) for event in events), (now, events)
    assert max(len(here) for here in by_instant.values()) > 1, "else this test says nothing"


@pytest.mark.parametrize("policy", POLICIES[:-1])
def test_jobs_that_answer_later_make_one_pass_an_instant(policy: str) -> None:
    slow = Behaviour(cost=parse_cost("constant:1"), start_delay_s=0.5)
    assert {len(here) for here in passes(workload(malleable=True), policy, slow).values()} == {1}


@pytest.mark.parametrize("policy", POLICIES)
def test_rigid_jobs_make_one_pass_an_instant(policy: str) -> None:
    by_instant = passes(workload(malleable=False), policy, Behaviour())
    assert {len(here) for here in by_instant.values()} == {1}
    assert all(now < then for now, then in pairwise(by_instant))


class EveryPass(Around):
    """A policy that does not say until when it decides the same."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        return self.policy.decide(view, now)


class Sworn(EveryPass):
    """A policy that shows that it decides the same as long as it says that it does."""

    def stands_until(self, view: ClusterView, now: float) -> float:
        until_s, kept = stands_until(self.policy, view, now), view.snapshot()
        end_s = until_s if until_s < math.inf else now + 1000.0
        decided = self.policy.decide(kept, now)
        for part in (0.01, 0.3, 0.9, 1 - 1e-9):
            assert self.policy.decide(kept, now + part * max(0.0, end_s - now)) == decided
        return until_s


@pytest.mark.parametrize("malleable", [False, True])
@pytest.mark.parametrize(
    "name", [*POLICIES, "easy", "backfilling", "easy-compat", "easy-clock-compat", "malleable-compat"]
)
def test_passes_that_decide_nothing_are_left_out_and_change_nothing(name: str, malleable: bool) -> None:
    """They come every second or so, by additions that are not exact, and some jobs run longer than they may."""
    draw = random.Random(name)
    behaviour = Behaviour(cost=parse_cost("constant:1.7") if malleable else None, start_delay_s=draw.choice([0.0, 0.3]))
    settings = replace(
        settings_for(name), pass_interval_s=1.1, walltime="scaled", cores_per_node=CORES, walltime_grace_s=7.0
    )
    traced = workload(malleable=malleable).jobs
    jobs = [
        (structs.replace(job, walltime_s=job.runtime_s * draw.choice([0.9, 1.0, 3.1])), dynamics)
        for job, dynamics in sim_jobs(deque(traced), behaviour, Dependencies())
    ]
    every, fewer, sworn = (
        Engine(NODES, around(policies.get(name)), settings).run(jobs) for around in (EveryPass, lambda it: it, Sworn)
    )
    assert list(fewer.records.values()) == list(every.records.values()) == list(sworn.records.values())
    assert fewer.batches <= every.batches
    if name in ("fcfs", "backfilling", "easy", "easy-compat", "conservative"):  # of the others most depend on the time
        assert fewer.batches < every.batches / 2


def test_an_overdue_alarm_does_not_turn_the_clock_back() -> None:
    engine = Engine(2, policies.get("fcfs"))
    engine.run([])
    engine._now, engine._wake_s = 10.0, 10.0
    engine._core = SimpleNamespace(alarm_s=5.0)  # type: ignore[assignment]  # all that is asked here
    assert engine._next_events() == [WakeUp()]
    assert engine._now == 10.0
