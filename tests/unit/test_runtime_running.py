"""Who runs an activity: the io thread if it is quick and its answer need not wait, else a thread of the pool."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import pytest

from apgas.core import messages as m
from apgas.core.effects import RunActivity
from apgas.core.identity import Place
from apgas.core.membership import Membership
from apgas.core.place import PlaceCore
from apgas.runtime import driver
from apgas.runtime.context import Executor
from apgas.runtime.driver import Driver
from apgas.runtime.serialization import Calls
from apgas.transport.base import Transport


@pytest.fixture(autouse=True)
def every_call_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a machine that is busy with something else."""
    monkeypatch.setattr(driver, "INLINE_S", math.inf)


class Stub:
    """A transport, executor and core in one, which notes what becomes of an activity."""

    here = 0
    busy = False
    survives = False
    is_crowded = False

    def __init__(self) -> None:
        self.membership = Membership([m.PlaceInfo(0, "", 0, "node", 0)], 0)
        self.pooled: list[Callable[[], None]] = []
        self.answers: list[bool] = []
        self.loop = self
        self.driver = Driver(cast(PlaceCore, self), cast(Transport, self))
        self.driver.executor = cast(Executor, self)

    def in_thread(self) -> bool:
        return True

    def run_last(self, work: Callable[[], None]) -> None:
        work()

    def crowded(self, dst: int) -> bool:
        assert dst == 1
        return self.is_crowded

    def throttle(self, dst: int) -> None:
        assert dst == 1

    def submit(self, work: Callable[[], None]) -> None:
        self.pooled.append(work)

    def waiting(self) -> Any:
        raise AssertionError("nothing waits here")

    def may_begin(self, finish: m.FinishId) -> bool:
        return finish.home == 1

    def answered(self, dst: int, spawn: m.Spawn, payload: Any, *, ok: bool, error: bytes | None) -> list[Any]:
        assert (dst, spawn.call, error) == (1, 7, None)
        assert payload
        self.answers.append(ok)
        return []


def arrive(stub: Stub, fn: Callable[..., object]) -> None:
    payload, _ = Calls().pack(0, (fn, (), {}))
    stub.driver.interpret([RunActivity(1, m.Spawn(0, m.FinishId(1, 0), 7, True), payload)])


def drain(stub: Stub) -> int:
    """Let the pool work; returns how much there was."""
    count = len(stub.pooled)
    while stub.pooled:
        stub.pooled.pop()()
    return count


def test_a_function_is_run_by_the_pool_until_it_is_known_to_be_quick() -> None:
    stub = Stub()
    pooled = []
    for _ in range(5):
        arrive(stub, dir)
        pooled.append(drain(stub))
    assert pooled == [1, 1, 0, 0, 0]
    assert stub.answers == [True] * 5


acts: list[Callable[[], object]] = []


def act() -> None:
    if acts:
        acts.pop()()


def test_while_a_call_is_under_way_no_other_of_its_function_is_expected_to_be_quick() -> None:
    """Else each of them would become a thread of its own, were they slow for once."""
    stub = Stub()
    for _ in range(3):
        arrive(stub, act)
        drain(stub)
    acts.append(lambda: arrive(stub, act))  # as the thread that is the io thread meanwhile would do
    arrive(stub, act)
    assert drain(stub) == 1
    arrive(stub, act)
    assert drain(stub) == 0


def test_an_answer_that_has_to_wait_is_left_to_the_pool() -> None:
    stub = Stub()
    for _ in range(3):
        arrive(stub, dir)
        drain(stub)
    stub.is_crowded = True
    arrive(stub, dir)
    assert drain(stub) == 1
    stub.is_crowded = False
    arrive(stub, dir)
    assert drain(stub) == 0


def test_what_cannot_be_read_is_answered_all_the_same() -> None:
    stub = Stub()
    arrive(stub, Unreadable())
    assert drain(stub) == 1
    assert stub.answers == [False]


class Unreadable:
    """Cannot be unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Place, ("too", "many", "arguments"))

    def __call__(self) -> None:
        raise AssertionError("it cannot get here")
