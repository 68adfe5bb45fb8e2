from __future__ import annotations

import pytest

from scheduler_bridge.record import (
    JobRecord,
    ResizeRecord,
    RunRecord,
    Segment,
    busy_steps,
    makespan_s,
    metrics,
    utilization,
    waiting_steps,
)


def job(job_id: int, submit_s: float, *segments: tuple[float, float, str], job_class: str = "rigid") -> JobRecord:
    held = [Segment(from_s, to_s, tuple(nodes)) for from_s, to_s, nodes in segments]
    return JobRecord(
        job_id=job_id,
        name=f"job-{job_id}",
        user="me",
        job_class=job_class,
        nodes=1,
        min_nodes=1,
        max_nodes=2,
        walltime_s=60.0,
        submit_s=submit_s,
        start_s=held[0].from_s if held else None,
        end_s=held[-1].to_s if held else None,
        state="completed" if held else "waiting",
        segments=held,
    )


def batch() -> RunRecord:
    second = job(2, 12.0, (14.0, 20.0, "b"), (20.0, 30.0, "ab"), job_class="malleable")
    second.resizes = [
        ResizeRecord(order=1, kind="grow", count=1, ordered_s=19.0, done_s=20.0, outcome="done"),
        ResizeRecord(order=2, kind="shrink", count=1, ordered_s=25.0, done_s=26.0, outcome="refused"),
    ]
    return RunRecord(policy="easy", nodes=["a", "b"], end_s=31.0, jobs=[job(1, 10.0, (10.0, 20.0, "a")), second])


def test_metrics_of_a_batch_by_hand() -> None:
    total = metrics(batch())
    assert total.makespan_s == 20.0
    assert total.mean_wait_s == pytest.approx(1.0)
    assert total.mean_runtime_s == pytest.approx(13.0)
    assert total.mean_turnaround_s == pytest.approx(14.0)
    assert total.busy_node_s == pytest.approx(10 + 6 + 20)
    assert total.utilization == pytest.approx(36 / 40)
    assert (total.jobs, total.ended, total.grows, total.shrinks) == (2, 2, 1, 0)


def test_classes_add_up_to_the_whole() -> None:
    record = batch()
    parts = [metrics(record, job_class) for job_class in ("rigid", "malleable")]
    assert sum(part.utilization for part in parts) == pytest.approx(metrics(record).utilization)
    assert [part.jobs for part in parts] == [1, 1]
    assert parts[1].mean_wait_s == pytest.approx(2.0)


def test_steps() -> None:
    record = batch()
    assert busy_steps(record) == [(10.0, 1), (14.0, 2), (30.0, 0)], "no dip where one ends and one starts"
    assert waiting_steps(record) == [(10.0, 0), (12.0, 1), (14.0, 0)]


def test_a_waiting_job_keeps_the_batch_open() -> None:
    record = batch()
    record.jobs.append(job(3, 15.0))
    assert makespan_s(record) == pytest.approx(21.0), "to the last observation"
    assert waiting_steps(record)[-1] == (15.0, 1)
    assert metrics(record).ended == 2


def test_an_empty_record_has_no_means() -> None:
    total = metrics(RunRecord(policy="easy", nodes=[]))
    assert (total.mean_wait_s, total.utilization, total.makespan_s) == (None, 0.0, 0.0)
    assert utilization(RunRecord(policy="easy", nodes=["a"])) == 0.0
