"""The MPI transport on a simulated MPI whose messages arrive when the test says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from support.transport_conformance import Recorder, pass_through

from apgas.errors import SlowPeerError
from apgas.transport import channel
from apgas.transport.auth import new_token
from apgas.transport.base import UnknownPeerError
from apgas.transport.communicators import Epoch
from apgas.transport.engine import LINGER_S
from apgas.transport.mpi import MpiTransport
from apgas.transport.tcp import TcpTransport

LARGE = bytes(range(256)) * 40


class FakeMpi:
    """Matches a send and a receive of one tag; what is held arrives after ``release`` only."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.posted: dict[tuple[object, int, bool], list[FakeRequest]] = {}
        self.sends = 0
        self.holds = False
        self.BYTE = "byte"
        self.Request = SimpleNamespace(Testsome=self.test_some)
        self.Get_error_string = str
        self.unending: list[Unending] = []
        self.Grequest = SimpleNamespace(Start=self.start)

    def start(self) -> Unending:
        self.unending.append(Unending())
        return self.unending[-1]

    def post(self, comm: object, tag: int, memory: Any, *, sending: bool) -> FakeRequest:
        request = FakeRequest(memory)
        with self.lock:
            self.sends += sending
            self.posted.setdefault((comm, tag, sending), []).append(request)
        self.match()
        return request

    def match(self) -> None:
        with self.lock:
            for (comm, tag, sending), sends in self.posted.items():
                receives = self.posted.get((comm, tag, False), [])
                if sending and not self.holds:
                    for send, receive in zip(sends, receives, strict=False):
                        if not send.done:
                            receive.memory[:] = bytes(send.memory)
                            send.done = receive.done = True

    def release(self) -> None:
        self.holds = False
        self.match()

    def test_some(self, requests: Sequence[Any], statuses: list[Any]) -> list[int]:
        return [index for index, request in enumerate(requests) if request.done]


class FakeRequest:
    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.done = False
        self.cancelled = False

    def Test(self) -> bool:
        return self.done

    def Cancel(self) -> None:
        self.cancelled = True

    def Free(self) -> None:
        pass


class Unending:
    """Counts how often MPI was let work by a look at it; ends when it is completed."""

    def __init__(self) -> None:
        self.looks = 0
        self.completed = self.waited = False

    def Test(self) -> bool:
        self.looks += 1
        return self.completed

    def Complete(self) -> None:
        self.completed = True

    def Wait(self) -> None:
        assert self.completed
        self.waited = True


class FakeComm:
    def __init__(self, mpi: FakeMpi) -> None:
        self.mpi = mpi

    def Issend(self, what: tuple[Any, object], rank: int, tag: int) -> FakeRequest:
        return self.mpi.post(self, tag, what[0], sending=True)

    def Irecv(self, what: tuple[Any, object], rank: int, tag: int) -> FakeRequest:
        return self.mpi.post(self, tag, what[0], sending=False)


class Pair:
    """Places 0 and 1, each with the communicator of epoch 0."""

    def __init__(self) -> None:
        self.mpi = FakeMpi()
        self.comm = FakeComm(self.mpi)
        token = new_token()
        lines = [TcpTransport(token) for _ in range(2)]
        self.transports = [MpiTransport(line, self.mpi, bulk_bytes=1000) for line in lines]
        self.recorders = [Recorder(), Recorder()]
        for place, transport in enumerate(self.transports):
            self.adopt(place, 0)
            transport.learn({0: self.transports[0].address, 1: self.transports[1].address})
            transport.start(place, self.recorders[place])

    def adopt(self, place: int, number: int) -> None:
        epoch = Epoch(number, self.comm, {0: 0, 1: 1})  # type: ignore[arg-type]  # a stand-in
        self.transports[place].communicators.adopt(epoch, self.comm)  # type: ignore[arg-type]  # a stand-in

    def send(self, head: bytes, *buffers: bytes) -> None:
        self.transports[0].send(1, head, buffers)

    def heads(self) -> list[bytes]:
        return self.recorders[1].heads(0)

    def arrive(self, count: int) -> list[bytes]:
        self.recorders[1].wait_frames(count)
        return self.heads()


@pytest.fixture
def new_pair() -> Iterator[Callable[[], Pair]]:
    pairs: list[Pair] = []

    def new() -> Pair:
        pairs.append(Pair())
        return pairs[-1]

    yield new
    for pair in pairs:
        pair.mpi.release()
        for transport in pair.transports:
            transport.close()


def test_small_frames_wait_behind_a_large_one(new_pair: Callable[[], Pair]) -> None:
    pair = new_pair()
    pair.mpi.holds = True
    for head, buffers in ((b"1", ()), (b"2", (b"x", LARGE, b"y")), (b"3", ()), (b"4", (LARGE,))):
        pair.send(head, *buffers)
    assert pair.arrive(1) == [b"1"]
    pair.mpi.release()
    assert pair.arrive(4) == [b"1", b"2", b"3", b"4"]
    assert [bytes(buffer) for buffer in pair.recorders[1].frames[1].buffers] == [b"x", LARGE, b"y"]
    assert pair.mpi.sends == 2


def test_a_frame_waits_for_a_communicator_that_is_not_there_yet(new_pair: Callable[[], Pair]) -> None:
    pair = new_pair()
    pair.adopt(0, 5)
    pair.send(b"early", LARGE)
    pair.send(b"behind")
    pair.transports[1].send(0, b"still on the old one", [LARGE])
    pair.recorders[0].wait_frames(1)
    assert pair.heads() == []
    pair.adopt(1, 5)
    assert pair.arrive(2) == [b"early", b"behind"]


