"""When waiting jobs may be expected to start."""

from __future__ import annotations

from scheduler_bridge import policies
from scheduler_bridge.core import SchedulerCore
from scheduler_bridge.core.events import JobMoved, JobStarted, JobSubmitted, NodeDrained
from scheduler_bridge.live.forecast import expected_starts
from scheduler_bridge.model import JobSpec


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
