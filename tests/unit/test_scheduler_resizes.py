"""What the core makes of resizes, event by event: its own orders, and what jobs ask for."""

from __future__ import annotations

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

from scheduler_bridge import policies
from scheduler_bridge.core import JobState, SchedulerCore, Settings
from scheduler_bridge.core.events import (
    CancelJob,
    EvolvingRequest,
    GrowCompleted,
    JobEnded,
    JobStarted,
    JobSubmitted,
    KillJob,
    MalleableEnded,
    MalleableReady,
    Refuse,
    ResizeDeferred,
    ResizeFailed,
    SendOrder,
    ShrinkCompleted,
    StartJob,
    WakeAt,
    WakeUp,
)

# resizing ---------------------------------------------------------------------------------------------------------


def test_a_shrinking_node_is_not_used_before_it_is_released() -> None:
    core = shrinking()
    assert without_alarms(core.handle(WakeUp(), 11.0)) == []
    assert [row.releasing for row in core.snapshot().nodes] == [False, False, True, True]
    # The job chose b and d, not the nodes wished for.
    assert core.handle(ShrinkCompleted(1, 1, ("b", "d")), 12.0) == [StartJob(2, ("b", "d"))]
    assert nodes_of(core, 1) == ("a", "c")
    assert state_of(core, 1) is JobState.RUNNING


def test_a_failed_shrink_leaves_the_job_at_its_size_and_is_not_repeated_at_once() -> None:
    core = shrinking()
    assert core.handle(ResizeFailed(1, 1, "phase"), 12.0) == [WakeAt(42.0)]
    assert nodes_of(core, 1) == NODES
    assert "did not shrink by 2 nodes: phase" in core.explain(1)
    assert without_alarms(core.handle(WakeUp(), 42.0)) == [SendOrder(1, 2, "shrink", ("c", "d"), 2)]


def test_a_failed_grow_gives_the_nodes_back() -> None:
    core = growing()
    core.handle(ResizeFailed(1, 1, "spawn failed"), 11.0)
    assert nodes_of(core, 1) == ("c", "d")
    assert core.handle(JobSubmitted(rigid(2, 2)), 12.0) == [StartJob(2, ("a", "b"))]


def test_a_grow_that_got_fewer_nodes_gives_the_others_back() -> None:
    core = growing()
    core.handle(JobSubmitted(rigid(2, 1)), 10.5)
    assert without_alarms(core.handle(GrowCompleted(1, 1, ("b",)), 11.0)) == [StartJob(2, ("a",))]
    assert nodes_of(core, 1) == ("c", "d", "b")


def test_an_end_during_a_resize_frees_everything_once() -> None:
    core = growing()
    core.handle(JobEnded(1, "failed", "crashed"), 11.0)
    core.handle(GrowCompleted(1, 1, ("a", "b")), 11.0)
    assert core.anomalies == ()
    assert {row.state for row in core.snapshot().nodes} == {"idle"}


def test_a_deferred_order_keeps_the_job_busy() -> None:
    core = shrinking()
    assert core.handle(ResizeDeferred(1, 1, "reduction"), 11.0) == []
    assert "put the shrink order off: reduction" in core.explain(1)
    assert core.handle(ShrinkCompleted(1, 1, ("c", "d")), 20.0) == [StartJob(2, ("c", "d"))]


def test_a_job_that_is_not_ready_or_gave_its_handler_up_gets_no_order() -> None:
    core = make()
    run_one(core, malleable(1, 1, 4), ready=False)
    assert without_alarms(core.handle(JobSubmitted(rigid(2, 2)), 1.0)) == []
    core.handle_batch([MalleableReady(1), MalleableEnded(1)], 2.0)
    assert state_of(core, 1) is JobState.RUNNING
    assert core.handle(MalleableReady(1), 3.0) == [SendOrder(1, 1, "shrink", ("c", "d"), 2)]