def test_nothing_travels_by_mpi_to_or_from_a_place_that_spawns(new_pair: Callable[[], Pair]) -> None:
    pair = new_pair()
    with pair.transports[0].aside():
        pair.send(b"from", LARGE)
        pair.arrive(1)
        pair.transports[1].send(0, b"to", [LARGE])
        pair.recorders[0].wait_frames(1)
        assert pair.mpi.sends == 0
    pair.send(b"again", LARGE)
    assert pair.arrive(2) == [b"from", b"again"]
    pair.transports[1].send(0, b"again", [LARGE])
    pair.recorders[0].wait_frames(2)
    assert pair.mpi.sends == 2


def test_a_place_that_dies_within_a_frame_is_lost_after_what_came_before(new_pair: Callable[[], Pair]) -> None:
    pair = new_pair()
    pair.mpi.holds = True
    pair.send(b"whole")
    pair.send(b"in part", LARGE)
    pair.send(b"behind")
    pair.arrive(1)
    dying = pair.transports[0]._line  # its process dies: the line ends without a BYE
    dying.close()
    assert pair.recorders[1].wait_lost() == [0]
    assert pair.heads() == [b"whole"]
    pair.mpi.release()
    pass_through(pair.transports[1])
    assert pair.heads() == [b"whole"], "a frame after the loss"


def test_a_place_that_closes_ends_its_sends_first(new_pair: Callable[[], Pair]) -> None:
    pair = new_pair()
    pair.mpi.holds = True
    pair.send(b"large", LARGE)
    pair.send(b"last")
    closing = threading.Thread(target=pair.transports[0].close, args=(20.0,))
    closing.start()
    pair.transports[1].connect(0)
    pair.mpi.release()
    closing.join()
    assert pair.arrive(2) == [b"large", b"last"]
    assert pair.recorders[1].wait_lost() == [0]
    assert pair.recorders[1].log == ["frame 0", "frame 0", "lost 0"]


def test_a_frame_by_a_communicator_that_is_gone_costs_the_sender(new_pair: Callable[[], Pair]) -> None:
    pair = new_pair()
    for number in (1, 2):
        pair.adopt(1, number)
    pass_through(pair.transports[1])
    pair.send(b"late", LARGE)
    assert pair.recorders[1].wait_lost() == [0]
    assert "the communicator of epoch 0, which is gone" in pair.recorders[1].lost[0][1]
    with pytest.raises(UnknownPeerError):
        pair.transports[1].send(0, b"")


@pytest.fixture
def low_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MOST_QUEUED_BYTES", len(LARGE))
    monkeypatch.setattr(channel, "PATIENCE_S", 0.05)


@pytest.mark.usefixtures("low_bounds")
def test_a_slow_place_slows_its_senders(new_pair: Callable[[], Pair]) -> None:
    pair = new_pair()
    pair.mpi.holds = True
    pair.send(b"1", LARGE)
    pair.transports[0].throttle(1)
    pair.send(b"2", LARGE)
    with pytest.raises(SlowPeerError, match=f"{2 * len(LARGE)} bytes"):
        pair.transports[0].throttle(1)
    pair.mpi.release()
    pair.arrive(2)
    assert pair.transports[0]._wait_sent(0, 20.0)
    pair.transports[0].throttle(1)


@pytest.mark.usefixtures("low_bounds")
def test_a_place_that_takes_one_frame_after_the_other_is_waited_for(new_pair: Callable[[], Pair]) -> None:
    pair = new_pair()
    sender = pair.transports[0]
    pair.mpi.holds = True
    for head in (b"1", b"2"):
        pair.send(head, LARGE)
    run_out: list[int] = []

    def take(*_: object) -> bool:
        """Time runs out; three times, something was taken."""
        run_out.append(1)
        if len(run_out) <= 3:
            sender._taken[1] += 1
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sender._changed, "wait_for", take)
        with pytest.raises(SlowPeerError):
            sender.throttle(1)
    assert len(run_out) == 4
    pair.mpi.release()


def test_places_notified_of_a_spawn_are_notified_of_its_end(
    new_pair: Callable[[], Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = new_pair()
    notified: list[list[int]] = []
    monkeypatch.setattr(pair.transports[0], "_notify", lambda places, _words: notified.append(list(places)))
    with pair.transports[0].aside():
        epoch = Epoch(1, pair.comm, {0: 0, 2: 1})  # type: ignore[arg-type]  # a stand-in
        pair.transports[0].communicators.adopt(epoch, pair.comm)  # type: ignore[arg-type]  # a stand-in
    monkeypatch.undo()
    assert notified == [[0, 1], [0, 1]]


def test_communicators_are_used_until_the_one_after_the_next(new_pair: Callable[[], Pair]) -> None:
    pair = new_pair()
    pair.adopt(1, 1)
    pass_through(pair.transports[1])
    pair.send(b"by the one before", LARGE)
    assert pair.arrive(1) == [b"by the one before"]


def test_mpi_goes_on_at_those_whom_somebody_still_needs(new_pair: Callable[[], Pair]) -> None:
    pair = new_pair()
    leave = pair.transports[0].within([0, 1])
    looks = pair.mpi.unending[1]
    until_s = time.monotonic() + 2.5 * LINGER_S
    while time.monotonic() < until_s:
        before = looks.looks
        time.sleep(LINGER_S)
        assert looks.looks > before, "it has fallen asleep"
    leave()
    time.sleep(2 * LINGER_S)
    before = looks.looks
    time.sleep(LINGER_S / 2)
    assert looks.looks == before


def test_what_keeps_mpi_going_ends_with_the_transport(new_pair: Callable[[], Pair]) -> None:
    pair = new_pair()
    for transport in pair.transports:
        transport.close()
    assert all(unending.waited for unending in pair.mpi.unending)
