"""The bag of UTS: the protocol, what it ships, and what it gives away."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from benchmarks.levelbag import Count, LevelBag, LevelQueue, gift_tasks, shares
from benchmarks.nqueens.bag import QueensBag
from benchmarks.uts.bag import UtsBag
from benchmarks.uts.problems import SAMPLES, bag_of
from benchmarks.uts.tree import Tree
from glb.testing import check_bag


def nodes(*bags: UtsBag) -> int:
    result = Count()
    for bag in bags:
        while bag.process(1000):
            pass
        bag.submit(result)
    return result.value


@pytest.mark.parametrize("depth", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("granularity", [1, 64, 5000])
def test_the_bag_keeps_the_protocol(depth: int, granularity: int) -> None:
    tree = Tree(depth)
    check_bag(lambda: UtsBag.of_tree(tree), Count, lambda r: r.value, tree.known_nodes(), granularity=granularity)


def test_work_counts_every_node_once_and_progresses_smoothly() -> None:
    bag = UtsBag.of_tree(Tree(9))
    steps = []
    while True:
        before = bag.work
        more = bag.process(1000)
        steps.append(bag.work - before)
        if not more:
            break
    assert bag.work == bag.count == Tree(9).known_nodes()
    assert min(steps[:-1]) >= 1000
    assert max(steps) < 1600


def test_a_budget_of_one_node_makes_progress() -> None:
    bag = UtsBag.of_tree(Tree(5))
    while bag.process(1):
        pass
    assert bag.count == 3987


def test_an_empty_bag_processes_nothing() -> None:
    bag = UtsBag(Tree(5))
    assert not bag.process(100)
    assert (bag.work, bag.count, len(bag)) == (0, 0, 0)
    assert bag.split(True) is None


def test_split_halves_the_work() -> None:
    bag = UtsBag.of_tree(Tree(10))
    bag.process(2000)
    part = bag.split(False)
    assert part is not None
    first, second = nodes(bag), nodes(part)
    assert first + second == Tree(10).known_nodes()
    assert 0.4 < second / (first + second) < 0.6


def test_split_gives_the_subtrees_nearest_to_the_root() -> None:
    bag = UtsBag.of_tree(Tree(12))
    bag.process(2000)
    top = int(bag.queue.occupied()[0])
    before = len(bag.queue.rows(top))
    part = bag.split(False)
    assert part is not None
    assert part.queue.occupied()[0] == top
    assert len(bag.queue.rows(top)) <= before


def test_small_subtrees_are_not_given_away() -> None:
    bag = UtsBag.of_tree(Tree(4))
    bag.process(1)
    assert not bag.is_empty()
    assert not bag.is_splittable()
    assert bag.split(False) is None


def test_slow_workers_give_small_subtrees_away() -> None:
    assert [gift_tasks(rate) for rate in (None, 1e7, 30_000, 5)] == [256, 256, 3, 1]
    bag = UtsBag.of_tree(Tree(4), gift_tasks(5))
    bag.process(1)
    part = bag.split(False)
    assert part is not None
    assert nodes(bag, part) == nodes(UtsBag.of_tree(Tree(4)))


@pytest.mark.parametrize("bag", [*(bag_of(SAMPLES[name], 3) for name in ("T1", "T3", "T4")), QueensBag.of_board(9, 3)])
def test_what_is_split_off_or_shipped_is_given_away_as_readily(bag: LevelBag[Any]) -> None:
    bag.process(1000)
    part = bag.split(False)
    assert part is not None
    shipped = pickle.loads(pickle.dumps(part))
    assert (bag.gift_tasks, part.gift_tasks, shipped.gift_tasks) == (3, 3, 3)


def test_the_partial_result_stays_at_a_split_and_moves_at_a_merge() -> None:
    bag = UtsBag.of_tree(Tree(8))
    bag.process(1000)
    counted = bag.count
    part = bag.split(True)
    assert part is not None
    assert (bag.count, part.count) == (counted, 0)
    part.merge(bag)
    assert (bag.count, part.count) == (0, counted)


def test_a_merged_crowd_is_searched_exactly() -> None:
    whole = UtsBag.of_tree(Tree(9))
    bags = [whole]
    for _ in range(200):
        bag = max(bags, key=len)
        bag.process(50)
        if (part := bag.split(False)) is not None:
            bags.append(part)
    crowd = UtsBag(Tree(9))
    for bag in bags:
        crowd.merge(bag)
    assert max(crowd.queue.entries) > 64
    assert nodes(crowd) == Tree(9).known_nodes()


def test_pickling_ships_live_entries_out_of_band() -> None:
    bag = UtsBag.of_tree(Tree(12))
    bag.process(5000)
    held = len(bag)
    buffers: list[pickle.PickleBuffer] = []
    message = pickle.dumps(bag, protocol=5, buffer_callback=buffers.append)
    assert len(message) < 500
    assert [len(buffer.raw()) for buffer in buffers] == [bag.nbytes] == [int(bag.queue.entries.sum()) * 9 * 4]
    read_only = [bytes(buffer.raw()) for buffer in buffers]
    copy = pickle.loads(message, buffers=read_only)
    assert (len(copy), copy.count, copy.work) == (held, bag.count, 0)
    assert nodes(copy) == nodes(bag) == Tree(12).known_nodes()


@pytest.mark.parametrize(("name", "value"), [("depth", -1), ("depth", 5000), ("seed", -3), ("branching", 0)])
def test_impossible_trees_are_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        Tree(**{"depth": 3, name: value})  # type: ignore[arg-type]  # none of them is the shape


@pytest.mark.parametrize("by_field", [False, True])
def test_the_queue_keeps_order_and_grows(by_field: bool) -> None:
    queue = LevelQueue(3, 2, 4, by_field=by_field)
    rows = np.arange(60, dtype=np.uint32).reshape(30, 2)
    queue.append(1, rows[:3])
    queue.append(2, rows[:1])
    queue.append(1, rows[3:])
    assert queue.rows(1).tolist() == rows.tolist()
    assert queue.occupied() == [2, 1]
    queue.drop_first(1, 28)
    assert queue.rows(1).tolist() == rows[28:].tolist()
    other = LevelQueue(3, 2, 4, by_field=not by_field)
    other.unpack(queue.packed())
    queue.extend(other)
    assert other.is_empty()
    assert queue.rows(1).tolist() == [*rows[28:].tolist(), *rows[28:].tolist()]
    assert queue.rows(2).tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("pending", "expected"),
    [
        ([8, 0, 0], [4, 0, 0]),
        ([3, 3, 3], [1, 3, 3]),
        ([1, 6, 1], [1, 1, 0]),
        ([1, 0, 4], [0, 0, 4]),
        ([1, 0, 0], [0, 0, 0]),
    ],
)
def test_shares_are_half_of_the_expected_work(pending: list[int], expected: list[int]) -> None:
    assert shares(pending, [16.0, 4.0, 1.0]) == expected
