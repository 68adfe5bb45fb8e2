"""What a replay yields."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from scheduler_bridge import policies
from scheduler_bridge.sim import Replay, ReplayOptions, replay
from scheduler_bridge.workloads import TraceJob, Workload, convert

WORKLOAD = convert(
    Workload("small", 8, tuple(TraceJob(job, 5.0 * job, 40.0, 60.0, 1 + job % 5) for job in range(30))), 0.5, seed=1
)
KEPT = ReplayOptions(remember=frozenset({3}))


def of(policy: str) -> Replay:
    return replay(WORKLOAD, policies.get(policy), options=KEPT)


def test_it_comes_back_from_a_process_of_a_pool_whatever_the_policy() -> None:
    names = policies.names()
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        there = list(pool.map(of, names))
    for name, found in zip(names, there, strict=True):
        here = of(name)
        assert found.result == here.result, name
        assert found.measures == here.measures, name


def test_it_says_what_was_decided_about_the_jobs_that_are_asked_for() -> None:
    explanations = of("easy").result.explanations
    assert list(explanations) == [3]
    assert "started on" in explanations[3].moments[-1].text or len(explanations[3].moments) > 1
