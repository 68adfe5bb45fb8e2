"""The bag of N-Queens: the protocol, what it ships, and what it gives away."""

from __future__ import annotations

import pickle

import pytest

from benchmarks.harness.errors import BadUsage
from benchmarks.levelbag import Count
from benchmarks.nqueens.bag import QueensBag, known_solutions
from benchmarks.nqueens.command import command, solution_count
from glb.testing import check_bag


def solutions(*bags: QueensBag) -> int:
    result = Count()
    for bag in bags:
        while bag.process(1000):
            pass
        bag.submit(result)
    return solution_count(result)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 11])
@pytest.mark.parametrize("granularity", [1, 64])
def test_the_bag_keeps_the_protocol(size: int, granularity: int) -> None:
    check_bag(lambda: QueensBag.of_board(size), Count, solution_count, known_solutions(size), granularity=granularity)


def test_split_halves_the_work() -> None:
    bag = QueensBag.of_board(14)
    bag.process(20000)
    part = bag.split(False)
    assert part is not None
    assert solutions(bag, part) == known_solutions(14)
    assert 0.37 < part.work / (part.work + bag.work) < 0.63


def test_split_divides_the_columns_of_one_placement() -> None:
    bag = QueensBag.of_board(12)
    row = bag.queue.rows(11)[0].copy()
    free = int(row[3])
    part = QueensBag._divide(row, 3)
    assert (int(part[3]).bit_count(), int(row[3]).bit_count()) == (3, free.bit_count() - 3)
    assert part[3] ^ row[3] == free
    assert part[:3].tolist() == row[:3].tolist()


def test_work_progresses_smoothly() -> None:
    bag = QueensBag.of_board(11)
    steps = []
    while True:
        before = bag.work
        more = bag.process(1000)
        steps.append(bag.work - before)
        if not more:
            break
    assert sum(steps) == 33409
    assert min(steps[:-1]) >= 1000
    assert max(steps) < 1016


def test_a_merged_crowd_is_searched_exactly() -> None:
    bag = QueensBag.of_board(12)
    bag.process(5000)
    message = pickle.dumps(bag)
    crowd = QueensBag(12)
    for _ in range(10):
        crowd.merge(pickle.loads(message))
    assert max(crowd.queue.entries) > 64
    assert solutions(crowd) == 10 * 14200


def test_pickling_ships_live_entries_out_of_band() -> None:
    bag = QueensBag.of_board(12)
    bag.process(5000)
    held = len(bag)
    buffers: list[pickle.PickleBuffer] = []
    message = pickle.dumps(bag, protocol=5, buffer_callback=buffers.append)
    assert len(message) < 500
    assert [len(buffer.raw()) for buffer in buffers] == [int(bag.queue.entries.sum()) * 5 * 4]
    copy = pickle.loads(message, buffers=[bytes(buffer.raw()) for buffer in buffers])
    assert (len(copy), copy.count, copy.work) == (held, bag.count, 0)
    assert solutions(copy) == solutions(bag) == known_solutions(12)


@pytest.mark.parametrize("size", [0, -4, 26])
def test_impossible_boards_are_named(size: int) -> None:
    with pytest.raises(BadUsage) as caught:
        command(size)
    assert caught.value.culprit == f"-n {size}"
    with pytest.raises(ValueError, match=f"{size} rows"):
        QueensBag.of_board(size)


def test_the_benchmark_describes_the_board() -> None:
    benchmark = command(9)
    assert benchmark.parameters["n"] == 9
    assert benchmark.known() == benchmark.expected() == 352
    pickle.loads(pickle.dumps(benchmark.warm_up))()
