"""What is due by time alone: walltimes, ends of pauses, periodic passes; and the wake-ups asked for it."""

from __future__ import annotations

import heapq
import math

from scheduler_bridge.core import bookings
from scheduler_bridge.core.effects import Effect, WakeAt
from scheduler_bridge.core.lifecycle import LIVE, JobState
from scheduler_bridge.core.state import SchedulerState


def ring(state: SchedulerState, now: float) -> list[Effect]:
    """Do what is due at ``now``: end the jobs over their walltime; allow a pass where a pause or interval is over."""
    effects = bookings.ring(state, now) if state.bookings else []
    while state.deadlines and state.deadlines[0][0] <= now:
        _, job_id = heapq.heappop(state.deadlines)
        job = state.jobs.get(job_id)
        if job is None or job.state not in LIVE:  # Over, or, after a node was lost, waiting again or withdrawn.
            continue
        state.changed = True
        if job.state is JobState.ADJUSTING or job_id in state.sharing.moved:
            continue  # Its end is predicted anew, when it has answered or in this very batch.
        if job.bound and job.started_s is not None and job.expected_end_s + state.settings.walltime_grace_s <= now:
            effects += state.kill(job, "timeout", f"over its walltime of {job.spec.walltime_s:g} s")
    if state.next_pass_s is not None and state.next_pass_s <= now:
        state.changed = True
    if state.armed_s is not None and state.armed_s <= now:
        state.armed_s = None
    return effects


def next_pass_s(state: SchedulerState, now: float) -> float:
    """When the next periodic pass is due, counting those before ``now`` as made that would have decided nothing."""
    if state.next_pass_s is None:
        return math.inf
    interval_s = state.settings.pass_interval_s
    while interval_s is not None and state.next_pass_s < min(now, state.idle_until_s):
        state.next_pass_s += interval_s  # as the passes themselves would have put it, also to the last bit
    return state.next_pass_s


def passed(state: SchedulerState, interval_s: float, now: float) -> None:
    """Note that a pass took place, and when the next one is due; they are ``interval_s`` apart."""
    state.next_pass_s = now + interval_s if state.queue or state.active else None


def arm(state: SchedulerState) -> list[Effect]:
    """Ask to be woken at the earliest thing due, unless that was asked for already."""
    if state.armed_s is not None and state.deadlines and state.armed_s <= state.deadlines[0][0]:
        next_pass_s = state.next_pass_s
        if (next_pass_s is None or state.armed_s <= next_pass_s) and not state.bookings:
            return []
    due_s = earliest(state)
    if due_s is None or (state.armed_s is not None and state.armed_s <= due_s):
        return []
    state.armed_s = due_s
    return [WakeAt(due_s)]


def earliest(state: SchedulerState) -> float | None:
    """When the earliest thing is due by time alone; None: nothing is."""
    deadlines, jobs = state.deadlines, state.jobs
    while deadlines and ((job := jobs.get(deadlines[0][1])) is None or job.state not in LIVE):
        heapq.heappop(deadlines)
    if state.next_pass_s is None and not state.bookings:  # as mostly
        return deadlines[0][0] if deadlines else None
    times = [deadlines[0][0]] if deadlines else []
    if state.next_pass_s is not None and state.idle_until_s < math.inf:
        times.append(max(state.next_pass_s, state.idle_until_s))
    if state.bookings and (turn_s := bookings.next_turn_s(state)) is not None:
        times.append(turn_s)
    return min(times) if times else None
