"""What the contract does not know: strangers, broken peers, forks. Ordinary traffic is in the conformance suite."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from support.loops import pass_through
from support.transport_conformance import PATIENCE_S, Group, Recorder, group

from apgas.errors import UsageError
from apgas.transport import tcp
from apgas.transport.auth import Caller, Listener
from apgas.transport.base import Address, TransportClosedError
from apgas.transport.tcp import TcpTransport
from apgas.transport.wire import HEADER, MAGIC, encode

TOKEN = b"t" * 32
OTHER_TOKEN = b"o" * 32


@contextmanager
def pair(handshake_s: float = tcp.HANDSHAKE_S, callers: int = tcp.MOST_CALLERS) -> Iterator[Group]:
    """Two places; place 0 is the one under attack."""
    with (
        mock.patch.multiple(tcp, HANDSHAKE_S=handshake_s, MOST_CALLERS=callers),
        group(lambda: TcpTransport(TOKEN), 2) as made,
    ):
        yield made


def assert_undisturbed(made: Group) -> None:
    """Place 0 still talks to place 1 in both directions, and no other place was heard or lost."""
    made.transports[0].send(1, b"ping", [bytes(100_000)])
    made.transports[1].send(0, b"pong", [bytes(100_000)])
    for place, recorder in enumerate(made.recorders):
        recorder.wait_frames(1)
        assert [frame.src for frame in recorder.frames] == [1 - place]
        assert recorder.lost == []


def dial(address: Address) -> socket.socket:
    return socket.create_connection(address, PATIENCE_S)


def receive(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            break
        data += piece
    return bytes(data)


def introduce(sock: socket.socket, place: int, peer: int, token: bytes = TOKEN) -> bool:
    """Hold the handshake; return whether we were welcomed."""
    caller = Caller(token, place, peer)
    sock.sendall(caller.hello)
    while not caller.done:
        data = receive(sock, caller.needed_bytes)
        if not data:
            return False
        reply = caller.receive(data)
        sock.sendall(reply)
    return True


def welcome(server: socket.socket, place: int) -> socket.socket:
    """Accept one caller as ``place`` and hold the handshake."""
    sock, _ = server.accept()
    sock.settimeout(PATIENCE_S)
    listener = Listener(TOKEN, place)
    while not listener.done:
        sock.sendall(listener.receive(receive(sock, listener.needed_bytes)))
    return sock


def hung_up(sock: socket.socket) -> bool:
    """Wait for the other end to hang up, with or without having read what we sent."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


# strangers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" * 4, bytes(1000), os.urandom(1 << 20)])
def test_garbage_is_hung_up_on(garbage: bytes) -> None:
    with pair() as made, dial(made.addresses[0]) as stranger:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # hung up on before all was sent
            stranger.sendall(garbage)
        assert hung_up(stranger)
        assert_undisturbed(made)


def test_a_caller_with_another_token_is_hung_up_on() -> None:
    with pair() as made, dial(made.addresses[0]) as stranger:
        hello = Caller(OTHER_TOKEN, 1, 0).hello
        stranger.sendall(hello)
        assert len(receive(stranger, 64)) == 64
        stranger.sendall(bytes(32) + b"".join(bytes(piece) for piece in encode(1, b"let me in")))
        assert hung_up(stranger)
        assert_undisturbed(made)


def test_a_transport_with_another_token_loses_the_place_that_it_calls() -> None:
    recorder = Recorder()
    stranger = TcpTransport(OTHER_TOKEN)
    with pair() as made:
        stranger.learn(made.addresses)
        stranger.start(2, recorder)
        stranger.send(0, b"let me in")
        recorder.wait_lost()
        stranger.close()
        assert recorder.lost == [(0, "the listener does not hold this job's token")]
        assert_undisturbed(made)


def test_a_caller_for_another_place_is_hung_up_on() -> None:
    with pair() as made, dial(made.addresses[0]) as lost:
        assert not introduce(lost, 1, 5)
        assert_undisturbed(made)


