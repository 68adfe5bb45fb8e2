"""The figures of a simulation against hand calculation."""

from __future__ import annotations

import pytest
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core.events import Outcome
from scheduler_bridge.model import JobClass, JobSpec
from scheduler_bridge.sim import Power, SimRecord, measure, simulate
from scheduler_bridge.sim.jobs import Sizes
from scheduler_bridge.sim.measures import jain


def record(
    job_id: int,
    submit_s: float,
    start_s: float | None,
    end_s: float | None,
    sizes: list[tuple[float, int]],
    job_class: JobClass = "rigid",
    outcome: Outcome = "completed",
) -> SimRecord:
    nodes = sizes[0][1] if sizes else 1
    high = nodes if job_class == "rigid" else 8
    spec = JobSpec(job_id, "j", "u", job_class, nodes, nodes, high, 1000.0, submit_s)
    return SimRecord(spec, start_s, end_s, outcome if end_s is not None else None, sizes=Sizes(sizes))


def test_means_of_two_jobs() -> None:
    # Waits 0 and 30 s, runtimes 60 and 5 s.
    records = [record(0, 0.0, 0.0, 60.0, [(0.0, 2)]), record(1, 10.0, 40.0, 45.0, [(40.0, 1)])]
    every = measure(records, 4).every
    assert (every.jobs, every.mean_wait_s, every.mean_runtime_s, every.mean_turnaround_s) == (2, 15.0, 32.5, 47.5)
    assert every.mean_slowdown == pytest.approx((1 + 35 / 5) / 2)
    assert every.slowdown_of_means == pytest.approx(95 / 65)
    assert every.mean_bounded_slowdown == pytest.approx((1 + 35 / 10) / 2)


def test_utilization_is_by_nodes_and_window() -> None:
    # 2 nodes 0-60 s, 1 node 40-45 s, of 4 nodes x 60 s.
    records = [record(0, 0.0, 0.0, 60.0, [(0.0, 2)]), record(1, 10.0, 40.0, 45.0, [(40.0, 1)])]
    assert measure(records, 4).utilization == pytest.approx(125 / 240)


def test_a_resized_job_counts_what_it_had() -> None:
    resized = record(0, 0.0, 0.0, 100.0, [(0.0, 2), (10.0, 6), (30.0, 1)], "malleable")
    assert measure([resized], 8).utilization == pytest.approx((20 + 120 + 70) / 800)


def test_time_held_without_use_is_apart() -> None:
    job = record(0, 0.0, 20.0, 100.0, [(20.0, 2)])
    job.reserve(0.0, 20.0, 2)
    job.reserve(50.0, 50.0, 9)  # no time, not counted
    found = measure([job], 4)
    assert found.utilization == pytest.approx(160 / 400)
    assert found.reserved == pytest.approx(40 / 400)
    assert measure([job], 4, power=Power(busy_w=100.0, idle_w=10.0)).energy_kwh == pytest.approx(
        (200 * 100 + 200 * 10) / 3.6e6
    )


def test_the_window_leaves_out_warm_up_and_what_follows_the_last_submission() -> None:
    # Submissions at 0, 50 and 100 s; 20 s of warm-up: the window is 20 to 100 s, the jobs of 50 and 100 s count.
    records = [
        record(0, 0.0, 0.0, 60.0, [(0.0, 2)]),
        record(1, 50.0, 60.0, 90.0, [(60.0, 1)]),
        record(2, 100.0, 100.0, 200.0, [(100.0, 4)]),
    ]
    found = measure(records, 4, warmup_s=20.0)
    assert (found.window.from_s, found.window.to_s) == (20.0, 100.0)
    assert (found.every.jobs, found.every.mean_wait_s) == (2, 5.0)
    assert found.utilization == pytest.approx((2 * 40 + 30) / (4 * 80))
    assert found.makespan_s == 200.0


def test_classes_are_apart_and_compared() -> None:
    records = [
        record(0, 0.0, 10.0, 20.0, [(10.0, 2)]),  # bounded slowdown 2
        record(1, 0.0, 30.0, 40.0, [(30.0, 2)], "malleable"),  # bounded slowdown 4
    ]
    found = measure(records, 4)
    assert (found.rigid.mean_wait_s, found.malleable.mean_wait_s) == (10.0, 30.0)
    assert found.malleable_to_rigid == 2.0
    assert found.fairness == pytest.approx(36 / (2 * 20))


def test_refused_and_unfinished_jobs_are_counted_apart_and_kills_within() -> None:
    refused = record(0, 0.0, None, None, [])
    refused.refused = True
    records = [refused, record(1, 0.0, None, None, []), record(2, 0.0, 0.0, 10.0, [(0.0, 1)], outcome="timeout")]
    found = measure(records, 4)
    assert (found.refused, found.unfinished, found.every.jobs, found.every.killed) == (1, 1, 1, 1)


def test_a_job_that_was_cancelled_while_it_waited_is_over_and_in_no_mean() -> None:
    found = measure([record(0, 0.0, None, 10.0, [], outcome="cancelled"), record(1, 0.0, 5.0, 10.0, [(5.0, 1)])], 4)
    assert (found.unfinished, found.every.jobs, found.every.mean_wait_s) == (0, 1, 5.0)


def test_the_order_in_which_jobs_are_given_changes_no_figure() -> None:
    jobs = [simulated(record(number, number / 7, None, None, []).spec, 10 / 3 + number / 11) for number in range(20)]
    found = {measure(simulate(3, policies.get("easy"), given).records.values(), 3) for given in (jobs, jobs[::-1])}
    assert len(found) == 1


def test_no_jobs_have_no_figures() -> None:
    found = measure([], 4)
    assert (found.every.jobs, found.every.mean_wait_s, found.utilization, found.fairness) == (0, None, 0.0, None)


def test_jain_is_one_for_equals_and_a_share_for_one_who_bears_it_all() -> None:
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