def test_ready_may_be_reported_before_the_start() -> None:
    core = make()
    core.handle(JobSubmitted(malleable(1, 1, 4)), 0.0)
    core.handle_batch([MalleableReady(1), JobSubmitted(rigid(2, 2))], 1.0)
    assert without_alarms(core.handle(JobStarted(1), 2.0)) == [SendOrder(1, 1, "shrink", ("c", "d"), 2)]


def test_the_cooldown_keeps_a_resized_job_in_peace_and_ends_with_a_wake_up() -> None:
    core = SchedulerCore(NODES, policies.get("malleable"), Settings(cooldown_s=60.0))
    run_one(core, malleable(1, 1, 4))
    core.handle(JobSubmitted(rigid(2, 2)), 10.0)
    core.handle(ShrinkCompleted(1, 1, ("c", "d")), 11.0)
    core.handle(JobStarted(2), 11.0)
    assert core.handle(JobEnded(2, "completed"), 20.0) == []
    assert without_alarms(core.handle(WakeUp(), 71.0)) == [SendOrder(1, 2, "grow", ("c", "d"), 2)]


def test_a_job_that_releases_other_nodes_than_its_own_is_ended() -> None:
    core = shrinking()
    (kill,) = core.handle(ShrinkCompleted(1, 1, ("d", "x")), 12.0)
    assert isinstance(kill, KillJob)
    assert "released ('d', 'x')" in kill.reason


def test_a_job_that_releases_a_node_of_another_is_ended() -> None:
    core = make()
    run_one(core, rigid(0, 1, 500.0), ready=False)
    run_one(core, malleable(1, 1, 4))
    (other,) = nodes_of(core, 0)
    (order,) = without_alarms(core.handle(JobSubmitted(rigid(2, 1)), 10.0))
    assert isinstance(order, SendOrder)
    (kill,) = core.handle(ShrinkCompleted(1, order.order, (other,)), 12.0)
    assert isinstance(kill, KillJob)
    assert f"released ('{other}',)" in kill.reason
    assert nodes_of(core, 0) == (other,)
    core.check()


@pytest.mark.parametrize("nodes", [("a", "c"), ("d",), ("a", "x")])
def test_a_job_that_grew_on_nodes_that_were_not_ordered_is_ended(nodes: tuple[str, ...]) -> None:
    core = growing()
    (kill,) = core.handle(GrowCompleted(1, 1, nodes), 11.0)
    assert isinstance(kill, KillJob)
    assert f"grown by {nodes}" in kill.reason
    core.check()


# evolving jobs ----------------------------------------------------------------------------------------------------


def test_an_offer_is_taken_and_not_given_back() -> None:
    core = make()
    run_one(core, malleable(1, 1, 4))
    assert core.handle(EvolvingRequest(1, -2), 5.0) == [SendOrder(1, 1, "shrink", ("c", "d"), 2)]
    assert without_alarms(core.handle(ShrinkCompleted(1, 1, ("c", "d")), 6.0)) == []
    assert core.handle(EvolvingRequest(1, 1), 7.0) == [SendOrder(1, 2, "grow", ("c",), 1)], "until it asks for more"


def test_an_offer_below_the_minimum_is_refused() -> None:
    core = make("easy")
    run_one(core, malleable(1, 4, 4))
    assert core.handle(EvolvingRequest(1, -1), 5.0) == [Refuse(1, "job 1 is at its minimum of 4 nodes")]


def test_a_wish_is_granted_from_idle_nodes_under_any_policy_but_not_before_waiting_jobs() -> None:
    core = SchedulerCore(NODES, policies.get("fcfs"))
    run_one(core, rigid(0, 2), ready=False)
    run_one(core, malleable(1, 1, 4))
    core.handle_batch([JobEnded(0, "completed"), JobSubmitted(rigid(2, 3))], 5.0)
    refusal = Refuse(1, "job 1 asked for 1 node; none can be given now")
    assert core.handle(EvolvingRequest(1, 1), 6.0) == [refusal]
    core.handle(CancelJob(2), 7.0)
    assert core.handle(EvolvingRequest(1, 9), 8.0) == [SendOrder(1, 1, "grow", ("a", "b"), 2)]
