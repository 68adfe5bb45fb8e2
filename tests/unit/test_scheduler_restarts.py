"""Jobs whose processes have all ended, and that can go on: they keep their nodes and are started anew."""

from __future__ import annotations

import msgspec
import pytest
from support.scheduling import (
    NODES,
    growing,
    make,
    malleable,
    nodes_of,
    rigid,
    run_one,
    shrinking,
    state_of,
    without_alarms,
)

from scheduler_bridge.core import JobState, SchedulerCore
from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon.requests import JobRequest
from scheduler_bridge.daemon.storage.log_entries import AnyFact, Entry, GoesOn, Reported, Requested
from scheduler_bridge.daemon.storage.log_state import LogState, spec_of
from scheduler_bridge.daemon.storage.store import Era
from scheduler_bridge.model import wording

LOST = "place 0 was lost"


def interrupt(core: SchedulerCore, job_id: int, now: float) -> list[ev.Effect]:
    effects = without_alarms(core.handle(ev.JobInterrupted(job_id, LOST), now))
    core.check()
    return effects


def test_it_keeps_its_nodes_and_takes_no_orders_before_it_is_up() -> None:
    core = make()
    run_one(core, malleable(1, 1, 4))
    assert interrupt(core, 1, 10.0) == [ev.StartJob(1, NODES)]
    assert "place 0 was lost; started again on its 4 nodes, 1st time" in core.explain(1)
    core.handle(ev.MalleableReady(1), 11.0)  # its start may be reported later than what it says
    assert without_alarms(core.handle(ev.JobSubmitted(rigid(2, 1)), 12.0)) == []
    assert without_alarms(core.handle(ev.JobStarted(1), 13.0)) == [ev.SendOrder(1, 1, "shrink", ("d",), 1)]
    core.check()


def test_a_grow_under_way_comes_to_nothing_and_its_nodes_are_free() -> None:
    core = growing()
    assert interrupt(core, 1, 11.0) == [ev.StartJob(1, ("c", "d"))]
    assert nodes_of(core, 1) == ("c", "d")
    core.handle(ev.JobStarted(1), 12.0)
    # what the life before had to say comes too late
    core.handle(ev.GrowCompleted(1, 1, ("a", "b")), 12.0)
    assert nodes_of(core, 1) == ("c", "d")
    assert without_alarms(core.handle(ev.JobSubmitted(rigid(2, 2)), 13.0)) == [ev.StartJob(2, ("a", "b"))]
    core.check()


def test_a_shrink_under_way_comes_to_nothing_and_is_not_repeated_at_once() -> None:
    core = shrinking()
    assert interrupt(core, 1, 11.0) == [ev.StartJob(1, NODES)]
    core.handle(ev.JobStarted(1), 12.0)
    assert without_alarms(core.handle(ev.MalleableReady(1), 12.0)) == []
    assert without_alarms(core.handle(ev.WakeUp(), 41.0)) == [ev.SendOrder(1, 2, "shrink", ("c", "d"), 2)]
    interrupt(core, 1, 50.0)
    core.handle(ev.JobStarted(1), 51.0)
    # this life has not said that it takes orders
    assert without_alarms(core.handle(ev.WakeUp(), 90.0)) == []
    core.check()


@pytest.mark.parametrize("up", [False, True])
def test_its_walltime_goes_on(up: bool) -> None:
    core = make()
    run_one(core, malleable(1, 1, 4, walltime_s=100.0))
    interrupt(core, 1, 90.0)
    if up:
        core.handle(ev.JobStarted(1), 95.0)
    (row,) = core.snapshot().jobs
    assert (row.start_s, row.expected_end_s) == (0.0, 100.0)
    (kill,) = without_alarms(core.handle(ev.WakeUp(), 200.0))
    assert isinstance(kill, ev.KillJob)
    core.handle(ev.JobEnded(1, "failed", "ended by TERM"), 201.0)
    assert core.ended(1) == ("timeout", "over its walltime of 100 s")


