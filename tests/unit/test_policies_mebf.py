"""Hand-computed passes for MEBF and its models."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core import SchedulerCore
from scheduler_bridge.core.events import (
    GrowCompleted,
    JobEnded,
    JobStarted,
    JobSubmitted,
    MalleableReady,
    ShrinkCompleted,
)
from scheduler_bridge.model import ClusterView, InvalidJobError, JobSpec, RunningJob
from scheduler_bridge.policies import Decision, Grow, Reserve, Shrink, Stand, Start
from scheduler_bridge.policies.mebf import MIDDLE, ResizeModel
from scheduler_bridge.sim import simulate

NOW = 100.0


def rigid(job_id: int, nodes: int) -> JobSpec:
    return JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, 1000.0, 0.0)


def malleable(
    job_id: int, low: int, preferred: int, high: int, rho: float = 0.0, walltime_s: float = 1000.0
) -> JobSpec:
    return JobSpec(job_id, "m", "u", "malleable", preferred, low, high, walltime_s, 0.0, rho=rho)


def running(spec: JobSpec, nodes: int, end_s: float = 900.0, **more: object) -> RunningJob:
    values: dict[str, object] = {"max_nodes": spec.max_nodes, "ready": spec.is_malleable} | more
    return RunningJob(spec, nodes, 0.0, end_s, **values)  # type: ignore[arg-type]  # fields by name


def decide(
    total: int, queue: Sequence[JobSpec], jobs: Sequence[RunningJob], **parameters: object
) -> list[tuple[type, int, int]]:
    free = total - sum(job.nodes for job in jobs)
    view = ClusterView(total, free, tuple(queue), tuple(jobs))
    found: list[Decision] = policies.get("mebf", **parameters).decide(view, NOW)
    return [(type(d), d.job_id, d.nodes) for d in found if not isinstance(d, Reserve | Stand)]


# 20 nodes, all held. Shares of 0.4: job 1 floor(3.2) = 3; job 2 floor(3.2) = 3, but only 2 above its minimum; job 3 1.
HOLDERS = [
    running(malleable(1, 3, 8, 40, 0.1), 8),
    running(malleable(2, 6, 8, 40, 0.3), 8),
    running(malleable(3, 1, 4, 40, 0.2), 4),
]


@pytest.mark.parametrize(
    ("need", "given"),
    [
        (1, [(2, 2)]),  # the least scalable first, its whole share
        (2, [(2, 2)]),
        (3, [(2, 2), (3, 1)]),
        (4, [(2, 2), (3, 1), (1, 3)]),
        (7, [(2, 2), (3, 1), (1, 3)]),  # all give, although the head does not fit yet
    ],
)
def test_the_least_scalable_shrink_until_the_head_fits(need: int, given: list[tuple[int, int]]) -> None:
    assert decide(20, [rigid(9, need)], HOLDERS) == [(Shrink, job_id, nodes) for job_id, nodes in given]


def test_nobody_shrinks_beside_free_nodes_unless_shrink_plus() -> None:
    # 1 free, the head needs 3.
    assert decide(21, [rigid(9, 3)], HOLDERS) == []
    assert decide(21, [rigid(9, 3)], HOLDERS, plus="shrink") == [(Shrink, 2, 2)]
    assert decide(21, [rigid(9, 3)], HOLDERS, plus="expand", expand="intensive") == [(Grow, 1, 1)]


def test_a_job_that_was_shrunk_is_passed_over_until_it_has_grown() -> None:
    def with_last(last: str | None) -> list[tuple[type, int, int]]:
        shrunk = running(malleable(2, 4, 8, 40, 0.3), 8, last_resize=last)
        return decide(20, [rigid(9, 1)], [HOLDERS[0], shrunk, HOLDERS[2]])

    assert with_last("shrink") == [(Shrink, 3, 1)]
    assert with_last("grow") == with_last(None) == [(Shrink, 2, 3)]


def test_a_job_about_to_end_is_not_resized() -> None:
    # Of 1000 s more than 500 s must be left at 100 s.
    for end_s, nodes in ((600.0, 1), (601.0, 2)):
        late = running(malleable(2, 6, 8, 40, 0.3), 8, end_s)
        assert decide(20, [rigid(9, 1)], [HOLDERS[0], late, HOLDERS[2]])[0][2] == nodes


def test_a_resize_that_makes_the_job_too_slow_is_not_feasible() -> None:
    # Job 2 from 8 to 6 nodes: (8/6)^0.7 = 1.223 times as long. Job 3 from 4 to 3: (4/3)^0.8 = 1.259. Job 1 from 8 to 5:
    # (8/5)^0.9 = 1.527. Overheads add less than 0.002 of 1000 s.
    assert decide(20, [rigid(9, 4)], HOLDERS, gamma=1.23) == [(Shrink, 2, 2)]
    assert decide(20, [rigid(9, 4)], HOLDERS, gamma=1.22) == []
    # With 100 s for every unit of overhead, job 2 needs 1223 + 100 x (0.055 x 2 + 0.0275 / 14) = 1234 s.
    assert decide(20, [rigid(9, 4)], HOLDERS, gamma=1.23, scale_s=100.0) == []


def test_the_overhead_is_the_papers() -> None:
    model = ResizeModel(alpha=2.0, beta=30.0, b=1.0, scale_s=10.0, theta=0.5, gamma=2.0)
    assert model.cost_s(5, 10, None) == 10 * (2 * 5 + 30 / 15 + 1 * 5)  # N is 5 + 10
    assert model.cost_s(20, 5, None) == 10 * (2 * 15 + 30 / 25 + 1 * 15)


def test_a_jobs_own_overhead_counts_unless_one_for_all_is_given() -> None:
    own = ResizeModel(alpha=None, beta=None, b=1.0, scale_s=10.0, theta=0.5, gamma=2.0)
    assert own.cost_s(5, 10, (2.0, 30.0)) == 10 * (2 * 5 + 30 / 15 + 1 * 5)
    assert own.cost_s(5, 10, None) == 10 * (MIDDLE * 5 + MIDDLE / 15 + 1 * 5)
    same = ResizeModel(alpha=3.0, beta=None, b=1.0, scale_s=10.0, theta=0.5, gamma=2.0)
    assert same.cost_s(5, 10, (2.0, 30.0)) == 10 * (3 * 5 + 30 / 15 + 1 * 5)


def test_feasible_is_what_is_feasible_with_the_jobs_own_overhead() -> None:
    # Job 2 from 8 to 6 nodes takes 1223.1 s instead of 1000 s. With b = 0 and 100 s for every unit: its own alpha 0.03
    # costs 100 x 0.03 x 2 = 6 s, which makes 1229.1 s; 0.04 costs 8 s, 1231.1 s, and job 3 is next.
    def given(own: float, **parameters: object) -> list[tuple[type, int, int]]:
        spec = JobSpec(2, "m", "u", "malleable", 8, 6, 40, 1000.0, 0.0, rho=0.3, overhead=(own, 0.0))
        jobs = [HOLDERS[0], running(spec, 8), HOLDERS[2]]
        return decide(20, [rigid(9, 1)], jobs, gamma=1.23, scale_s=100.0, b=0.0, **parameters)

    assert given(0.03) == [(Shrink, 2, 2)]
    assert given(0.04) == []
    assert given(0.04, alpha="0.03", beta="0") == [(Shrink, 2, 2)]


def test_a_wrong_overhead_is_refused() -> None:
    with pytest.raises(policies.InvalidParameterError, match="alpha is 'mine', must be own, or a number"):
        policies.get("mebf", alpha="mine")
    with pytest.raises(policies.InvalidParameterError, match="beta is '-1', must be own"):
        policies.get("mebf", beta="-1")
    with pytest.raises(InvalidJobError, match="overhead is"):
        JobSpec(2, "m", "u", "malleable", 8, 6, 40, 1000.0, 0.0, overhead=(0.1, -0.1))


def test_the_runtime_follows_rho() -> None:
    assert malleable(1, 1, 4, 64).walltime_at_s(16) == 250.0
    assert malleable(1, 1, 4, 64, rho=0.5).walltime_at_s(16) == 500.0
    assert malleable(1, 1, 4, 64, rho=1.0).walltime_at_s(16) == 1000.0
    with pytest.raises(InvalidJobError, match=r"rho is 1\.5"):
        malleable(1, 1, 4, 64, rho=1.5)


# No job waits. Job 1 (4 of at most 20 nodes, rho 0.2), job 2 (4 of at most 9 nodes, rho 0.1): job 2 first.
GROWERS = [running(malleable(1, 1, 4, 20, 0.2), 4), running(malleable(2, 1, 4, 9, 0.1), 4)]


@pytest.mark.parametrize(
    ("expand", "free", "given"),
    [
        ("handoff", 12, [(2, 5), (1, 7)]),
        ("handoff", 9, [(2, 5)]),  # job 1 could get 4, which is not more than the 4 it has
        ("spare", 8, [(2, 5), (1, 3)]),  # 3 is more than half of 4
        ("spare", 7, [(2, 5)]),  # 2 is not
        ("intensive", 6, [(2, 5), (1, 1)]),
    ],
)
def test_the_most_scalable_grow_if_nobody_waits(expand: str, free: int, given: list[tuple[int, int]]) -> None:
    assert decide(8 + free, [], GROWERS, expand=expand) == [(Grow, job_id, nodes) for job_id, nodes in given]


def test_the_ratio_of_spare_is_a_parameter() -> None:
    assert decide(15, [], GROWERS, expand="spare", ratio=0.4) == [(Grow, 2, 5), (Grow, 1, 2)]


def test_expand_plus_leaves_the_reservation_alone() -> None:
    # 10 nodes, 4 free. Job 1: rigid, 4 nodes, until 200 s. Job 2: 2 of 1 to 9 nodes. Head: 6 nodes at 200 s, 2 spare.
    first = running(rigid(1, 4), 4, 200.0)
    beyond = running(malleable(2, 1, 2, 9), 2)
    assert decide(10, [rigid(9, 6)], [first, beyond], plus="expand", expand="intensive") == [(Grow, 2, 2)]
    assert decide(10, [rigid(9, 6)], [first, beyond], expand="intensive") == []
    # Two that run beyond it share the 2 spare nodes: 12 nodes, 4 free.
    another = running(malleable(3, 1, 2, 9), 2)
    assert decide(12, [rigid(9, 6)], [first, beyond, another], plus="expand", expand="intensive") == [(Grow, 2, 2)]
    shared = [first, running(malleable(2, 1, 2, 3), 2), another]
    assert decide(12, [rigid(9, 6)], shared, plus="expand", expand="intensive") == [(Grow, 2, 1), (Grow, 3, 1)]
    # One that ends by 200 s may use all 4.
    until = running(malleable(2, 1, 2, 9, walltime_s=150.0), 2, 200.0)
    assert decide(10, [rigid(9, 6)], [first, until], plus="expand", expand="intensive") == [(Grow, 2, 4)]


def test_expand_plus_passes_over_jobs_that_were_shrunk() -> None:
    # They would be shrunk again at once, and so on. 3 nodes, one free.
    job = running(malleable(1, 1, 2, 3), 2, last_resize="shrink")
    head = JobSpec(9, "r", "u", "rigid", 3, 3, 3, 1000.0, 0.0)
    assert decide(3, [head], [job], plus="expand", expand="intensive") == []
    assert decide(3, [], [job], plus="expand", expand="intensive") == [(Grow, 1, 1)]


def test_jobs_start_at_their_preferred_size_or_on_what_is_free() -> None:
    assert decide(9, [malleable(1, 2, 4, 4), malleable(2, 2, 4, 4)], []) == [(Start, 1, 4), (Start, 2, 4)]
    assert decide(7, [malleable(1, 2, 4, 4), malleable(2, 2, 4, 4)], []) == [(Start, 1, 4), (Start, 2, 3)]


def test_a_job_that_starts_while_nobody_waits_starts_larger() -> None:
    # 10 nodes: preferred 4, at most 9: 5 more is more than 4. Preferred 5: 4 more is not more than 5.
    assert decide(10, [malleable(1, 2, 4, 9)], []) == [(Start, 1, 9)]
    assert decide(10, [malleable(1, 2, 5, 9)], []) == [(Start, 1, 5)]


def test_timeline() -> None:
    # 8 nodes. 0 s: job 0 (2, 4 or 8 nodes; 160 s on 4) starts on 4: 4 more is not more than 4. Job 1 (rigid, 4 nodes,
    # 100 s). 10 s: job 2 (rigid, 1 node, 5 s) arrives, nothing is free: job 0 gives floor(0.4 x 4) = 1 node at once;
    # job 2 runs from 10 s to 15 s. 15 s: 1 node is idle, handoff leaves it. 100 s: job 1 ends; 5 are idle, job 0 grows
    # by 5 from 3 to 8 (5 > 3), for 1000 s of walltime are far from over. Work: 640 node-seconds; 10 x 4 + 90 x 3 = 310
    # are done at 100 s; 330 / 8 = 41.25 s.
    jobs = [
        simulated(malleable(0, 2, 4, 8), 160.0),
        simulated(rigid(1, 4), 100.0),
        simulated(JobSpec(2, "r", "u", "rigid", 1, 1, 1, 10.0, 10.0), 5.0),
    ]
    records = simulate(8, policies.get("mebf"), jobs).records
    assert records[0].sizes == [(0.0, 4), (10.0, 3), (100.0, 8)]
    assert (records[2].start_s, records[0].end_s) == (10.0, 141.25)


def test_the_view_tells_how_a_job_was_resized_last() -> None:
    # 4 nodes. Job 0 starts on all, gives 2 to job 1, and gets them back.
    core = SchedulerCore(("a", "b", "c", "d"), policies.get("malleable"))
    core.handle(JobSubmitted(malleable(0, 1, 4, 4)), 0.0)
    core.handle_batch([JobStarted(0), MalleableReady(0)], 0.0)
    assert core._state.view().running[0].last_resize is None
    core.handle(JobSubmitted(rigid(1, 2)), 1.0)
    core.handle(ShrinkCompleted(0, 1, ("c", "d")), 2.0)
    assert core._state.view().running[0].last_resize == "shrink"
    core.handle(JobEnded(1, "completed"), 3.0)
    assert core._state.view().running[0].last_resize == "shrink"
    core.handle(GrowCompleted(0, 2, ("c", "d")), 4.0)
    assert core._state.view().running[0].last_resize == "grow"
    assert core.anomalies == ()


def test_wrong_parameters_are_answered_with_the_right_ones() -> None:
    with pytest.raises(
        policies.InvalidParameterError, match="expand is 'all', must be one of handoff, spare, intensive"
    ):
        policies.get("mebf", expand="all")
    with pytest.raises(policies.InvalidParameterError, match="plus is 'both', must be one of none, shrink, expand"):
        policies.get("mebf", plus="both")
