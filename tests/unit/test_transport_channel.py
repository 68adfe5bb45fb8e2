from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest
from support import PATIENCE_S

from apgas.errors import SlowPeerError
from apgas.transport import channel
from apgas.transport.base import UnknownPeerError
from apgas.transport.channel import Channel
from apgas.transport.loop import EventLoop

HIGH_WATER_BYTES = 100_000


class Setup:
    """A channel into a socket that is not read before the test does."""

    def __init__(self) -> None:
        self.loop = EventLoop("test-io")
        self.loop.start()
        self.broken: list[str] = []
        self.drained = threading.Event()
        self.broke = threading.Event()
        self.channel = Channel(7, self.loop, on_broken=self.on_broken, on_drained=self.drained.set)
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)

    def on_broken(self, reason: str) -> None:
        self.broken.append(reason)
        self.channel.close()
        self.broke.set()

    def attach(self) -> None:
        attached = threading.Event()
        self.loop.call_soon(lambda: self.channel.attach(self.ours))
        self.loop.call_soon(attached.set)
        assert attached.wait(PATIENCE_S)

    def read(self, size: int) -> bytes:
        self.theirs.settimeout(PATIENCE_S)
        data = bytearray()
        while len(data) < size:
            data += self.theirs.recv(size - len(data))
        return bytes(data)


