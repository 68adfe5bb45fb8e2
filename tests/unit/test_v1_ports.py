"""How lines of v1 are read: not too long, not too late, in order, and not more than one."""

from __future__ import annotations

import queue
import socket
import time
from collections.abc import Iterator

import pytest
from support import PATIENCE_S

from apgas.errors import UsageError
from apgas.malleability.communicator import address
from apgas.malleability.v1 import lines
from apgas.malleability.v1.lines import BadLineError, LinePort, read_line

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def later() -> float:
    return time.monotonic() + PATIENCE_S


def test_a_line_is_read_and_the_next_one_left(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(b"shrink 1\r\nn1\n")
    assert read_line(ours, later()) == b"shrink 1"
    assert read_line(ours, later()) == b"n1"


def test_a_line_may_come_in_pieces(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(b"x" * 5000)
    theirs.sendall(b"y\n")
    assert read_line(ours, later()) == b"x" * 5000 + b"y"


def test_a_line_that_is_too_long_is_refused(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(b"x" * 1025 + b"\n")
    with pytest.raises(BadLineError, match="at most 1024"):
        read_line(ours, later(), 1024)


def test_half_a_line_and_silence_are_distinguished(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(b"shrink 1")
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionError, match="middle of a line"):
        read_line(ours, later())
    with pytest.raises(ConnectionError, match="nothing was said"):
        read_line(ours, later())


def test_a_line_that_is_late_is_not_awaited(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(b"shrink")
    with pytest.raises(TimeoutError):
        read_line(ours, time.monotonic() + 0.05)


def test_lines_are_taken_in_the_order_of_their_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    read: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def noted(caller: socket.socket, until_s: float) -> bytes:
        line = read_line(caller, until_s)
        read.put(line)
        return line

    def take(line: bytes, caller: socket.socket) -> bool:
        taken.put(line)
        return False

    monkeypatch.setattr(lines, "read_line", noted)
    port = LinePort(("127.0.0.1", 0), take)
    with (
        socket.create_connection(("127.0.0.1", port.port)) as first,
        socket.create_connection(("127.0.0.1", port.port)) as second,
    ):
        second.sendall(b"second\n")
        assert read.get(timeout=PATIENCE_S) == b"second"
        first.sendall(b"first\n")
        assert [taken.get(timeout=PATIENCE_S) for _ in range(2)] == [b"first", b"second"]
    port.close()
    port.close()


@pytest.mark.parametrize(
    ("text", "default", "found"),
    [("h:1", "", ("h", 1)), ("[::1]:80", "", ("::1", 80)), ("8081", "127.0.0.1", ("127.0.0.1", 8081))],
)
def test_addresses(text: str, default: str, found: tuple[str, int]) -> None:
    assert address(text, "it", default) == found


@pytest.mark.parametrize("text", ["", "h", "8081", "h:", "h:x", "h:65536", ":80"])
def test_no_addresses(text: str) -> None:
    with pytest.raises(UsageError, match="it is "):
        address(text, "it")
