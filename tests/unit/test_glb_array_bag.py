"""``ArrayBag`` keeps the rules of a bag, whatever its kernel and its way of folding."""

from __future__ import annotations

import pickle
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import pytest

import glb
from glb.array_bag import Folding
from glb.errors import BagError
from glb.testing import check_bag

LIMIT = 900


class Divisions(glb.ArrayBag):
    """A task is an interval; it is halved until it has one number, which is added up or compared."""

    room = 4

    def __init__(self, end: int) -> None:
        super().__init__(np.array([[0, end]], np.int64), np.zeros(2, np.int64))

    def kernel(self, stack: Any, count: int, n: int) -> tuple[int, int]:
        done = 0
        while count and done < n and count < len(stack):
            low, high = stack[count - 1]
            middle = (low + high) // 2
            if middle == low:
                count -= 1
                self.found(int(low))
            else:
                stack[count - 1] = low, middle
                stack[count] = middle, high
                count += 1
            done += 1
        return count, done

    def found(self, number: int) -> None:
        self.total += (1, number)


class Greatest(Divisions):
    folding: ClassVar[Folding] = "maximum"

    def found(self, number: int) -> None:
        np.maximum(self.total, (number, number * 7 % LIMIT), out=self.total)


class Structs(glb.ArrayBag):
    """Tasks of a structured type, each of which counts down."""

    def __init__(self) -> None:
        kind = np.dtype([("left", np.int32), ("weight", np.float64)])
        super().__init__(np.array([(i, i / 2) for i in range(30)], kind), np.array(0.0))

    def kernel(self, stack: Any, count: int, n: int) -> tuple[int, int]:
        task = stack[count - 1]
        self.total += task["weight"]
        task["left"] -= 1
        return count - (task["left"] < 0), 1


def value(result: glb.ArrayResult) -> object:
    assert result.values is not None
    return result.values.tolist()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Divisions(LIMIT), [LIMIT, LIMIT * (LIMIT - 1) // 2]),
        (lambda: Greatest(LIMIT), [LIMIT - 1, LIMIT - 1]),
        (Structs, sum((i + 1) * i / 2 for i in range(30))),
    ],
)
def test_bags_of_arrays_keep_the_rules(make: Any, expected: object) -> None:
    check_bag(make, glb.ArrayResult, value, expected=expected)


def test_the_oldest_tasks_are_given_away_and_come_back_below() -> None:
    bag = Divisions(64)
    bag.process(4)
    assert bag.tasks.tolist() == [[0, 32], [32, 48], [48, 56], [56, 60], [60, 64]]
    given = bag.split(False)
    assert given is not None
    assert given.tasks.tolist() == [[0, 32], [32, 48]]
    bag.merge(given)
    assert bag.tasks.tolist() == [[0, 32], [32, 48], [48, 56], [56, 60], [60, 64]]
    assert bag.nbytes == 5 * 16


def test_a_bound_travels_with_what_is_split_off_and_a_sum_does_not() -> None:
    for make, there in ((Greatest, True), (Divisions, False)):
        bag = make(64)
        bag.process(200)
        assert not bag.tasks.size
        again = make(64)
        again.merge(bag)
        again.process(3)
        given = again.split(False)
        assert given is not None
        assert given.total.any() == there
        assert again.total.any()


def test_tasks_travel_beside_the_pickle_and_without_the_free_rows() -> None:
    bag = Divisions(1 << 40)
    bag.process(30)
    buffers: list[pickle.PickleBuffer] = []
    packed = pickle.dumps(bag, protocol=5, buffer_callback=buffers.append)
    assert bag.nbytes in [len(buffer.raw()) for buffer in buffers]
    before = bag.tasks.tolist()
    bag.process(10)  # what is under way does not change
    arrived = pickle.loads(packed, buffers=[bytes(buffer.raw()) for buffer in buffers])
    assert arrived.tasks.tolist() == before
    assert arrived.work == 0
    assert arrived.process(1000)  # although what arrives in bytes is read-only


@pytest.mark.parametrize(("count", "done"), [(-1, 1), (10**6, 1), (0, 0)])
def test_a_kernel_that_returns_nonsense_is_named(count: int, done: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Divisions, "kernel", lambda *_: (count, done))
    with pytest.raises(BagError, match=f"kernel of Divisions says that it did {done} tasks and left {count} in 6 rows"):
        Divisions(5).process(1)


def test_what_is_no_array_of_numbers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for end in ("words", None):
        with pytest.raises(BagError, match="tasks is"):
            Divisions.__base__.__init__(Divisions(2), [[end]], np.zeros(1))  # type: ignore[misc]
    monkeypatch.setattr(Divisions, "room", 0)
    with pytest.raises(BagError, match="Divisions has room 0"):
        Divisions(2)


@pytest.mark.parametrize(("depth", "nodes"), [(4, 944), (8, 257042)])
def test_the_compiled_bag_of_the_guide_keeps_the_rules(depth: int, nodes: int) -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    uts = import_module("uts_bag")
    check_bag(lambda: uts.Tree(depth), glb.ArrayResult, value, expected=[nodes], granularity=1 << depth)
