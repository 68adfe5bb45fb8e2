"""Nodes that leave the cluster: drained first, given back by malleable jobs, then forgotten."""

from __future__ import annotations

import pytest
from msgspec import structs
from support.scheduling import make, malleable, nodes_of, rigid, run_one, without_alarms

from scheduler_bridge import policies
from scheduler_bridge.core import SchedulerCore, Settings
from scheduler_bridge.core.events import (
    CancelJob,
    JobEnded,
    JobStarted,
    JobSubmitted,
    MalleableReady,
    NodeLeft,
    NodeRemoved,
    NodesLost,
    NodeUp,
    Refuse,
    ReservationMade,
    ResizeFailed,
    SendOrder,
    ShrinkCompleted,
    StartJob,
    WakeUp,
)
from scheduler_bridge.model import AdvanceReservation

EVERY = policies.names()


def test_an_idle_node_leaves_at_once_and_comes_back() -> None:
    core = make("fcfs")
    assert without_alarms(core.handle(NodeRemoved("b"), 1.0)) == [NodeLeft("b")]
    assert (list(core.pool.names), len(core.pool)) == (["a", "c", "d"], 3)
    with pytest.raises(KeyError):
        core.pool.state("b")
    assert [type(effect) for effect in core.handle(JobSubmitted(rigid(0, 5)), 2.0)] == [Refuse]
    assert without_alarms(core.handle(JobSubmitted(rigid(1, 4)), 2.0)) == []  # the node may come back
    assert "only 3 in service" in core.explain(1)
    core.handle(CancelJob(1), 2.5)
    assert without_alarms(core.handle(JobSubmitted(rigid(2, 3)), 3.0)) == [StartJob(2, ("a", "c", "d"))]
    core.handle(NodeRemoved("b"), 4.0)
    assert len(core.anomalies) == 1
    core.handle(NodeUp("b"), 5.0)
    assert list(core.pool.names) == ["a", "b", "c", "d"]
    assert without_alarms(core.handle(JobSubmitted(rigid(3, 1)), 6.0)) == [StartJob(3, ("b",))]
    core.check()


def test_a_node_that_came_later_leaves_and_another_comes() -> None:
    core = make("fcfs")
    core.handle(NodeUp("e"), 1.0)
    core.handle(NodeRemoved("a"), 2.0)
    core.handle(NodeUp("f"), 3.0)
    assert list(core.pool.names) == ["b", "c", "d", "e", "f"]
    core.handle(NodeRemoved("e"), 4.0)
    assert [row.name for row in core.snapshot().nodes] == ["b", "c", "d", "f"]
    core.check()


def test_a_rigid_job_ends_first() -> None:
    core = make("fcfs")
    run_one(core, rigid(1, 2), ready=False)
    assert without_alarms(core.handle(NodeRemoved("b"), 1.0)) == []
    leaving = "is to leave the cluster"
    assert [(row.name, row.reason) for row in core.snapshot().nodes][:2] == [("a", ""), ("b", leaving)]
    core.handle(JobSubmitted(rigid(2, 1)), 2.0)  # on c
    assert without_alarms(core.handle(JobEnded(1, "completed"), 3.0)) == [NodeLeft("b")]
    core.check()


def test_a_removal_can_be_taken_back() -> None:
    core = make("fcfs")
    run_one(core, rigid(1, 2), ready=False)
    core.handle(NodeRemoved("b"), 1.0)
    core.handle(NodeUp("b"), 2.0)
    assert without_alarms(core.handle(JobEnded(1, "completed"), 3.0)) == []
    assert len(core.pool) == 4


