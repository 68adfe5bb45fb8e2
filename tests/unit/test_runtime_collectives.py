"""Collectives take the places of one moment."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from support import PATIENCE_S

import apgas
from apgas import Future
from apgas.runtime.driver import Driver, current_driver
from apgas.testing.handlers import ReleaseNewest
from apgas.testing.job import Job

SHORT_S = 0.2
"""How long the change is given to come between, which it must not."""


def test_no_change_of_places_comes_between_the_calls_of_a_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    original = Driver.spawn

    def change(driver: Driver) -> None:
        with driver.lock:
            seen.append("change")

    def spawn(self: Driver, scope: Any, dst: apgas.Place, call: Any, **options: bool) -> Any:
        future = original(self, scope, dst, call, **options)
        seen.append(dst.id)
        if len(seen) == 1:
            thread = threading.Thread(target=change, args=(self,))
            thread.start()
            thread.join(SHORT_S)
        return future

    def main() -> list[int]:
        monkeypatch.setattr(Driver, "spawn", spawn)
        return [place.id for place in apgas.gather(apgas.here)]

    assert Job(main, places=3).run() == [0, 1, 2]
    assert seen[:3] == [1, 2, 0]  # the caller comes last: it may wait for the others as soon as it begins


def test_the_arguments_are_pickled_once() -> None:
    class Counted:
        times = 0

        def __reduce__(self) -> tuple[type[int], tuple[int]]:
            Counted.times += 1
            return int, (7,)

    def main() -> list[int]:
        counted: Any = Counted()
        return [int(value) for place, value in apgas.gather(abs_or_seven, counted).items() if place.id]

    assert Job(main, places=4).run() == [7, 7, 7]
    assert Counted.times == 1


def abs_or_seven(value: object) -> int:
    return value if isinstance(value, int) else 7


def test_the_activity_has_the_name_of_the_function() -> None:
    from apgas.runtime import context

    def name_of_this() -> str:
        assert current_driver() is not None
        return context.activity()

    names = set(Job(lambda: apgas.gather(name_of_this), places=2).run().values())
    assert len(names) == 1
    assert names.pop().endswith("name_of_this")


class Grown(ReleaseNewest):
    """Notices when the newcomers are there."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        self.event.set()


def answer_to(table: apgas.PlaceLocal[list[int]], to: apgas.GlobalRef[Future[list[int]]]) -> None:
    answer = table.get()
    with apgas.finish():
        apgas.at(to.place, lambda: to.get().set_result(answer))


def test_an_uncounted_activity_of_a_newcomer_gets_what_was_broadcast() -> None:
    def main() -> list[int]:
        table = apgas.broadcast([1, 2])
        handler = Grown()
        apgas.define_malleable_handler(handler)
        job.grow(1)
        assert handler.event.wait(PATIENCE_S)
        answer_of: Future[list[int]] = Future()
        apgas.uncounted(apgas.places()[-1], answer_to, table, apgas.GlobalRef(answer_of))
        return answer_of.result(PATIENCE_S)

    job = Job(main, places=2)
    assert job.run() == [1, 2]
