"""A scheduler core of four nodes, and ways to drive it, for tests of it."""

from __future__ import annotations

from scheduler_bridge import policies
from scheduler_bridge.core import JobState, SchedulerCore, Settings
from scheduler_bridge.core.events import (
    Effect,
    JobEnded,
    JobStarted,
    JobSubmitted,
    MalleableReady,
    SendOrder,
    WakeAt,
)
from scheduler_bridge.model import JobSpec

NODES = ("a", "b", "c", "d")


def rigid(job_id: int, nodes: int, walltime_s: float = 100.0) -> JobSpec:
    return JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, walltime_s, 0.0)


def malleable(job_id: int, low: int, high: int, walltime_s: float = 100.0) -> JobSpec:
    return JobSpec(job_id, "m", "u", "malleable", low, low, high, walltime_s, 0.0)


def make(policy: str = "malleable", settings: Settings | None = None) -> SchedulerCore:
    return SchedulerCore(NODES, policies.get(policy), settings)


def without_alarms(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if not isinstance(effect, WakeAt)]


def run_one(core: SchedulerCore, spec: JobSpec, *, ready: bool = True) -> None:
    """Submit and start a job at 0 s; a ready one may get its first order at once."""
    core.handle(JobSubmitted(spec), 0.0)
    core.handle(JobStarted(spec.job_id), 0.0)
    if ready:
        core.handle(MalleableReady(spec.job_id), 0.0)


def shrinking() -> SchedulerCore:
    """Job 1 holds all four nodes and is ordered to give two (order 1) to job 2 at 10 s."""
    core = make()
    run_one(core, malleable(1, 1, 4))
    assert without_alarms(core.handle(JobSubmitted(rigid(2, 2)), 10.0)) == [SendOrder(1, 1, "shrink", ("c", "d"), 2)]
    return core


def growing() -> SchedulerCore:
    """Job 1 started on the two nodes that job 0 left it and is ordered to take those too (order 1) at 10 s."""
    core = make()
    run_one(core, rigid(0, 2), ready=False)
    run_one(core, malleable(1, 1, 4))
    assert core.handle(JobEnded(0, "completed"), 10.0) == [SendOrder(1, 1, "grow", ("a", "b"), 2)]
    return core


def state_of(core: SchedulerCore, job_id: int) -> JobState:
    return core.state(job_id)


def nodes_of(core: SchedulerCore, job_id: int) -> tuple[str, ...]:
    return core.nodes_of(job_id)
