"""The invariants and the node pool notice what is wrong: each is broken once, on purpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler_bridge import policies
from scheduler_bridge.core import InvariantError, SchedulerCore, invariants
from scheduler_bridge.core.events import JobStarted, JobSubmitted, MalleableReady, WakeUp
from scheduler_bridge.core.nodes import NodePool
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.model import Allocation, JobSpec


def busy_core() -> SchedulerCore:
    """Job 1 (malleable) shrinks from four nodes to two for job 2, which waits."""
    core = SchedulerCore(("a", "b", "c", "d"), policies.get("malleable"))
    core.handle(JobSubmitted(JobSpec(1, "m", "u", "malleable", 1, 1, 4, 100.0, 0.0)), 0.0)
    core.handle_batch([JobStarted(1), MalleableReady(1)], 0.0)
    core.handle(JobSubmitted(JobSpec(2, "r", "u", "rigid", 2, 2, 2, 100.0, 0.0)), 0.0)
    core.check()
    return core


def lose_a_node(state: SchedulerState) -> None:
    state.jobs[1].allocation = Allocation((0b0111,))


def reuse_a_shrinking_node(state: SchedulerState) -> None:
    state.jobs[2].allocation = Allocation((0b1100,))
    state.active[2] = state.queue.pop(2)


def forget_a_waiting_job(state: SchedulerState) -> None:
    del state.queue[2]


def start_twice(state: SchedulerState) -> None:
    state.jobs[1].starts = 2


def shrink_below_the_minimum(state: SchedulerState) -> None:
    order = state.jobs[1].order
    assert order is not None
    state.jobs[1].order = replace(order, count=4)


def forget_the_order(state: SchedulerState) -> None:
    state.jobs[1].order = None


def give_a_node_to_a_stranger(state: SchedulerState) -> None:
    state.pool.holdings = {1: 0b1110, 2: 0b0001}


@pytest.mark.parametrize(
    "defect",
    [
        lose_a_node,
        reuse_a_shrinking_node,
        forget_a_waiting_job,
        start_twice,
        shrink_below_the_minimum,
        forget_the_order,
        give_a_node_to_a_stranger,
    ],
)
def test_a_defect_is_noticed_by_both_checks(defect: Callable[[SchedulerState], None]) -> None:
    core = busy_core()
    defect(core._state)
    with pytest.raises(InvariantError, match="job"):
        core.check()
    core._state.touched.update(core._state.jobs)
    with pytest.raises(InvariantError, match="job"):
        invariants.check_touched(core._state)


def test_the_quick_check_runs_after_every_batch() -> None:
    core = busy_core()
    core._state.pool.held = 3
    with pytest.raises(InvariantError, match="jobs hold 4 nodes, the pool says 3"):
        core.handle(WakeUp(), 1.0)


@pytest.mark.parametrize(
    ("defect", "story"),
    [
        ({"all_free_ranks": 0b0001}, "a free node is held or down"),
        ({"down_ranks": 0b0001}, "1 and 0 nodes are down"),
        ({"lent": 0b0001}, "1 and 0 nodes are down or lent"),
        ({"holdings": {1: 0b0111}, "held": 3}, "a node is nowhere"),
        ({"holdings": {1: 0b1111, 2: 0b0001}}, "a node is held by two jobs"),
        ({"_free_count": 1}, "0 and 1 nodes are free"),
    ],
)
def test_the_pool_notices_what_is_wrong_between_its_sets(defect: dict[str, object], story: str) -> None:
    core = busy_core()
    for name, value in defect.items():
        setattr(core._state.pool, name, value)
    assert story in core._state.pool.check()


def taken(pool: NodePool, job_id: int, count: int) -> tuple[str, ...]:
    return pool.name(Allocation((pool.take(job_id, count),)))


def ranks(pool: NodePool, *nodes: str) -> int:
    found = pool.rank(nodes)
    assert found is not None
    return found


def test_the_pool_hands_out_the_first_free_nodes() -> None:
    pool = NodePool(("a", "b", "c", "d"))
    assert taken(pool, 1, 3) == ("a", "b", "c")
    pool.release(1, ranks(pool, "b"))
    pool.release(1, ranks(pool, "a"))
    assert taken(pool, 2, 3) == ("a", "b", "d")
    assert (pool.free, pool.held, pool.in_service) == (0, 4, 4)


def test_a_node_that_fails_while_held_is_out_of_service_until_it_is_back() -> None:
    pool = NodePool(("a", "b"))
    pool.take(1, 1)
    pool.fail("a")
    assert pool.holders("a") == [1]
    assert pool.state("a") == "draining"
    pool.release(1, ranks(pool, "a"))
    assert pool.state("a") == "down"
    assert taken(pool, 2, 1) == ("b",)
    with pytest.raises(RuntimeError, match="is to get 1 nodes, 0 are free"):
        pool.take(3, 1)
    pool.restore("a")
    assert taken(pool, 3, 1) == ("a",)


def test_failing_and_coming_back_repeatedly_does_not_double_a_node() -> None:
    pool = NodePool(("a", "b"))
    for _ in range(3):
        pool.fail("a")
        pool.restore("a")
    assert taken(pool, 1, 2) == ("a", "b")
    assert pool.free == 0


def test_the_pool_takes_nodes_back_only_from_their_holder() -> None:
    pool = NodePool(("a",))
    pool.take(1, 1)
    with pytest.raises(RuntimeError, match="job 2 gives back 'a', which job 1 holds"):
        pool.release(2, ranks(pool, "a"))
