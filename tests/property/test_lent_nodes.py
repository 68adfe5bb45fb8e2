"""Nodes that can be taken back: no job has one that it cannot leave, under any policy and whatever happens."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from msgspec import structs
from support.scheduling import NODES, make, malleable, rigid, run_one

from scheduler_bridge import policies
from scheduler_bridge.core import SchedulerCore, Settings
from scheduler_bridge.core.events import (
    Effect,
    Event,
    GrowCompleted,
    JobEnded,
    JobInterrupted,
    JobStarted,
    JobSubmitted,
    KillJob,
    MalleableReady,
    NodeDrained,
    NodeLeft,
    NodeRemoved,
    NodesLost,
    NodeUp,
    ResizeFailed,
    SendOrder,
    ShrinkCompleted,
    StartJob,
    WakeUp,
)
from scheduler_bridge.model import JobSpec

LENT = ("x", "y", "z")


def resilient(job_id: int, nodes: int, least: int, most: int) -> JobSpec:
    return structs.replace(malleable(job_id, least, most), nodes=nodes, resilient=True)


def lent(core: SchedulerCore, *names: str, at_s: float) -> list[Effect]:
    return core.handle_batch([NodeUp(name, lent=True) for name in names], at_s)


def orders(effects: list[Effect]) -> list[tuple[str, tuple[str, ...]]]:
    return [(effect.kind, effect.nodes) for effect in effects if isinstance(effect, SendOrder)]


def test_they_are_given_to_jobs_that_can_leave_them_and_no_job_starts_there() -> None:
    core = make("malleable")
    run_one(core, rigid(1, 2), ready=False)
    run_one(core, malleable(2, 1, 4), ready=True)  # it survives no loss
    effects = lent(core, *LENT, at_s=10.0)
    assert all(set(nodes) <= set(NODES) for _, nodes in orders(effects))
    assert core.handle(JobSubmitted(rigid(3, 5)), 11.0)[0] != StartJob(3, ("d", *LENT))
    assert core.idle_lent == LENT
    assert core.room_for_lent == -3
    core.check()


def test_a_job_grows_onto_them_and_leaves_the_one_that_is_taken_back_at_once() -> None:
    core = make("fcfs", settings=Settings(cooldown_s=60.0, failure_backoff_s=60.0))
    run_one(core, resilient(1, 4, 1, 6), ready=True)
    (order,) = (effect for effect in lent(core, *LENT, at_s=10.0) if isinstance(effect, SendOrder))
    assert (order.kind, order.nodes) == ("grow", ("x", "y")), "it may have six nodes"
    # it is taken back while the job is growing: the order is withdrawn, and no pause follows
    assert orders(core.handle(NodeRemoved("x"), 11.0)) == []
    (shrink,) = core.handle(GrowCompleted(1, order.order, ("x", "y")), 12.0)
    assert isinstance(shrink, SendOrder)
    assert (shrink.kind, shrink.nodes) == ("shrink", ("x",))
    effects = core.handle(ShrinkCompleted(1, shrink.order, ("x",)), 13.0)
    assert NodeLeft("x") in effects
    assert "x" not in core.pool
    assert core.nodes_of(1) == (*NODES, "y")
    core.check()
    # with a pause after the resize, it takes the one that is idle
    assert orders(core.handle(WakeUp(), 80.0)) == [("grow", ("z",))]


def leaving_two() -> tuple[SchedulerCore, SendOrder]:
    """A job that has been ordered, at 12 s, to leave the nodes x and y that it was lent."""
    core = make("fcfs")
    run_one(core, resilient(1, 4, 1, 6), ready=True)
    (grow,) = (effect for effect in lent(core, "x", "y", at_s=10.0) if isinstance(effect, SendOrder))
    core.handle(GrowCompleted(1, grow.order, grow.nodes), 11.0)
    (shrink,) = core.handle_batch([NodeRemoved("x"), NodeRemoved("y")], 12.0)
    assert isinstance(shrink, SendOrder)
    return core, shrink


def test_a_shrink_whose_nodes_are_lost_keeps_no_others_away() -> None:
    """They die while they are being left: the job cannot carry the order out, and is not to blame."""
    core, shrink = leaving_two()
    core.handle(NodesLost(1, ("x", "y")), 13.0)
    core.handle(ResizeFailed(1, shrink.order, "preShrink named 0 places instead of 2"), 13.1)
    assert orders(lent(core, "z", at_s=14.0)) == [("grow", ("z",))]
    core.check()


def test_one_of_two_is_lost_and_the_other_is_left_at_once() -> None:
    core, shrink = leaving_two()
    core.handle(NodesLost(1, ("x",)), 13.0)
    (again,) = core.handle(ResizeFailed(1, shrink.order), 13.1)
    assert isinstance(again, SendOrder)
    assert (again.kind, again.nodes, again.count) == ("shrink", ("y",), 1)
    # it refuses this one without having lost anything since: all orders wait
    core.handle(ResizeFailed(1, again.order), 13.2)
    assert orders(lent(core, "z", at_s=14.0)) == []
    assert orders(core.handle(WakeUp(), 44.0)) == [("shrink", ("y",))]
    core.check()


def test_a_grow_that_is_withdrawn_for_a_node_that_is_taken_back_is_repeated_without_it() -> None:
    core = make("fcfs")
    run_one(core, resilient(1, 4, 1, 6), ready=True)
    (grow,) = (effect for effect in lent(core, "x", "y", at_s=10.0) if isinstance(effect, SendOrder))
    assert core.handle(NodeRemoved("x"), 11.0) == []
    effects = core.handle(ResizeFailed(1, grow.order, "refused: withdrawn"), 12.0)
    assert orders(effects) == [("grow", ("y",))]
    assert NodeLeft("x") in effects
    core.check()


def test_what_a_job_has_lost_of_them_leaves_the_cluster_and_one_that_returns_is_as_it_comes() -> None:
    core = make("fcfs")
    run_one(core, resilient(1, 4, 1, 6), ready=True)
    (order,) = (effect for effect in lent(core, "x", at_s=10.0) if isinstance(effect, SendOrder))
    core.handle(GrowCompleted(1, order.order, ("x",)), 11.0)
    assert NodeLeft("x") in core.handle(NodesLost(1, ("x",)), 12.0)
    assert core.pool.staying == len(NODES)
    core.handle(NodeUp("x"), 13.0)
    assert (core.pool.staying, core.lent) == (len(NODES) + 1, ())
    core.check()


def test_two_jobs_get_equally_many() -> None:
    core = make("fcfs")
    run_one(core, rigid(3, 2), ready=False)
    run_one(core, resilient(1, 2, 1, 8), ready=True)
    core.handle(JobEnded(3, "completed"), 0.0)
    run_one(core, resilient(2, 2, 1, 8), ready=True)
    assert sorted(len(nodes) for _, nodes in orders(lent(core, *LENT, "w", at_s=10.0))) == [2, 2]


@pytest.mark.parametrize("policy", ["malleable", "fcfs", "conservative", "mebf", "best-use", "sd-policy"])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_the_state_holds(policy: str, seed: int) -> None:
    chance = random.Random(seed)
    core = SchedulerCore(NODES, policies.get(policy), Settings(cooldown_s=3.0, failure_backoff_s=5.0))
    waiting: list[Event] = []
    now_s, job_id = 0.0, 0
    for _ in range(300):
        now_s += chance.random() * 3
        if waiting and chance.random() < 0.6:
            event = waiting.pop(chance.randrange(len(waiting)))
        else:
            job_id += 1
            event = something(core, chance, job_id)
        waiting += answers(core, chance, core.handle(event, now_s))
        core.check()
        for name in core.lent:
            for holder in core.pool.holders(name):
                assert core.nodes_of(holder)[0] not in core.lent


def something(core: SchedulerCore, chance: random.Random, job_id: int) -> Event:
    """What may happen at any time."""
    name = chance.choice(LENT)
    held = [job for node in NODES for job in core.pool.holders(node)]
    match chance.randrange(8):
        case 0:
            return NodeUp(name, lent=True)
        case 1 if name in core.pool:
            return NodeDrained(name) if chance.random() < 0.3 else NodeRemoved(name)
        case 2:
            return JobSubmitted(rigid(job_id, chance.randint(1, 4)))
        case 3 if held:
            return JobEnded(chance.choice(held), "completed")
        case 4 if name in core.pool and core.pool.holders(name):
            holder = core.pool.holders(name)[0]
            order = core.order(holder)
            arrives = order is not None and order.kind == "grow" and name in order.nodes
            return WakeUp() if arrives else NodesLost(holder, (name,))
        case 5:
            return WakeUp()
        case 6 if held:
            return JobInterrupted(chance.choice(held), "place 0 was lost")
        case _:
            return JobSubmitted(resilient(job_id, chance.randint(1, 3), 1, chance.randint(3, 8)))


def answers(core: SchedulerCore, chance: random.Random, effects: list[Effect]) -> Iterator[Event]:
    """What follows from effects, sooner or later."""
    for effect in effects:
        match effect:
            case StartJob(job_id=job_id):
                yield from (JobStarted(job_id), MalleableReady(job_id))
            case KillJob(job_id=job_id):
                yield JobEnded(job_id, "failed")
            case SendOrder(job_id=job_id, order=order) if chance.random() < 0.2:
                yield ResizeFailed(job_id, order)
            case SendOrder(job_id=job_id, order=order, kind="grow", nodes=nodes):
                yield GrowCompleted(job_id, order, nodes)
            case SendOrder(job_id=job_id, order=order, kind="shrink", nodes=nodes):
                yield ShrinkCompleted(job_id, order, nodes)
            case _:
                pass