def test_silent_callers_are_hung_up_on_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pair(3600) as made,
        dial(made.addresses[0]) as silent,
        dial(made.addresses[0]) as slow,
    ):
        slow.sendall(Caller(TOKEN, 1, 0).hello)
        assert len(receive(slow, 64)) == 64
        # the hour is over when both have come, and not while they come: this thread may be held up for any time
        later = SimpleNamespace(monotonic=lambda: time.monotonic() + 3601, sleep=time.sleep)
        monkeypatch.setattr("apgas.transport.loop.time", later)
        pass_through(made.transports[0].loop)
        assert hung_up(silent)
        assert hung_up(slow)
        assert_undisturbed(made)


def test_a_crowd_of_silent_callers_does_not_keep_a_place_out() -> None:
    with pair(3600, 8) as made, contextlib.ExitStack() as leaving:
        crowd = [leaving.enter_context(dial(made.addresses[0])) for _ in range(100)]
        for stranger in crowd[:20]:
            assert hung_up(stranger)
        assert_undisturbed(made)
        # Those who were still waiting when the place came are not hung up on by its coming through.
        crowd[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            crowd[-1].recv(1)


def test_the_oldest_goes_when_everybody_has_said_hello() -> None:
    crowd: list[socket.socket] = []
    with pair(3600, 3) as made, contextlib.ExitStack() as leaving:
        for number in range(4):
            stranger = leaving.enter_context(dial(made.addresses[0]))
            crowd.append(stranger)
            stranger.sendall(Caller(TOKEN, 10 + number, 0).hello)
            assert len(receive(stranger, 64)) == 64
        assert hung_up(crowd[0])
        assert_undisturbed(made)


def test_who_has_said_hello_stays_when_a_silent_one_can_go() -> None:
    with (
        pair(3600, 2) as made,
        dial(made.addresses[0]) as greeted,
    ):
        caller = Caller(TOKEN, 9, 0)
        greeted.sendall(caller.hello)
        answer = receive(greeted, 64)
        with dial(made.addresses[0]) as silent, dial(made.addresses[0]):
            assert hung_up(silent)
            greeted.sendall(caller.receive(answer))
            caller.receive(receive(greeted, 1))
            assert caller.done


# peers that hold the token and break the rules ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"x" * HEADER.size, "protocol error: not a frame of this version"),
        (HEADER.pack(MAGIC, 1, 0, 0, 0), "protocol error: place 9 sent a frame in the name of place 1"),
        (HEADER.pack(MAGIC, 9, 2**31, 0, 0), "protocol error: frame too large"),
        (HEADER.pack(MAGIC, 9, 5, 0, 0) + b"cut", "it closed its connection within a frame"),
        (b"", "it closed its connection"),
    ],
)
def test_bad_frames_cost_their_sender_its_connection(data: bytes, reason: str) -> None:
    with pair() as made:
        with dial(made.addresses[0]) as bad:
            assert introduce(bad, 9, 0)
            bad.sendall(data)
            bad.shutdown(socket.SHUT_WR)
            assert hung_up(bad)
        assert made.recorders[0].wait_lost() == [9]
        assert made.recorders[0].lost[0][1].startswith(reason)
        made.recorders[0].lost.clear()
        assert_undisturbed(made)


def test_a_place_has_one_connection() -> None:
    with pair() as made, dial(made.addresses[0]) as first:
        assert introduce(first, 9, 0)
        for place in (9, 0):
            with dial(made.addresses[0]) as second:
                assert not introduce(second, place, 0)
        first.sendall(b"".join(bytes(piece) for piece in encode(9, b"still here")))
        made.recorders[0].wait_frames(1)
        assert made.recorders[0].lost == []


def test_a_lost_place_does_not_come_back() -> None:
    with pair() as made:
        with dial(made.addresses[0]) as first:
            assert introduce(first, 9, 0)
        assert made.recorders[0].wait_lost() == [9]
        with dial(made.addresses[0]) as second:
            assert not introduce(second, 9, 0)


def test_a_place_that_stops_sending_still_gets_what_was_queued() -> None:
    body = bytes(range(256)) * 80_000
    with pair() as made, socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        made.transports[0].learn({9: server.getsockname()})
        made.transports[0].send(9, b"", [body])
        sock = welcome(server, 9)
        with dial(made.addresses[0]) as sender:
            assert introduce(sender, 9, 0)
        assert made.recorders[0].wait_lost() == [9]
        expected = b"".join(bytes(piece) for piece in encode(0, b"", [body]))
        assert receive(sock, len(expected) + 1) == expected
        sock.close()


# connecting ---------------------------------------------------------------------------------------------------------


