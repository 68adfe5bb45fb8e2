"""What a place does when what it stands on gives way: its io thread, its memory, places that come and go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest
from support import PATIENCE_S

import apgas
from apgas.core import messages as m
from apgas.core.place import PlaceCore
from apgas.core.resilient import ResilientPlaceCore
from apgas.runtime import serialization
from apgas.runtime.context import Scope
from apgas.runtime.driver import Driver, required_driver
from apgas.runtime.resizing import dismiss
from apgas.runtime.serialization import Calls, Carrying
from apgas.testing.job import Job, JobFailedError
from apgas.transport.base import Transport, UnknownPeerError

INFOS = [m.PlaceInfo(place, "127.0.0.1", 1000 + place, "n", place) for place in range(4)]


class FakeTransport:
    """Notes what is sent; knows the places that a test calls lost; connections end when a test says so."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Any]] = []
        self.lost: set[int] = set()
        self.gone: dict[int, Callable[[], None]] = {}
        self.posted: list[Callable[[], None]] = []
        self.connected: list[int] = []
        self.forgotten: list[int] = []
        self.error: Exception | None = None
        self.loop = self

    def start(self, place: int, receiver: object) -> None:
        pass

    def learn(self, peers: Mapping[int, tuple[str, int]]) -> None:
        pass

    def is_lost(self, place: int) -> bool:
        return place in self.lost

    def connect(self, place: int) -> None:
        if place in self.lost:
            raise UnknownPeerError(place, "was lost and is not known any more")
        self.connected.append(place)

    def throttle(self, dst: int) -> None:
        pass

    def send(self, dst: int, head: bytes, buffers: Sequence[Any] = (), *, soon: bool = False) -> None:
        if self.error is not None and dst != 0:
            raise self.error
        self.sent.append((dst, m.decode_frame(head)))

    def forget(self, place: int) -> None:
        self.forgotten.append(place)

    def on_gone(self, place: int, callback: Callable[[], None]) -> None:
        self.gone[place] = callback

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.posted.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """No timer fires while a test runs."""

    def run_posted(self) -> None:
        while self.posted:
            self.posted.pop(0)()

    def messages(self) -> list[Any]:
        return [message for _, message in self.sent]


def start(core: PlaceCore) -> tuple[Driver, FakeTransport]:
    transport = FakeTransport()
    driver = Driver(core, cast(Transport, transport))
    driver.start()
    return driver, transport


def test_a_place_that_hears_nothing_any_more_ends_the_job() -> None:
    def deafen() -> None:
        def fail() -> float | None:
            raise OverflowError("on purpose")

        required_driver().transport.loop._timers.seconds_left = fail  # type: ignore[method-assign]  # a stand-in

    def main() -> None:
        apgas.at(apgas.place(1), deafen)
        while True:
            apgas.at(apgas.place(1), abs, -1)

    job = Job(main, places=2, deadline_s=PATIENCE_S)
    with pytest.raises(JobFailedError, match=r"place 1 is out of order: OverflowError: on purpose"):
        job.run()


def test_what_is_counted_and_cannot_be_sent_ends_the_job() -> None:
    driver, transport = start(PlaceCore(1, INFOS[:3], 0))
    transport.error = MemoryError("no more")
    finish = driver.open_finish()
    for _ in range(2):
        with pytest.raises(MemoryError):
            driver.spawn(Scope(finish), driver.place(2), (abs, (1,), {}), to_caller=False)
    assert transport.sent == [(0, m.Lost(0, 1, "place 1 is out of order: MemoryError: no more"))]


def test_a_definition_counts_as_a_part_of_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    table = bytes(100_000)

    def reads() -> bytes:
        return table

    monkeypatch.setattr(serialization, "MOST_BYTES", 50_000)
    with pytest.raises(apgas.UsageError, match="at most 50000"):
        Calls().pack(1, (reads, (), {}))


@pytest.mark.parametrize("machine", [PlaceCore, ResilientPlaceCore])
def test_a_newcomer_that_is_lost_before_it_is_a_member_is_reported_as_a_member(machine: type[PlaceCore]) -> None:
    driver, transport = start(machine(2, INFOS[:3], 0))
    transport.lost.add(3)
    driver.on_lost(3, "it closed its connection")
    assert transport.sent == []
    driver.on_frame(0, m.encode(m.Members(1, (INFOS[3],), ())), [])
    transport.run_posted()
    assert driver.core.epoch == 1
    assert transport.sent == [(0, m.Lost(1, 3, "it was lost before it was a member"))]


