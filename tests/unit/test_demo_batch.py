from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from msgspec import structs

from scheduler_bridge.demo.batch import (
    AT_ONCE,
    BENCHMARKS,
    NODES,
    Configuration,
    Drawn,
    Shape,
    draw,
    fits,
    forecast,
    shows_resizing,
)
from scheduler_bridge.demo.pace import COMPARED, MAIN, NODE_RATES, QUICK
from scheduler_bridge.model import JobSpec
from scheduler_bridge.record import metrics

NAMES = ("node1", "node2", "node3", "node4")
SHAPES = pytest.mark.parametrize("shape", [MAIN, QUICK], ids=["main", "quick"])


@SHAPES
def test_a_seed_gives_one_batch(shape: Shape) -> None:
    assert draw(Random(42), shape) == draw(Random(42), shape)
    assert draw(Random(42), shape) != draw(Random(43), shape)


@SHAPES
@pytest.mark.parametrize("seed", range(20))
def test_every_batch_has_the_shape_of_the_mix(shape: Shape, seed: int) -> None:
    batch = draw(Random(seed), shape)
    jobs = [drawn.spec for drawn in batch]
    classes = Counter(job.job_class for job in jobs)
    assert shape.jobs[0] <= len(jobs) <= shape.jobs[1]
    assert {drawn.problem.benchmark for drawn in batch} == set(BENCHMARKS)
    assert classes["malleable"] >= shape.malleable
    assert classes["rigid"] >= 2
    assert shape.work_node_s[0] <= sum(drawn.problem.work_node_s for drawn in batch) <= shape.work_node_s[1]
    assert [job.submit_s for job in jobs] == sorted(job.submit_s for job in jobs)
    assert [job.submit_s for job in jobs].count(0.0) == AT_ONCE
    assert jobs[-1].submit_s <= shape.window_s
    assert len({job.name for job in jobs}) == len(jobs)
    for drawn in batch:
        job, work_node_s = drawn.spec, drawn.problem.work_node_s
        assert 1 <= job.min_nodes <= job.nodes <= job.max_nodes <= NODES
        assert (job.min_nodes < job.max_nodes) == (job.job_class == "malleable")
        assert drawn.walltime_s() == job.walltime_s > work_node_s / job.min_nodes, "long enough at the smallest size"
        assert drawn.walltime_s(3.0) > 3 * work_node_s / job.min_nodes, "also on a slower machine"


def as_rigid(drawn: Drawn) -> Drawn:
    nodes = drawn.spec.nodes
    return replace(drawn, spec=structs.replace(drawn.spec, job_class="rigid", min_nodes=nodes, max_nodes=nodes))


def test_batches_that_do_not_fit_are_not_taken() -> None:
    batch = draw(Random(1), MAIN)
    assert fits(batch, MAIN)
    assert not fits([drawn for drawn in batch if drawn.problem.benchmark != "bc"], MAIN), "a benchmark is missing"
    none_malleable = [as_rigid(drawn) for drawn in batch]
    assert not fits(none_malleable, MAIN), "nothing is malleable"
    assert not fits(batch, replace(MAIN, work_node_s=(0.0, 10.0))), "too much work"


def test_an_impossible_shape_is_reported() -> None:
    with pytest.raises(ValueError, match="no batch"):
        draw(Random(1), replace(MAIN, work_node_s=(1.0, 2.0)), attempts=20)
    with pytest.raises(ValueError, match="no batch"):
        draw(Random(1), MAIN, accept=lambda _: False, attempts=500)


@pytest.mark.parametrize("seed", [42, 1, 2, 3])
def test_an_accepted_batch_shows_resizes_in_about_a_minute(seed: int) -> None:
    jobs = draw(Random(seed), MAIN, accept=lambda jobs: shows_resizing(jobs, NAMES, 2))
    total = metrics(forecast(jobs, NAMES, "malleable"))
    assert min(total.grows, total.shrinks) >= 3
    assert total.ended == len(jobs)
    assert 40 <= total.makespan_s <= 80


def test_a_batch_of_rigid_jobs_shows_no_resizes() -> None:
    rigid = [as_rigid(drawn) for drawn in draw(Random(1), MAIN)]
    assert not shows_resizing(rigid, NAMES, 1)
    assert metrics(forecast(rigid, NAMES, "easy")).grows == 0


@pytest.mark.parametrize("policy", ["easy", "malleable"])
@pytest.mark.parametrize("seed", range(8))
def test_the_record_of_a_simulated_run_is_consistent(seed: int, policy: str) -> None:
    jobs = draw(Random(seed), MAIN)
    record = forecast(jobs, NAMES, policy)
    held = sorted(
        (node, segment.from_s, segment.to_s)
        for entry in record.jobs
        for segment in entry.segments
        for node in segment.nodes
    )
    for (node, _, until_s), (other, from_s, _) in pairwise(held):
        assert node != other or until_s <= from_s, "no node is held twice at one time"
    for entry in record.jobs:
        assert entry.state == "completed"
        assert entry.segments[0].from_s == entry.start_s
        assert entry.segments[-1].to_s == entry.end_s
        assert all(one.to_s == next_one.from_s for one, next_one in pairwise(entry.segments)), "without gaps"
        assert all(entry.min_nodes <= len(segment.nodes) <= entry.max_nodes for segment in entry.segments)
        assert all(resize.outcome in ("done", "aborted") for resize in entry.resizes)


@SHAPES
def test_each_compared_benchmark_has_one_problem(shape: Shape) -> None:
    problems = {(c.benchmark, c.arguments) for c in shape.mix if c.benchmark in COMPARED}
    assert len(problems) == len({benchmark for benchmark, _ in problems})
    assert set(NODE_RATES) == set(BENCHMARKS)


def test_walltimes_follow_the_smallest_size() -> None:
    problem = Configuration("uts", (), "", 30.0, (), (2, 4))
    drawn = Drawn(problem, JobSpec(1, "a", "demo", "malleable", 4, 2, 4, 40.0, 0.0))
    assert drawn.walltime_s() == pytest.approx(2 * 15 + 10)
    assert drawn.walltime_s(2.0) == pytest.approx(2 * 30 + 10)
