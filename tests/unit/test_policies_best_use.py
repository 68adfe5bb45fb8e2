"""Hand-computed passes and a timeline for best-use."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.model import ClusterView, JobSpec, RunningJob
from scheduler_bridge.policies import Decision, Grow, InvalidParameterError, Reserve, Shrink, Stand, Start
from scheduler_bridge.sim import simulate

NOW = 100.0


def rigid(job_id: int, nodes: int, walltime_s: float = 1000.0, submit_s: float = 0.0) -> JobSpec:
    return JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, walltime_s, submit_s)


def malleable(job_id: int, low: int, high: int, walltime_s: float, rho: float = 0.0) -> JobSpec:
    return JobSpec(job_id, "m", "u", "malleable", low, low, high, walltime_s, 0.0, rho=rho)


def running(spec: JobSpec, nodes: int, end_s: float = 500.0, **more: object) -> RunningJob:
    values: dict[str, object] = {"max_nodes": spec.max_nodes, "ready": spec.is_malleable} | more
    return RunningJob(spec, nodes, 0.0, end_s, **values)  # type: ignore[arg-type]  # fields by name


def decide(
    total: int, queue: Sequence[JobSpec], jobs: Sequence[RunningJob], now: float = NOW, **parameters: float
) -> list[tuple[type, int, int]]:
    free = total - sum(job.nodes for job in jobs)
    view = ClusterView(total, free, tuple(queue), tuple(jobs))
    found: list[Decision] = policies.get("best-use", **parameters).decide(view, now)
    return [(type(d), d.job_id, d.nodes) for d in found if not isinstance(d, Reserve | Stand)]


# Work is walltime x nodes / 10 nodes: job 1 has 1000 x 6 / 10 = 600 s, job 2 has 100 x 6 / 10 = 60 s. With a patience
# of 100, job 1 is to be overtaken by job 2 if this one is submitted within 100 x (600 - 60) = 54,000 s.
@pytest.mark.parametrize(
    ("submit_s", "patience", "first"),
    [(10.0, 100.0, 2), (53_999.0, 100.0, 2), (54_001.0, 100.0, 1), (10.0, 0.0, 1), (539.0, 1.0, 2), (541.0, 1.0, 1)],
)
def test_the_smaller_work_comes_first_for_a_while(submit_s: float, patience: float, first: int) -> None:
    queue = [rigid(1, 6), rigid(2, 6, 100.0, submit_s)]
    assert decide(10, queue, [], now=60_000.0, patience=patience) == [(Start, first, 6)]


def test_of_the_same_work_the_earlier_one_comes_first() -> None:
    assert decide(10, [rigid(2, 6), rigid(1, 6)], []) == [(Start, 2, 6)]


# 20 nodes, all held. nodes x sqrt(walltime) / (1 - rho): job 1 8 x 10, job 2 6 x 10 / 0.5 = 120, job 3 6 x 30 = 180.
HOLDERS = [
    running(malleable(1, 5, 10, 100.0), 8),
    running(malleable(2, 4, 10, 100.0, 0.5), 6),
    running(malleable(3, 4, 10, 900.0), 6),
]


@pytest.mark.parametrize(
    ("need", "given"),
    [(1, [(3, 1)]), (2, [(3, 2)]), (4, [(3, 2), (2, 2)]), (7, [(3, 2), (2, 2), (1, 3)]), (8, [])],
)
def test_those_give_first_that_miss_a_node_least(need: int, given: list[tuple[int, int]]) -> None:
    assert decide(20, [rigid(9, need)], HOLDERS) == [(Shrink, job_id, nodes) for job_id, nodes in given]


def test_without_haste_walltimes_do_not_count() -> None:
    # nodes / (1 - rho): job 1 8, job 2 12, job 3 6.
    assert decide(20, [rigid(9, 4)], HOLDERS, haste=0.0) == [(Shrink, 2, 2), (Shrink, 1, 2)]


def test_idle_nodes_go_to_who_makes_the_most_of_them() -> None:
    # 3 idle: job 1, the first in the order above, can get 2, job 2 gets the last one.
    assert decide(23, [], HOLDERS) == [(Grow, 1, 2), (Grow, 2, 1)]


# 13 nodes, all held: a node is worth 10 in job 1 (sqrt of 100), on 1 node, and 30 in job 2, on 12 nodes. If n move,
# (12 - n) x 30 >= ratio x (1 + n) x 10: with ratio 3, n <= 5; with ratio 1, n <= 8.
SHORT, LONG = running(malleable(1, 1, 20, 100.0), 1), running(malleable(2, 1, 20, 900.0), 12)


@pytest.mark.parametrize(
    ("parameters", "moved"),
    [
        ({}, 5),
        ({"ratio": 1.0}, 8),
        ({"ratio": 40.0}, 0),  # 12 x 30 = 360 is not 40 x 10
        ({"ratio": 0.0}, 0),
        ({"worth_s": 333.0}, 5),  # job 1 has 400 s left on 1 node, 400 / 6 on 6 nodes
        ({"worth_s": 334.0}, 0),
    ],
)
def test_nodes_move_to_who_makes_more_of_them(parameters: dict[str, float], moved: int) -> None:
    assert decide(13, [], [SHORT, LONG], **parameters) == ([(Shrink, 2, moved)] if moved else [])


def test_nothing_moves_from_a_job_about_to_end_nor_while_somebody_waits_or_nodes_are_idle() -> None:
    assert decide(13, [], [SHORT, running(LONG.spec, 12, end_s=129.0)]) == []
    assert decide(13, [rigid(9, 13)], [SHORT, LONG]) == []
    assert decide(14, [], [SHORT, LONG]) == [(Grow, 1, 1)]
    assert decide(13, [], [SHORT, running(LONG.spec, 12, order="shrink", order_nodes=3)]) == []


def test_several_jobs_give_to_one() -> None:
    # Job 2 gives as above, but 2 at most: then (12 - n) x 30 >= 3 x (3 + n) x 10, n <= 4, of job 3.
    jobs = [SHORT, running(malleable(2, 10, 20, 900.0), 12), running(malleable(3, 1, 20, 900.0), 12)]
    assert decide(25, [], jobs) == [(Shrink, 2, 2), (Shrink, 3, 4)]


def test_idle_nodes_go_at_once_to_where_a_move_would_bring_them() -> None:
    # Both jobs make as much of a node, and 8 are idle. With all of them job 1 would have 9, and give job 2 one of them:
    # (9 - n) x 10 >= 3 x (1 + n) x 10, n <= 1.
    assert decide(10, [], [SHORT, running(malleable(2, 1, 20, 100.0), 1)]) == [(Grow, 1, 7), (Grow, 2, 1)]
    starting = malleable(2, 1, 20, 100.0)
    assert decide(10, [starting], [SHORT]) == [(Start, 2, 2), (Grow, 1, 7)]
    assert decide(10, [], [SHORT, running(malleable(2, 1, 20, 100.0), 1)], worth_s=201.0) == [(Grow, 1, 8)]


@pytest.mark.parametrize(
    ("behind", "given"),
    [([], [(1, 6), (2, 1)]), ([rigid(10, 15)], [(1, 7)])],
)
def test_others_give_in_the_place_of_who_would_get_some_back(
    behind: list[JobSpec], given: list[tuple[int, int]]
) -> None:
    # Job 1 misses nodes least, 8 x 10, and would be left with one. Then job 2 would give it one of its 7, as soon as
    # no job waits: (7 - n) x 10 >= 3 x (1 + n) x 10, n <= 1. So it gives that one now.
    jobs = [running(malleable(1, 1, 20, 100.0), 8), running(malleable(2, 1, 20, 100.0), 7)]
    assert decide(15, [rigid(9, 7), *behind], jobs) == [(Shrink, job_id, nodes) for job_id, nodes in given]


@pytest.mark.parametrize(("second", "given"), [(2, 5), (9, 2)])
def test_nothing_is_taken_for_those_behind_the_next_blocked_job(second: int, given: int) -> None:
    # Job 9 is about to start on nodes of job 1. If the second cannot have enough, job 7 may delay it, and has to wait.
    jobs = [running(malleable(1, 2, 8, 100.0), 8), running(rigid(2, 2), 2)]
    queue = [rigid(9, 2), rigid(8, second), rigid(7, 1)]
    assert decide(10, queue, jobs, patience=0.0) == [(Shrink, 1, given)]


def test_a_timeline() -> None:
    # Job 1 starts alone on all 8 nodes: 800 node-seconds, 100 s. At 40 s job 2 comes, 80 node-seconds: it starts on 1
    # node, of job 1. No job waits then: sqrt(800) = 28.3 and sqrt(80) = 8.94; (7 - n) x 28.3 >= (1 + n) x 8.94 x 3, so
    # 3 nodes move, and job 2 has 20 s on 4 nodes, as job 1 has; it then gets all 8 back.
    jobs = [
        simulated(JobSpec(1, "m", "u", "malleable", 1, 1, 8, 800.0, 0.0), 800.0),
        simulated(JobSpec(2, "m", "u", "malleable", 1, 1, 8, 80.0, 40.0), 80.0),
    ]
    records = simulate(8, policies.get("best-use", worth_s=1.0), jobs).records
    assert records[1].sizes == [(0.0, 8), (40.0, 7), (40.0, 4), (60.0, 8)]
    assert records[2].sizes == [(40.0, 1), (40.0, 4)]
    assert records[2].end_s == pytest.approx(60.0)
    assert records[1].end_s == pytest.approx(60.0 + (800 - 40 * 8 - 20 * 4) / 8)


@pytest.mark.parametrize("parameters", [{"patience": -1.0}, {"haste": float("nan")}, {"ratio": 0.5}])
def test_parameters_out_of_range_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(InvalidParameterError, match="best-use"):
        policies.get("best-use", **parameters)
