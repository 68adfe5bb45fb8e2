"""What the events of a job's life do to the state."""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

from scheduler_bridge.core.effects import Effect, Refuse
from scheduler_bridge.core.events import (
    CancelJob,
    JobEnded,
    JobMoved,
    JobStarted,
    JobWithdrawn,
    MalleableEnded,
    MalleableReady,
)
from scheduler_bridge.core.lifecycle import HOLDING, LIVE, JobState
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.core.tracked import TrackedJob
from scheduler_bridge.model import JobSpec, wording

JobEvent: TypeAlias = JobStarted | JobEnded | MalleableReady | MalleableEnded | JobWithdrawn | JobMoved | CancelJob
PAST: Final = frozenset({JobState.ENDING, JobState.ENDED})
"""States in which a job's reports come too late to matter."""


def apply(state: SchedulerState, event: JobEvent, now: float) -> list[Effect]:
    """Apply one event of a submitted job's life."""
    job = state.jobs.get(event.job_id)
    if job is None:
        state.anomalies.append(f"{event} is about an unknown job")
        return []
    match event:  # the most frequent ones first
        case JobEnded():
            if job.state in HOLDING and job.state is not JobState.CLAIMING:
                state.end(job, event.outcome, event.reason, now)
            else:
                state.anomalies.append(f"{event}, but the job is {job.state}")
        case JobStarted():
            _started(state, job, now)
        case MalleableReady():
            _set_ready(state, job, ready=True)
        case MalleableEnded():
            _set_ready(state, job, ready=False)
        case JobWithdrawn() | JobMoved():
            _place(state, job, event)
        case CancelJob():
            return _cancel(state, job, event.reason, now)
        case _:
            assert_never(event)
    return []


def submit(state: SchedulerState, spec: JobSpec) -> list[Effect]:
    """Let a job wait, unless no cluster of this size could ever hold it."""
    if (before := state.jobs.get(spec.job_id)) is not None and before.state is not JobState.ENDED:
        state.anomalies.append(f"job {spec.job_id} is submitted twice")
        return []
    if spec.min_nodes > state.pool.known:
        reason = f"job {spec.job_id} needs {wording.nodes(spec.min_nodes)}, the cluster has {state.pool.staying}"
        return [Refuse(spec.job_id, reason)]
    state.enqueue(TrackedJob(spec, max_nodes=spec.max_nodes))
    return []


def _place(state: SchedulerState, job: TrackedJob, event: JobWithdrawn | JobMoved) -> None:
    """Take a waiting job out of the queue, or put it elsewhere."""
    if job.state is not JobState.QUEUED:
        state.anomalies.append(f"{event}, but the job is {job.state}")
    elif isinstance(event, JobMoved):
        state.move(job, event.ahead_of)
    else:
        state.withdraw(job)


def _started(state: SchedulerState, job: TrackedJob, now: float) -> None:
    """The walltime begins. No pass follows: nothing became possible that was not before."""
    if job.state in PAST:
        return
    if job.state is not JobState.STARTING:
        state.anomalies.append(f"job {job.spec.job_id} reports its start, but it is {job.state}")
        return
    state.run(job, now)
    if job.shares is not None:
        state.sharing.moved.add(job.spec.job_id)
    if job.ready:
        state.changed = True


def _set_ready(state: SchedulerState, job: TrackedJob, *, ready: bool) -> None:
    if job.state in PAST:
        return
    if job.state not in LIVE or not job.spec.is_malleable:
        state.anomalies.append(f"job {job.spec.job_id} ({job.spec.job_class}, {job.state}) reports a malleable handler")
        return
    job.ready = ready
    state.touch(job)


def _cancel(state: SchedulerState, job: TrackedJob, reason: str, now: float) -> list[Effect]:
    if job.state is JobState.ENDED:
        return []
    if job.state in (JobState.QUEUED, JobState.CLAIMING):
        state.end(job, "cancelled", reason, now)
        return []
    return state.kill(job, "cancelled", "cancelled")
