"""What is one decision, and what makes a second pass at one instant."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import pytest

from scheduler_bridge import policies
from scheduler_bridge.core import Settings
from scheduler_bridge.core.effects import Effect
from scheduler_bridge.core.events import (
    Event,
    GrowCompleted,
    JobStarted,
    MalleableReady,
    ShrinkCompleted,
    WorkersChanged,
)
from scheduler_bridge.sim import Behaviour, ReplayOptions, parse_cost, replay
from scheduler_bridge.workloads import TraceJob, Workload

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