def test_place_0_goes_on_without_a_newcomer_that_was_lost_before_it_was_a_member() -> None:
    driver, transport = start(ResilientPlaceCore(0, INFOS[:3], 0))
    transport.lost.add(3)
    driver.carry_out(driver.core.commit_grow((INFOS[3],)))
    transport.run_posted()
    assert (driver.core.epoch, 3 in driver.core.membership.dead) == (2, True)
    assert transport.messages()[-1] == m.Members(2, (), (), (3,))


@pytest.mark.parametrize(
    ("machine", "here", "to"),
    [(PlaceCore, 0, []), (PlaceCore, 2, [0]), (ResilientPlaceCore, 0, [1, 2, 3]), (ResilientPlaceCore, 2, [0])],
)
def test_the_first_places_are_noticed_if_they_die_before_a_word(
    machine: type[PlaceCore], here: int, to: list[int]
) -> None:
    """A place that goes on without others connects to them: one may die before it has connected itself."""
    assert start(machine(here, INFOS, 0))[1].connected == to


def test_what_a_leaver_has_sent_uncounted_is_taken_after_it_has_left() -> None:
    driver, transport = start(PlaceCore(2, INFOS[:3], 0))
    calls = Calls()

    def by_number() -> None:
        pass

    def packed() -> list[bytes]:
        payload, definition = calls.pack(2, (by_number, (), {}))
        calls.sent(2, definition)
        return [bytes(each) for each in payload]

    driver.on_frame(1, m.encode(m.Immediate(0)), [bytearray(each) for each in packed()])
    late = [bytearray(each) for each in packed()]
    driver.on_frame(0, m.encode(m.Leave(0, 5, (1,))), [])
    driver.on_frame(0, m.encode(m.Members(1, (), (1,))), [])
    transport.sent.clear()
    driver.on_frame(1, m.encode(m.Immediate(0)), late)
    assert transport.sent == []
    transport.gone[1]()
    driver.on_frame(1, m.encode(m.Immediate(0)), late)  # nothing is remembered once its connection has ended
    assert [type(message) for message in transport.messages()] == [m.Lost]


def test_a_home_frees_the_objects_of_newcomers_of_which_it_hears_after_they_have_let_go() -> None:
    driver, transport = start(PlaceCore(1, INFOS[:3], 0))
    handle = driver.counting.make()
    ref = handle.ref
    driver.objects.placed.add(ref)

    def let_go_of_all() -> list[int]:
        for _ in range(2):  # what it lets go of, and then the objects
            done = threading.Event()
            driver.counting._later(done.set)
            assert done.wait(PATIENCE_S)
        return [dst for dst, message in transport.sent if isinstance(message, m.Freed)]

    with driver.lock:
        driver.carry_out(driver.counting.send_ahead(2, Carrying([], (handle,))))
    driver.on_frame(2, m.encode(m.RefReport(1, 2, ref, {3: 1}, 1)), [])
    driver.on_frame(3, m.encode(m.RefReport(1, 3, ref, {}, 1)), [])
    del handle
    assert let_go_of_all() == []
    driver.on_frame(0, m.encode(m.Members(1, (INFOS[3],), ())), [])
    assert let_go_of_all() == [0, 2, 3]
    driver.counting.close()


def test_newcomers_that_died_before_they_could_be_sent_home_do_no_harm() -> None:
    driver, transport = start(PlaceCore(0, INFOS[:2], 0))
    transport.error = UnknownPeerError(2, "was lost and is not known any more")
    dismiss((INFOS[2], INFOS[3]), driver.transport)
    assert transport.forgotten == [2, 3]


def test_an_activity_for_which_there_is_no_thread_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    driver, _ = start(PlaceCore(0, INFOS[:2], 0))
    finish = driver.open_finish()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError):
        driver.spawn(Scope(finish), driver.here, (abs, (1,), {}), to_caller=False)
    monkeypatch.undo()
    assert driver.core.finishes.outstanding(finish) == {0: 1}, "the body alone is left"
