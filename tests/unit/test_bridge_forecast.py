"""When waiting jobs may be expected to start."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from scheduler_bridge import policies
from scheduler_bridge.core import SchedulerCore
from scheduler_bridge.core.events import (
    JobEnded,
    JobMoved,
    JobStarted,
    JobSubmitted,
    NodeDrained,
    ReservationMade,
    WakeUp,
)
from scheduler_bridge.daemon.admission import JobFacts
from scheduler_bridge.daemon.control.status import NEAR_JOBS, QueueTail, expected_starts, snapshot
from scheduler_bridge.daemon.requests import JobRequest
from scheduler_bridge.daemon.storage.log_state import spec_of
from scheduler_bridge.model import AdvanceReservation, JobSpec


def test_jobs_are_expected_when_those_before_them_have_taken_their_walltimes() -> None:
    core = SchedulerCore(("a", "b", "c"), policies.get("fcfs"))
    for number, nodes, walltime_s in ((1, 2, 100.0), (2, 3, 50.0), (3, 1, 60.0), (4, 1, 500.0), (5, 3, 10.0)):
        core.handle(JobSubmitted(JobSpec(number, "j", "u", "rigid", nodes, nodes, nodes, walltime_s, 0.0)), 0.0)
    core.handle(JobStarted(1), 0.0)
    assert expected_starts(core.snapshot(), core.waiting, 10.0) == {2: 100.0, 3: 10.0, 4: 150.0, 5: 650.0}
    core.handle(JobMoved(5, 2), 20.0)
    assert expected_starts(core.snapshot(), core.waiting, 120.0) == {5: 120.0, 2: 130.0, 3: 180.0, 4: 180.0}
    core.handle(NodeDrained("a"), 121.0)  # Neither of those that need all nodes may be expected any more.
    assert set(expected_starts(core.snapshot(), core.waiting, 121.0)) == {3, 4}


def test_of_a_long_queue_only_the_first_jobs_are_looked_at() -> None:
    core = SchedulerCore(("a",), policies.get("easy"))
    facts = {}
    for number in range(NEAR_JOBS + 5):
        request = JobRequest(name=f"j{number}", command=("true",))
        facts[number] = JobFacts(request, spec_of(number, request, 0.0))
        core.handle(JobSubmitted(facts[number].spec), 0.0)
    tail = QueueTail()
    forecasts = tail.of(core.waiting, facts)
    assert list(forecasts) == [NEAR_JOBS + number for number in range(1, 5)], "job 0 runs"
    state: Any = SimpleNamespace(core=core, jobs=facts, ailing={}, at_s=1.0, busy_node_s=1.5, node_s=2.0)
    shown = snapshot(state, 1.0, {}, {}, forecasts, "", ({}, ""))
    assert [job.job for job in shown.jobs] == list(facts)
    assert [job.state for job in shown.jobs] == ["starting"] + ["waiting"] * (NEAR_JOBS + 4)
    assert (shown.held_node_s, shown.utilization) == (1.5, 0.75)
    assert shown.jobs[-1].reason == "more than 1,000 jobs wait before it"
    assert "reserved for job 1" in shown.jobs[NEAR_JOBS].reason
    core.handle(JobEnded(0, "completed"), 2.0)
    again = tail.of(core.waiting, facts)
    assert list(again) == list(forecasts)[1:]
    assert all(again[job_id] is forecasts[job_id] for job_id in again), "they are not made again"


def test_reserved_nodes_are_expected_for_the_jobs_of_the_reservation_only() -> None:
    core = SchedulerCore(("a", "b", "c"), policies.get("easy"))
    core.handle(ReservationMade(AdvanceReservation("r", 100.0, 300.0, 2)), 0.0)
    for number, nodes, walltime_s, name in ((1, 3, 150.0, ""), (2, 2, 90.0, "r"), (3, 1, 120.0, "r"), (4, 2, 80.0, "")):
        spec = JobSpec(number, "j", "u", "rigid", nodes, nodes, nodes, walltime_s, 0.0, reservation=name)
        core.handle(JobSubmitted(spec), 0.0)
    assert [row.job for row in core.snapshot().jobs if row.nodes] == [4], "it ends before the reservation"
    core.handle(JobStarted(4), 0.0)
    assert expected_starts(core.snapshot(), core.waiting, 0.0) == {1: 300.0, 2: 100.0}, "there is no room for job 3"
    core.handle(JobEnded(4, "completed"), 50.0)
    core.handle(WakeUp(), 100.0)
    core.handle(JobStarted(2), 100.0)
    assert expected_starts(core.snapshot(), core.waiting, 110.0) == {1: 300.0}
    core.handle(JobEnded(2, "completed"), 120.0)
    assert [row.job for row in core.snapshot().jobs if row.nodes] == [3]
