"""What a transport does when the system refuses something, or ends a process for it."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from apgas.testing.transport_recorder import PATIENCE_S, Group, group
from apgas.transport.tcp import TcpTransport

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
channel = Channel(1, loop, 2**20, 60.0, lambda _: broke.set(), lambda: None)
channel.attach(ours)
theirs.close()
channel.submit([b"one"])
channel.submit([b"one", b"two"])
loop.start()
assert broke.wait(20)
print("alive")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (ran.returncode, ran.stdout) == (0, "alive\n"), ran.stderr
