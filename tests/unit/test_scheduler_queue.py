"""Jobs that are moved in the queue, taken out of it, and submitted again; nodes that are drained."""

from __future__ import annotations

import pytest

from scheduler_bridge import policies
from scheduler_bridge.core import SchedulerCore
from scheduler_bridge.core.events import (
    CancelJob,
    Effect,
    JobEnded,
    JobMoved,
    JobStarted,
    JobSubmitted,
    JobWithdrawn,
    KillJob,
    NodeDown,
    NodeDrained,
    NodeUp,
    StartJob,
    WakeAt,
)
from scheduler_bridge.model import JobSpec


def job(job_id: int, nodes: int = 1) -> JobSpec:
    return JobSpec(job_id, "j", "u", "rigid", nodes, nodes, nodes, 100.0, 0.0)


def full(policy: str = "fcfs", waiting: int = 3) -> SchedulerCore:
    """Job 1 has both nodes, the others wait for two each."""
    core = SchedulerCore(("a", "b"), policies.get(policy))
    for number in range(1, waiting + 2):
        core.handle(JobSubmitted(job(number, 2)), 0.0)
    core.handle(JobStarted(1), 0.0)
    return core


def plain(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if not isinstance(effect, WakeAt)]


def started(effects: list[Effect]) -> list[int]:
    return [effect.job_id for effect in effects if isinstance(effect, StartJob)]


@pytest.mark.parametrize("policy", ["fcfs", "easy", "malleable", "conservative"])
def test_a_job_that_was_moved_comes_in_its_place(policy: str) -> None:
    core = full(policy)
    core.handle(JobMoved(4, 2), 1.0)
    assert list(core.waiting) == [4, 2, 3]
    core.handle(JobMoved(2, None), 1.0)
    assert list(core.waiting) == [4, 3, 2]
    core.check()
    order = []
    for running in (1, 4, 3):
        order += started(core.handle(JobEnded(running, "completed"), 2.0))
    assert order == [4, 3, 2]
    core.check()


@pytest.mark.parametrize("policy", ["fcfs", "easy", "malleable", "conservative"])
def test_a_withdrawn_job_is_not_started_until_it_comes_again(policy: str) -> None:
    core = full(policy, waiting=2)
    core.handle(JobWithdrawn(2), 1.0)
    core.check()
    assert started(core.handle(JobEnded(1, "completed"), 2.0)) == [3]
    core.handle(JobSubmitted(job(2, 2)), 3.0)
    assert started(core.handle(JobEnded(3, "completed"), 4.0)) == [2]
    core.check()


def test_what_runs_cannot_be_moved_or_withdrawn() -> None:
    core = full(waiting=1)
    assert plain(core.handle(JobWithdrawn(1), 1.0)) == []
    assert plain(core.handle(JobMoved(1, None), 1.0)) == []
    assert len(core.anomalies) == 2
    core.check()


def test_a_lost_job_can_be_submitted_again() -> None:
    core = SchedulerCore(("a", "b"), policies.get("easy"))
    core.handle(JobSubmitted(job(1)), 0.0)
    core.handle(JobStarted(1), 0.0)
    (kill,) = plain(core.handle(NodeDown("a"), 1.0))
    assert isinstance(kill, KillJob)
    core.handle(JobEnded(1, "failed"), 2.0)
    assert core.ended(1) == ("lost", "node a is out of service")
    assert StartJob(1, ("b",)) in core.handle(JobSubmitted(job(1)), 3.0)
    core.handle(JobStarted(1), 3.0)
    core.handle(JobEnded(1, "completed"), 500.0)
    assert core.ended(1) == ("completed", "")
    core.check()


def test_a_drained_node_keeps_its_job_and_gets_no_other() -> None:
    core = SchedulerCore(("a", "b"), policies.get("easy"))
    core.handle(JobSubmitted(job(1)), 0.0)
    core.handle(JobStarted(1), 0.0)
    assert plain(core.handle(NodeDrained("a"), 1.0)) == []
    core.handle(JobSubmitted(job(2)), 1.0)
    core.handle(JobSubmitted(job(3)), 1.0)
    assert started(core.handle(JobEnded(1, "completed"), 2.0)) == []
    core.check()
    assert started(core.handle(NodeUp("a"), 3.0)) == [3]
    core.check()


def test_the_end_of_a_waiting_job_has_its_reason() -> None:
    core = full(waiting=2)
    core.handle(CancelJob(2, "job 1 did not complete"), 1.0)
    core.handle(CancelJob(3), 1.0)
    assert core.ended(2) == ("cancelled", "job 1 did not complete")
    assert core.ended(3) == ("cancelled", "cancelled while it waited")
