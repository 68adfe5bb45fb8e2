"""What simulated places have of their own: what travels between them, variables, threads."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from support import PATIENCE_S

import apgas
from apgas import async_, at, here, place, places
from apgas.testing.handlers import ReleaseNewest
from apgas.testing.pytest_plugin import MakeJob


def append(items: list[int]) -> list[int]:
    items.append(here().id)
    return items


def test_what_travels_is_copied(apgas_job: MakeJob) -> None:
    def main() -> tuple[list[int], list[int], list[int]]:
        mine: list[int] = []
        there = at(place(1), append, mine)
        return list(mine), there, async_(append, mine).result()

    assert apgas_job(main).run() == ([], [1], [0])


def spoil(array: np.ndarray) -> None:
    array[:] = 7


def test_large_arrays_are_copied_too(apgas_job: MakeJob) -> None:
    """They travel beside the pickle."""

    def main() -> None:
        mine = np.zeros(10_000)
        at(place(1), spoil, mine)
        assert not mine.any()

    apgas_job(main).run()


def test_what_cannot_be_pickled_does_not_travel(apgas_job: MakeJob) -> None:
    def main() -> None:
        at(place(1), print, threading.Lock())

    with pytest.raises(TypeError, match="cannot send"):
        apgas_job(main).run()


def number(ids: apgas.PlaceLocal[list[int]]) -> list[int]:
    return append(ids.get())


def home_of(ref: apgas.GlobalRef[str]) -> str:
    apgas.GlobalRef("an object here with the same number")
    return ref.get()


def test_references_are_those_of_their_places(apgas_job: MakeJob) -> None:
    def main() -> None:
        ids: apgas.PlaceLocal[list[int]] = apgas.PlaceLocal(list)
        assert [at(where, number, ids) for where in places()] == [[0], [1], [2]]
        assert at(place(1), number, ids) == [1, 1]
        ref = apgas.GlobalRef("of place 0")
        assert ref.get() == "of place 0"
        with pytest.raises(apgas.UsageError, match="use at"):
            at(place(1), home_of, ref)

    apgas_job(main).run()


state: apgas.PlaceState[list[int]] = apgas.PlaceState(list)


def remember() -> list[int]:
    return append(state.get())


def test_variables_of_modules_can_be_those_of_places(apgas_job: MakeJob) -> None:
    def main() -> list[list[int]]:
        return [at(where, remember) for where in (*places(), place(1))]

    assert apgas_job(main).run() == [[0], [1], [2], [1, 1]]
    assert apgas_job(main).run() == [[0], [1], [2], [1, 1]]
    with pytest.raises(apgas.UsageError, match=r"inside of apgas\.run only"):
        state.get()
    with pytest.raises(TypeError, match="a PlaceState does not travel"):
        apgas_job(lambda: at(place(1), len, state)).run()  # type: ignore[arg-type]  # wrong on purpose


def nothing_special() -> None:
    pass


def test_the_timeline_shows_each_place(apgas_job: MakeJob, tmp_path: Path) -> None:
    def main() -> None:
        apgas.trace(tmp_path / "trace.json")
        at(place(1), nothing_special)
        apgas.define_malleable_handler(ReleaseNewest())
        job.grow(1).wait()
        at(place(2), nothing_special)

    job = apgas_job(main, places=2)
    job.run()
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events if event["name"] == "nothing_special"} == {1, 2}
    assert [event["pid"] for event in events if event["name"] == "grow 1: done"] == [0]


def where_threads_are() -> list[int]:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(here().id)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    return found


def test_a_thread_belongs_to_the_place_that_started_it(apgas_job: MakeJob) -> None:
    def main() -> list[list[int]]:
        return [at(where, where_threads_are) for where in places()]

    assert apgas_job(main).run() == [[0, 0], [1, 1], [2, 2]]
