"""The bounds that rigid jobs get when they become malleable, computed by hand."""

from __future__ import annotations

import pytest

from scheduler_bridge.workloads import TraceJob, Workload, amdahl_logs_rule, amdahl_rule, convert, mebf_rule


def test_the_rule_of_mebf() -> None:
    job = TraceJob(1, 0.0, 10.0, 20.0, 7)
    workload = Workload("one", 30, (job,))
    for scalability, (above, up_to) in {"high": (0, 0.1), "medium": (0.1, 0.2), "low": (0.2, 0.3)}.items():
        (converted,) = convert(workload, 1, 1, mebf_rule(scalability)).jobs
        assert (converted.min_nodes, converted.nodes, converted.max_nodes) == (4, 7, 30)
        assert above < converted.rho <= up_to
        assert converted.speedup == f"power:{converted.rho!r}"


def test_the_rule_of_mebf_draws_an_overhead_for_each_job() -> None:
    jobs = tuple(TraceJob(job, 0.0, 10.0, 20.0, 7) for job in range(300))
    workload = Workload("many", 30, jobs)
    drawn = [job.overhead for job in convert(workload, 1, 1, mebf_rule("low")).jobs]
    assert drawn == [job.overhead for job in convert(workload, 1, 1, mebf_rule("low")).jobs]
    assert drawn != [job.overhead for job in convert(workload, 1, 2, mebf_rule("low")).jobs]
    for values in zip(*[pair for pair in drawn if pair is not None], strict=True):
        assert len(set(values)) == 300
        assert 0.005 <= min(values) < 0.007
        assert 0.048 < max(values) <= 0.05
    without = convert(workload, 1, 1, mebf_rule("low", overheads=None)).jobs
    assert {job.overhead for job in without} == {None}
    assert [job.rho for job in without] == [job.rho for job in convert(workload, 1, 1, mebf_rule("low")).jobs]


def test_large_jobs_have_a_share_too() -> None:
    (job,) = convert(Workload("big", 4360, (TraceJob(1, 0.0, 10.0, 20.0, 4096),)), 1, 0, amdahl_rule).jobs
    assert (job.min_nodes, job.max_nodes, job.speedup) == (32, 4096, "amdahl:0.999")


@pytest.mark.parametrize(
    ("nodes", "machine", "bounds"),
    [
        (1, 4360, (1, 20, "amdahl:0.95")),  # 1 + 20 x 0.05 is 2: an efficiency of 0.5, no more
        (4, 4360, (1, 20, "amdahl:0.95")),
        (10, 4360, (2, 40, "amdahl:0.975")),  # 1 + 9 x 0.025 < 1.25 < 1 + 9 x 0.03
        (10, 30, (2, 30, "amdahl:0.975")),
        (4096, 4360, (819, 4096, "amdahl:0.999")),
    ],
)
def test_the_rule_of_logs(nodes: int, machine: int, bounds: tuple[int, int, str]) -> None:
    (job,) = convert(Workload("one", machine, (TraceJob(1, 0.0, 10.0, 20.0, nodes),)), 1, 0, amdahl_logs_rule).jobs
    assert (job.min_nodes, job.max_nodes, job.speedup) == bounds
    assert job.nodes == nodes
