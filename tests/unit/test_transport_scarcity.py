"""What a transport does when the system refuses something, or ends a process for it."""

from __future__ import annotations

import errno
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.transport_conformance import PATIENCE_S, Group, group

from apgas.transport.channel import Channel, Incoming
from apgas.transport.loop import EventLoop
from apgas.transport.shared import LEAST_BYTES, NUMBER, Budget, Handing, Lender, receive, send_handing
from apgas.transport.tcp import TcpTransport
from apgas.transport.wire import Decoder, Frame

TOKEN = b"t" * 32


@contextmanager
def pair() -> Iterator[Group]:
    with group(lambda: TcpTransport(TOKEN), 2) as made:
        yield made


def test_a_place_without_file_descriptors_connects_when_it_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    make, refused = socket.socket, threading.Event()

    class Scarce(socket.socket):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            if not kwargs.get("fileno") and refusals:
                refusals.pop()
                refused.set()
                raise OSError(errno.EMFILE, "Too many open files")
            super().__init__(*args, **kwargs)

    refusals = [1] * 4  # two attempts, near and far
    with pair() as made:
        monkeypatch.setattr(socket, "socket", Scarce)
        made.transports[0].send(1, b"hello")
        made.recorders[1].wait_frames(1)
        monkeypatch.setattr(socket, "socket", make)
    assert refused.is_set()
    assert refusals == []


def test_a_program_that_wants_sigpipe_lives_on_when_a_place_goes() -> None:
    """The write that finds out would end the process; the place is lost instead."""
    code = """
import signal, socket, threading
from apgas.transport.channel import Channel
from apgas.transport.loop import EventLoop
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
loop, (ours, theirs), broke = EventLoop("io"), socket.socketpair(), threading.Event()
ours.setblocking(False)
channel = Channel(1, loop, lambda _: broke.set(), lambda: None)
channel.attach(ours)
theirs.close()
channel.submit([b"one"])
channel.submit([b"one", b"two"])
loop.start()
assert broke.wait(600)
print("alive")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (ran.returncode, ran.stdout) == (0, "alive\n"), ran.stderr


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Reluctant(socket.socket):
    """A socket for whose first sends the system lacks something."""

    refusals = 0

    def send(self, *args: Any) -> int:
        self._refuse()
        return super().send(*args)

    def sendmsg(self, *args: Any) -> int:
        self._refuse()
        return super().sendmsg(*args)

    def _refuse(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.ETOOMANYREFS, "Too many references")


def test_what_the_system_lacks_for_a_moment_breaks_no_connection(loop: EventLoop) -> None:
    broken: list[str] = []
    channel = Channel(7, loop, on_broken=broken.append, on_drained=lambda: None)
    end, theirs = socket.socketpair()
    ours = Reluctant(fileno=end.detach())
    ours.setblocking(False)
    attached = threading.Event()
    loop.call_soon(lambda: channel.attach(ours))
    loop.call_soon(attached.set)
    assert attached.wait(PATIENCE_S)
    ours.refusals = 3
    channel.submit([b"one"])
    channel.submit([b"two"])
    theirs.settimeout(PATIENCE_S)
    got = b""
    while len(got) < 6:
        got += theirs.recv(6)
    loop.call_soon(channel.close)
    loop.stop()
    theirs.close()
    assert (got, broken, ours.refusals) == (b"onetwo", [], 0)


def test_a_descriptor_for_which_there_is_no_room_is_reported_as_that() -> None:
    ours, theirs = socket.socketpair()
    lender = Lender(Budget())
    loan = lender.lend([bytes(LEAST_BYTES)])
    assert loan is not None
    handing = loan.along_with(b"frame")
    assert isinstance(handing, Handing)
    assert send_handing(ours, handing) == 5
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    try:
        with pytest.raises(OSError, match="out of them"):
            receive(theirs, memoryview(bytearray(5)))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        lender.close()
        ours.close()
        theirs.close()


def test_memory_that_cannot_be_had_costs_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr(os, "ftruncate", refuse)
    lender = Lender(Budget())
    before = open_files()
    assert [lender.lend([bytes(LEAST_BYTES)]) for _ in range(3)] == [None] * 3
    assert open_files() == before


def test_a_frame_for_which_there_is_no_memory_ends_its_connection() -> None:
    loop = EventLoop("test-io")
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ended: list[str] = []

    def fail(_received_bytes: int) -> list[Frame]:
        raise MemoryError

    decoder = Decoder(7)
    decoder.buffer_updated = fail  # type: ignore[method-assign, assignment]  # a stand-in
    incoming = Incoming(loop, ours, decoder, lambda _: None, ended.append)
    theirs.send(b"something")
    incoming.drain()
    theirs.close()
    loop.stop()
    assert ended == ["what it sent cannot be taken: MemoryError()"]


def test_memory_is_returned_although_the_connection_is_full_at_the_moment(loop: EventLoop) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    full = 0
    while True:
        try:
            full += ours.send(bytes(65536))
        except BlockingIOError:
            break
    made: list[Incoming] = []
    done = threading.Event()

    def give_back() -> None:
        incoming = Incoming(loop, ours, Decoder(7), lambda _: None, lambda _: None)
        assert incoming._borrower is not None
        returns = iter([NUMBER.pack(3)])
        incoming._borrower.returns = lambda: next(returns, b"")  # type: ignore[method-assign]  # a stand-in
        incoming._give_back()
        made.append(incoming)
        done.set()

    loop.call_soon(give_back)
    assert done.wait(PATIENCE_S)
    theirs.settimeout(PATIENCE_S)
    left_bytes, tail = full + NUMBER.size, b""
    while left_bytes:
        data = theirs.recv(left_bytes)
        left_bytes -= len(data)
        tail = (tail + data)[-NUMBER.size :]
    loop.call_soon(made[0].close)
    loop.stop()
    theirs.close()
    assert tail == NUMBER.pack(3)
