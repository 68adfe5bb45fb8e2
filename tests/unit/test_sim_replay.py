"""What a replay yields."""

from __future__ import annotations

import multiprocessing
import tracemalloc
from collections import deque
from concurrent.futures import ProcessPoolExecutor

import pytest

from scheduler_bridge import policies
from scheduler_bridge.sim import Replay, ReplayOptions, replay
from scheduler_bridge.workloads import TraceJob, Workload, convert
from scheduler_bridge.workloads.generate import generate

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


def test_a_job_that_is_over_takes_little_memory() -> None:
    few = generate("lublin", 1, jobs=50, load=0.8)
    replay(few, policies.get("easy"))  # what is made once
    many = 5_000
    tracemalloc.start()
    try:
        workload, jobs = generate("lublin", 1, jobs=many, load=0.8).parted()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        done = replay(workload, policies.get("easy"), jobs=jobs)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not jobs
    assert len(done.result.records) == many
    assert done.measures.every.jobs == many
    assert max(before, peak) / many < 650, "a million jobs in 600 MB; they took 1,000 B"
    assert after / many < 500


def test_a_parted_workload_gives_the_same() -> None:
    rest, jobs = WORKLOAD.parted()
    assert (len(rest), len(jobs), rest.lost_share) == (0, len(WORKLOAD), WORKLOAD.lost_share)
    parted, whole = replay(rest, policies.get("avg"), jobs=jobs), replay(WORKLOAD, policies.get("avg"))
    assert (parted.result, parted.measures) == (whole.result, whole.measures)


def test_jobs_out_of_order_are_put_in_order_or_refused() -> None:
    late, early = TraceJob(1, 50.0, 10.0, 10.0, 1), TraceJob(2, 0.0, 10.0, 10.0, 1)
    done = replay(Workload("odd", 1, (late, early)), policies.get("fcfs"))
    assert list(done.result.records) == [2, 1]
    with pytest.raises(ValueError, match=r"job 1 comes before one .* at 0\.0 s"):
        replay(Workload("odd", 1, ()), policies.get("fcfs"), jobs=deque([late, early]))


def test_two_jobs_of_the_same_id_are_refused() -> None:
    jobs = (TraceJob(1, 0.0, 10.0, 10.0, 1), TraceJob(1, 5.0, 10.0, 10.0, 1))
    with pytest.raises(ValueError, match="two jobs have the id 1"):
        replay(Workload("odd", 1, jobs), policies.get("fcfs"))