@pytest.fixture
def setup(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    monkeypatch.setattr(channel, "MOST_QUEUED_BYTES", HIGH_WATER_BYTES)
    monkeypatch.setattr(channel, "PATIENCE_S", getattr(request, "param", PATIENCE_S))
    made = Setup()
    yield made
    made.loop.call_soon(made.channel.close)
    made.loop.stop()
    made.ours.close()
    made.theirs.close()


def test_what_comes_before_the_socket_waits_for_it(setup: Setup) -> None:
    setup.channel.submit([b"one", b"two"])
    assert setup.channel._queue
    setup.attach()
    setup.channel.submit([b"three"])
    assert setup.read(11) == b"onetwothree"


def test_many_pieces_are_more_than_one_call(setup: Setup) -> None:
    setup.attach()
    setup.channel.submit([b"%04d" % number for number in range(2000)])
    assert setup.read(8000) == b"".join(b"%04d" % number for number in range(2000))


def test_senders_wait_above_the_mark_until_the_peer_reads(setup: Setup) -> None:
    setup.channel.submit([bytes(HIGH_WATER_BYTES + 1)])
    sent = threading.Event()

    def send() -> None:
        setup.channel.throttle()
        setup.channel.submit([b"end"])
        sent.set()

    sender = threading.Thread(target=send)
    sender.start()
    sender.join(0.05)
    assert not sent.is_set()
    setup.attach()
    assert setup.read(HIGH_WATER_BYTES + 4)[-3:] == b"end"
    sender.join(PATIENCE_S)
    assert sent.is_set()


@pytest.mark.parametrize("setup", [0.01], indirect=True)
def test_senders_do_not_wait_forever_and_the_io_thread_not_at_all(setup: Setup) -> None:
    setup.channel.submit([bytes(HIGH_WATER_BYTES + 1)])
    with pytest.raises(SlowPeerError, match=f"place 7 left {HIGH_WATER_BYTES + 1} bytes"):
        setup.channel.throttle()
    done = threading.Event()
    setup.loop.call_soon(setup.channel.throttle)
    setup.loop.call_soon(lambda: setup.channel.submit([b"end"]))
    setup.loop.call_soon(done.set)
    assert done.wait(PATIENCE_S)
    setup.attach()
    assert setup.read(HIGH_WATER_BYTES + 4)[-3:] == b"end"


def test_a_place_that_takes_a_little_now_and_then_is_waited_for(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time runs out again and again; the sender gives up only once nothing was taken meanwhile."""
    size = 4_000_000
    setup.attach()
    goes_on = pause_io(setup)
    setup.channel.submit([bytes(size)])
    taken = 0

    def run_out(_seconds: float) -> bool:
        nonlocal taken
        if taken < size // 2:
            taken += len(setup.read(100_000))
            setup.channel._flush()
        return False

    monkeypatch.setattr(setup.channel._shrunk, "wait", run_out)
    with pytest.raises(SlowPeerError):
        setup.channel.throttle()
    assert taken >= size // 2
    goes_on.set()
    assert len(setup.read(size - taken)) == size - taken


def test_waiting_senders_learn_of_the_end(setup: Setup) -> None:
    setup.channel.submit([bytes(HIGH_WATER_BYTES + 1)])
    errors: list[BaseException] = []

    def send() -> None:
        try:
            setup.channel.throttle()
            setup.channel.submit([b"never"])
        except UnknownPeerError as error:
            errors.append(error)

    sender = threading.Thread(target=send)
    sender.start()
    sender.join(0.02)
    setup.channel.finish()
    sender.join(PATIENCE_S)
    assert len(errors) == 1


def test_nothing_follows_a_frame_that_could_not_be_queued(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    setup.attach()
    goes_on = pause_io(setup)
    monkeypatch.setattr(setup.channel, "_enqueue", fail)
    with pytest.raises(MemoryError):
        setup.channel.submit([bytes(4_000_000)])
    monkeypatch.undo()
    with pytest.raises(UnknownPeerError):
        setup.channel.submit([b"not the rest of it"])
    goes_on.set()
    assert setup.broke.wait(PATIENCE_S)
    assert setup.broken == ["a frame could not be sent: MemoryError()"]


def test_finish_closes_after_the_last_byte(setup: Setup) -> None:
    body = bytes(range(256)) * 4000
    setup.attach()
    setup.channel.submit([body])
    setup.channel.finish()
    assert not setup.drained.is_set()
    assert setup.read(len(body)) == body
    assert setup.drained.wait(PATIENCE_S)
    assert setup.theirs.recv(1) == b""
    with pytest.raises(UnknownPeerError):
        setup.channel.submit([b"late"])


def test_finish_without_anything_queued_is_over_at_once(setup: Setup) -> None:
    setup.channel.finish()
    assert setup.drained.wait(PATIENCE_S)
    setup.attach()
    assert setup.ours.fileno() == -1


def test_a_peer_that_closes_is_noticed(setup: Setup) -> None:
    setup.attach()
    setup.theirs.close()
    assert setup.broke.wait(PATIENCE_S)
    assert setup.broken == ["it closed our connection"]


def test_a_peer_that_talks_back_breaks_the_rules(setup: Setup) -> None:
    setup.attach()
    setup.theirs.send(b"hi")
    assert setup.broke.wait(PATIENCE_S)
    assert setup.broken == ["it sent on a connection that is not its own"]


def test_a_held_connection_outlives_its_channel(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    duplicate = os.dup

    def remember(number: int) -> int:
        kept.append(duplicate(number))
        return kept[-1]

    monkeypatch.setattr(os, "dup", remember)
    setup.attach()
    setup.channel.hold()
    setup.loop.call_soon(setup.channel.close)
    setup.theirs.settimeout(0.05)
    with pytest.raises(TimeoutError):
        setup.theirs.recv(1)
    os.close(kept[0])
    setup.theirs.settimeout(PATIENCE_S)
    assert setup.theirs.recv(1) == b""


def pause_io(setup: Setup) -> threading.Event:
    """Keep the io thread busy, until the event is set."""
    held, goes_on = threading.Event(), threading.Event()

    def wait() -> None:
        held.set()
        goes_on.wait(PATIENCE_S)

    setup.loop.call_soon(wait)
    assert held.wait(PATIENCE_S)
    return goes_on


def test_a_lone_frame_that_may_wait_does_not(setup: Setup) -> None:
    setup.attach()
    goes_on = pause_io(setup)
    setup.channel.submit([b"lone"], soon=True)
    assert setup.read(4) == b"lone"
    goes_on.set()


def test_frames_in_a_row_are_gathered_and_stay_in_order(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apgas.transport.channel._CLOSE_S", 1e9)
    setup.attach()
    goes_on = pause_io(setup)
    for piece in (b"one", b"two", b"three"):
        setup.channel.submit([piece], soon=True)
    setup.theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        setup.theirs.recv(1)
    setup.channel.submit([b"four"])
    assert setup.read(15) == b"onetwothreefour"
    setup.channel.submit([b"five"], soon=True)
    setup.theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        setup.theirs.recv(1)
    goes_on.set()
    assert setup.read(4) == b"five"


def test_gathered_frames_are_written_before_the_channel_closes(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apgas.transport.channel._CLOSE_S", 1e9)
    setup.attach()
    goes_on = pause_io(setup)
    setup.channel.submit([b"last words"], soon=True)
    setup.channel.finish()
    goes_on.set()
    assert setup.read(10) == b"last words"
    assert setup.drained.wait(PATIENCE_S)


def test_so_much_is_gathered_at_most(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apgas.transport.channel._CLOSE_S", 1e9)
    setup.attach()
    goes_on = pause_io(setup)
    for _ in range(5):
        setup.channel.submit([bytes(16 * 1024)], soon=True)
    assert not setup.channel._queue
    assert setup.read(5 * 16 * 1024) == bytes(5 * 16 * 1024)
    goes_on.set()


def test_gathered_frames_that_the_socket_does_not_take_follow_later(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apgas.transport.channel._CLOSE_S", 1e9)
    setup.attach()
    total = 0
    while total < 4_000_000:
        setup.channel.submit([bytes(10_000)], soon=True)
        total += 10_000
    assert setup.channel._queue
    assert setup.read(total) == bytes(total)
    setup.channel.submit([b"end"])
    assert setup.read(3) == b"end"


def test_a_channel_says_when_it_is_crowded(setup: Setup) -> None:
    said = []
    for piece in (bytes(HIGH_WATER_BYTES), b"x"):
        setup.channel.submit([piece])
        said.append(setup.channel.crowded)
    setup.attach()
    assert setup.read(HIGH_WATER_BYTES + 1)
    setup.channel.throttle()
    said.append(setup.channel.crowded)
    assert said == [False, True, False]
