from __future__ import annotations

from functools import partial

import pytest

from apgas.transport.mpi import Arrivals


def test_what_is_complete_waits_for_what_came_before() -> None:
    arrivals, done = Arrivals(), list[str]()
    arrivals.take(1, partial(done.append, "a"))
    first = arrivals.expect(1, partial(done.append, "b"))
    arrivals.take(1, partial(done.append, "c"))
    second = arrivals.expect(1, partial(done.append, "d"))
    arrivals.take(1, partial(done.append, "e"))
    assert done == ["a"]
    arrivals.completed(1, second)
    assert done == ["a"]
    arrivals.completed(1, first)
    assert done == ["a", "b", "c", "d", "e"]
    assert arrivals.waiting == {}


def test_places_do_not_wait_for_each_other() -> None:
    arrivals, done = Arrivals(), list[str]()
    arrivals.expect(1, partial(done.append, "late"))
    arrivals.take(2, partial(done.append, "other"))
    assert done == ["other"]


def test_what_was_dropped_is_never_done() -> None:
    arrivals, done = Arrivals(), list[str]()
    first = arrivals.expect(1, partial(done.append, "a"))
    arrivals.take(1, partial(done.append, "b"))
    arrivals.drop(1)
    arrivals.take(1, partial(done.append, "the end"))
    arrivals.completed(1, first)
    assert done == ["the end"]


def test_what_is_to_be_done_always_is_not_dropped() -> None:
    arrivals, done = Arrivals(), list[str]()
    arrivals.expect(1, partial(done.append, "a"))
    arrivals.take(1, partial(done.append, "lost"), always=True)
    arrivals.take(1, partial(done.append, "b"))
    arrivals.take(1, partial(done.append, "gone"), always=True)
    assert done == []
    arrivals.drop(1)
    assert done == ["lost", "gone"]


def test_an_error_costs_what_failed_alone(caplog: pytest.LogCaptureFixture) -> None:
    arrivals, done = Arrivals(), list[str]()
    first = arrivals.expect(1, lambda: done.append(str(1 // 0)))
    arrivals.take(1, partial(done.append, "b"))
    arrivals.completed(1, first)
    assert done == ["b"]
    assert "could not be taken" in caplog.text