def test_a_place_that_does_not_answer_is_lost_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "CONNECT_S", 0.05)
    recorder = Recorder()
    sender = TcpTransport(TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sender.learn({1: silent.getsockname()})
        sender.start(0, recorder)
        sender.send(1, b"")
        recorder.wait_lost()
        sender.close()
    assert recorder.lost == [(1, "no connection within 0.05 s: no answer")]


def test_a_caller_that_was_sent_away_comes_again() -> None:
    sender = TcpTransport(TOKEN)
    recorder = Recorder()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        sender.learn({1: server.getsockname()})
        sender.start(0, recorder)
        sender.send(1, b"kept")
        server.accept()[0].close()
        half, _ = server.accept()
        half.sendall(Listener(TOKEN, 1).receive(receive(half, 48)))
        half.close()
        sock = welcome(server, 1)
        frame = b"".join(bytes(piece) for piece in encode(0, b"kept"))
        assert receive(sock, len(frame)) == frame
        assert recorder.lost == []
        sender.close()
        sock.close()


def test_forgetting_a_place_that_does_not_answer_gives_up() -> None:
    recorder = Recorder()
    sender = TcpTransport(TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE_S)
        sender.learn({1: silent.getsockname()})
        sender.start(0, recorder)
        sender.connect(1)
        sock, _ = silent.accept()
        sock.settimeout(PATIENCE_S)
        sender.forget(1)
        assert len(receive(sock, 48)) in (0, 48)
        assert hung_up(sock)
        sock.close()
        sender.close()
    assert recorder.lost == []


def test_a_loss_while_closing_ends_the_flush_and_is_not_reported() -> None:
    recorder = Recorder()
    sender = TcpTransport(TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        sender.learn({1: server.getsockname()})
        sender.start(0, recorder)
        sender.send(1, b"", [bytes(20_000_000)])
        sock = welcome(server, 1)
        closer = threading.Thread(target=sender.close, args=(3600,))
        closer.start()
        with contextlib.suppress(TransportClosedError):  # that is the end
            while True:
                sender.send(0, b"until it closes")
        sock.close()
        closer.join(PATIENCE_S)
        assert not closer.is_alive()
    assert recorder.lost == []


# the process --------------------------------------------------------------------------------------------------------


def open_files() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_close_leaves_no_files_and_no_thread() -> None:
    before, threads = open_files(), set(threading.enumerate())
    with pair() as made:
        dial(made.addresses[0]).close()
        assert_undisturbed(made)
    TcpTransport(TOKEN).close()
    assert open_files() <= before
    for thread in set(threading.enumerate()) - threads:  # it may have said its last, and not have ended yet
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_close_leaves_no_files_where_the_io_thread_has_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> float | None:
        raise OverflowError("on purpose")

    before, broken = open_files(), threading.Event()
    with pair() as made:
        assert_undisturbed(made)
        loop = made.transports[0].loop
        loop.on_broken = lambda _: broken.set()
        monkeypatch.setattr(loop._timers, "seconds_left", fail)
        loop.call_later(0.0, lambda: None)
        assert broken.wait(PATIENCE_S)
        made.transports[0].close(0.0)
        assert made.recorders[1].wait_lost() == [0]
    assert open_files() <= before


def test_a_forked_child_keeps_nothing_open() -> None:
    with pair() as made:
        assert_undisturbed(made)
        read_fd, write_fd = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            status = 1
            try:
                made.transports[0].send(1, b"the child is not the place")
            except TransportClosedError:
                made.transports[0].close()
                status = 0
            os.close(write_fd)
            os.read(read_fd, 1)
            os._exit(status)
        made.transports[0].send(1, b"parent")
        made.recorders[1].wait_frames(2)
        made.transports[0].close()
        assert made.recorders[1].wait_lost() == [0]
        os.close(write_fd)
        os.close(read_fd)
        assert os.waitpid(child, 0)[1] == 0


def test_misuse_is_refused() -> None:
    transport = TcpTransport(TOKEN)
    with pytest.raises(UsageError, match="no place id"):
        transport.start(-1, Recorder())
    transport.start(0, Recorder())
    with pytest.raises(UsageError, match="started once"):
        transport.start(0, Recorder())
    transport.close()
    with pytest.raises(ValueError, match="32 bytes"):
        TcpTransport(b"short")