@pytest.mark.parametrize("policy", EVERY)
def test_a_malleable_job_gives_the_node_back_under_every_policy(policy: str) -> None:
    core = SchedulerCore(("a", "b", "c"), policies.get(policy), Settings(cooldown_s=0.0))
    core.handle(JobSubmitted(structs.replace(malleable(1, 1, 3), nodes=3)), 0.0)
    core.handle(JobStarted(1), 0.0)
    effects = core.handle(MalleableReady(1), 0.0)
    for order in [effect for effect in effects if isinstance(effect, SendOrder)]:
        core.handle(ResizeFailed(1, order.order), 0.0)  # it keeps its size
    held = nodes_of(core, 1)
    core.handle(NodeRemoved(held[1]), 50.0)
    core.handle(WakeUp(), 60.0)
    pending = core.order(1)
    assert pending is not None
    assert (pending.kind, pending.nodes) == ("shrink", (held[1],))
    assert NodeLeft(held[1]) in core.handle(ShrinkCompleted(1, pending.order, (held[1],)), 61.0)
    core.check()


def test_a_job_is_not_asked_for_its_first_node_nor_below_its_minimum() -> None:
    core = make("fcfs")
    run_one(core, malleable(1, 3, 4))
    core.handle(NodeRemoved("a"), 1.0)
    assert without_alarms(core.handle(WakeUp(), 2.0)) == []
    (order,) = without_alarms(core.handle_batch([NodeRemoved("c"), NodeRemoved("d")], 3.0))
    assert order == SendOrder(1, 1, "shrink", ("c",), 1)
    assert without_alarms(core.handle(ShrinkCompleted(1, 1, ("c",)), 4.0)) == [NodeLeft("c")]
    assert without_alarms(core.handle(JobEnded(1, "completed"), 5.0)) == [NodeLeft("a"), NodeLeft("d")]
    assert list(core.pool.names) == ["b"]
    core.check()


def test_a_job_that_has_lost_nodes_may_be_below_its_minimum_and_is_asked_for_none() -> None:
    core = make("fcfs")
    run_one(core, malleable(1, 3, 4))
    core.handle(NodesLost(1, ("b", "c")), 1.0)
    assert without_alarms(core.handle(NodeRemoved("d"), 2.0)) == []
    assert without_alarms(core.handle(JobEnded(1, "completed"), 3.0)) == [NodeLeft("d")]
    core.check()


def test_a_job_that_gives_other_nodes_is_not_asked_again_but_one_that_refused_is() -> None:
    core = make("fcfs", Settings(failure_backoff_s=30.0))
    run_one(core, malleable(1, 1, 4))
    core.handle(NodeRemoved("d"), 1.0)
    core.handle(ResizeFailed(1, 1, "busy"), 2.0)
    assert without_alarms(core.handle(WakeUp(), 20.0)) == []
    assert without_alarms(core.handle(WakeUp(), 33.0)) == [SendOrder(1, 2, "shrink", ("d",), 1)]
    core.handle(ShrinkCompleted(1, 2, ("c",)), 34.0)
    assert without_alarms(core.handle(WakeUp(), 70.0)) == []
    core.handle(NodeRemoved("d"), 71.0)  # the operator insists
    assert core.order(1) is not None
    core.check()


def test_what_leaves_is_not_reserved_and_is_replaced_where_it_was() -> None:
    core = make("fcfs")
    core.handle(ReservationMade(AdvanceReservation("r", 100.0, 200.0, 2)), 0.0)
    kept = core.advance()[0].nodes
    core.handle(NodeRemoved(kept[0]), 1.0)
    assert kept[0] not in core.advance()[0].nodes
    assert len(core.advance()[0].nodes) == 2
    run_one_at = core.handle(JobSubmitted(rigid(1, 1, 50.0)), 2.0)
    assert any(isinstance(effect, StartJob) for effect in run_one_at)
    core.check()


def test_of_several_that_left_one_comes_back() -> None:
    core = make("fcfs")
    core.handle_batch([NodeRemoved("b"), NodeRemoved("c"), NodeRemoved("d")], 0.0)
    core.handle(NodeUp("b"), 1.0)
    assert [row.name for row in core.snapshot().nodes] == ["a", "b"]
