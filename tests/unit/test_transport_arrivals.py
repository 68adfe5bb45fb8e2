from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from apgas.transport.communicators import Epoch
from apgas.transport.engine import Transfer
from apgas.transport.mpi import Announcement, Arrivals, Part, announce


class Setup:
    """Arrivals of an MPI whose transfers end when the test says so; place 1 and 2 have that rank in epoch 0."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.lost: list[str] = []
        self.transfers: list[Transfer] = []
        self.given_up: list[Transfer] = []
        loop: Any = SimpleNamespace(in_thread=lambda: True)
        engine: Any = SimpleNamespace(submit=self.transfers.append, give_up=self.given_up.append)
        self.arrivals = Arrivals(loop, engine, None, self.deliver, lambda place, why: self.lost.append(why))

    def deliver(self, src: int, head: bytes | memoryview, buffers: Sequence[bytearray | memoryview]) -> None:
        self.done.append(bytes(head).decode())

    def note(self, place: int, text: str, *, always: bool = False) -> None:
        self.arrivals.take(place, partial(self.done.append, text), always=always)

    def expect(self, place: int, text: str) -> None:
        head = announce(Announcement(0, 0, (Part(0, 3),)), text.encode())
        self.arrivals.expect(place, head, [])

    def install(self) -> None:
        comm: Any = None
        self.arrivals.installed(Epoch(0, comm, {1: 1, 2: 2}))


@pytest.fixture
def setup() -> Setup:
    made = Setup()
    made.install()
    return made


def test_what_is_complete_waits_for_what_came_before(setup: Setup) -> None:
    setup.note(1, "a")
    setup.expect(1, "b")
    setup.note(1, "c")
    setup.expect(1, "d")
    setup.note(1, "e")
    first, second = setup.transfers
    assert setup.done == ["a"]
    second.end("")
    assert setup.done == ["a"]
    first.end("")
    assert setup.done == ["a", "b", "c", "d", "e"]
    assert setup.arrivals.waiting == {}


def test_places_do_not_wait_for_each_other(setup: Setup) -> None:
    setup.expect(1, "late")
    setup.note(2, "other")
    assert setup.done == ["other"]


def test_a_frame_keeps_its_turn_until_its_communicator_is_there() -> None:
    setup = Setup()
    setup.expect(1, "a")
    setup.note(1, "b")
    assert setup.transfers == []
    setup.install()
    setup.transfers[0].end("")
    assert setup.done == ["a", "b"]


def test_what_was_dropped_is_never_done(setup: Setup) -> None:
    setup.expect(1, "a")
    setup.note(1, "b")
    setup.arrivals.drop(1)
    setup.note(1, "the end")
    assert setup.given_up == setup.transfers
    setup.transfers[0].end("")
    assert setup.done == ["the end"]


def test_what_was_dropped_before_its_communicator_was_there_is_not_received() -> None:
    setup = Setup()
    setup.expect(1, "a")
    setup.arrivals.drop(1)
    setup.install()
    assert (setup.transfers, setup.given_up) == ([], [])


def test_what_is_to_be_done_always_is_not_dropped(setup: Setup) -> None:
    setup.expect(1, "a")
    setup.note(1, "lost", always=True)
    setup.note(1, "b")
    setup.note(1, "gone", always=True)
    assert setup.done == []
    setup.arrivals.drop(1)
    assert setup.done == ["lost", "gone"]


def test_a_place_whose_frame_cannot_be_received_is_lost(setup: Setup) -> None:
    setup.expect(1, "a")
    setup.transfers[0].end("no route")
    assert (setup.done, setup.lost) == ([], ["cannot receive by MPI: no route"])


def test_an_error_costs_what_failed_alone(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    setup.expect(1, "a")
    setup.arrivals.take(1, lambda: setup.done.append(str(1 // 0)))
    setup.note(1, "b")
    setup.transfers[0].end("")
    assert setup.done == ["a", "b"]
    assert "could not be taken" in caplog.text