def test_one_that_is_ended_meanwhile_is_not_started_again() -> None:
    core = make()
    run_one(core, malleable(1, 1, 4))
    core.handle(ev.CancelJob(1), 1.0)
    assert interrupt(core, 1, 2.0) == []
    assert state_of(core, 1) is JobState.ENDING
    core.handle(ev.JobEnded(1, "failed"), 3.0)
    assert core.ended(1) == ("cancelled", "cancelled")


def test_one_that_begins_again_can_be_cancelled_and_lose_its_nodes() -> None:
    core = make()
    run_one(core, malleable(1, 1, 4))
    interrupt(core, 1, 1.0)
    assert without_alarms(core.handle(ev.NodeDown("b"), 2.0)) == [
        ev.KillJob(1, "node b is out of service"),
    ]  # fmt: skip
    core.handle(ev.JobEnded(1, "failed"), 3.0)
    assert core.ended(1) == ("lost", "node b is out of service")
    core.check()


@pytest.mark.parametrize(
    ("number", "text"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (21, "21st")]
)
def test_ordinals(number: int, text: str) -> None:
    assert wording.ordinal(number) == text


# What the log makes of it -------------------------------------------------------------------------------------------

ERA = Era(
    nodes=("a", "b"), policy="malleable", parameters={}, first_job=1, started_at="", wall_s=0.0, boot="",
    monotonic_s=0.0, cores_per_node=1,
)  # fmt: skip


def running(*, requeue: bool = False) -> LogState:
    state = LogState(ERA)
    request = JobRequest(name="job", command=("x",), nodes=2, requeue=requeue)
    state.take(Entry(0.0, (ev.JobSubmitted(spec_of(1, request, 0.0)),), (Requested(1, request),)))
    state.take(Entry(1.0, (ev.JobStarted(1),)))
    return state


def test_the_log_counts_an_attempt_and_forgets_what_the_job_said() -> None:
    state = running()
    facts = state.jobs[1]
    facts.losses, facts.answers, facts.phase = 3, {1: (0, "no")}, "ready"
    state.take(Entry(2.0, (), (Reported(1, 4, "refused", "not now"),)))
    assert LogState.thaw(ERA, state.freeze()).jobs[1].outcomes == facts.outcomes == {4: "refused"}
    state.take(Entry(5.0, (ev.JobInterrupted(1, LOST),)))
    assert (facts.attempt, facts.restarts, facts.losses, facts.answers, facts.phase) == (2, 1, -1, {}, "silent")
    assert not facts.outcomes
    assert facts.appends
    state.take(Entry(6.0, (ev.JobStarted(1),)))
    state.take(Entry(9.0, (ev.JobEnded(1, "completed"),)))
    (job,) = state.recorder.record().jobs
    assert (job.start_s, job.restarts_s, job.end_s, job.state) == (1.0, (5.0,), 9.0, "completed")
    assert [(part.from_s, part.to_s) for part in job.segments] == [(1.0, 5.0), (6.0, 9.0)]


def test_restarts_are_no_attempts_of_their_own() -> None:
    state = running(requeue=True)
    for at_s in range(2, 20, 2):
        state.take(Entry(float(at_s), (ev.JobInterrupted(1, LOST),)))
        state.take(Entry(float(at_s), (ev.JobStarted(1),)))
    state.take(Entry(30.0, (ev.JobEnded(1, "lost"),)))
    assert state.kept == {1}


@pytest.mark.parametrize("facts", [(), (GoesOn(1),)])
def test_one_that_is_lost_with_its_nodes_waits_for_others_if_it_can_go_on(facts: tuple[AnyFact, ...]) -> None:
    state = running()
    thawed = LogState.thaw(ERA, state.freeze())
    for each in (state, thawed):
        each.take(Entry(2.0, (ev.JobEnded(1, "lost"),), facts))
        assert each.kept == ({1} if facts else set())
        assert not facts or each.jobs[1].appends
    assert msgspec.json.decode(msgspec.json.encode(GoesOn(1)), type=GoesOn) == GoesOn(1)
