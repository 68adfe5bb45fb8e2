"""Whatever strangers say on the ports of protocol v1: it is dropped, and everyone else is heard."""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import PATIENCE_S

from apgas.malleability import orders as wire
from apgas.malleability.v1.communicator import V1Communicator
from apgas.malleability.v1.gate import Gate, Translator
from scheduler_bridge.daemon import JobRequest
from scheduler_bridge.daemon.requests import Submitted
from scheduler_bridge.daemon.v1 import AdminConfig, AdminServer

# Almost what is said there, but never quite: no line of these is one that the receiver knows.
words = st.sampled_from(
    b"grow|shrink|0|-1|node|;|:|APGAS-Ready|growTimeAPGAS|Evolving|Request|Release|Add Node|.sh|../x|\xff|\0".split(
        b"|"
    )
)
lines = st.one_of(st.lists(words, max_size=5).map(b";".join), st.binary(max_size=100))
said = st.builds(
    lambda parts, end: b"\n".join(parts) + end, st.lists(lines, max_size=6), st.sampled_from([b"", b"\n", b"\r\n"])
)


def speak(port: int, what: bytes) -> None:
    """Say something and hang up; the other side may do so first."""
    # hung up on first
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as caller:
        caller.sendall(what)
        caller.shutdown(socket.SHUT_WR)
        while caller.recv(4096):
            pass


class Listener:
    def __init__(self) -> None:
        self.received: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.order = self.withdraw = self.answer = self.scheduler_lost = self.received.put


class NoScheduler:
    """Stands for the connection of a gate to its scheduler; keeps what is said there."""

    def __init__(self) -> None:
        self.received: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.send = self.received.put

    def start(self, listener: object) -> None:
        pass

    def close(self) -> None:
        pass


Target: TypeAlias = tuple[int, Callable[[], object]]
"""A port, and what says there something that is understood and returns what came of it."""


@pytest.fixture(scope="module")
def job() -> Iterator[Target]:
    listener = Listener()
    communicator = V1Communicator("127.0.0.1:1", "127.0.0.1:0")
    communicator.start(listener)
    assert communicator._port is not None
    port = communicator._port.port

    def understood() -> object:
        speak(port, b"grow 1 node7\n")
        order = listener.received.get(timeout=PATIENCE_S)
        assert isinstance(order, wire.Grow)
        return order.nodes

    yield port, understood
    communicator.close()


@pytest.fixture(scope="module")
def gate() -> Iterator[Target]:
    scheduler: Any = NoScheduler()
    made = Gate(Translator(["node1"]), scheduler, ("127.0.0.1", 1))
    made.start()
    speak(made.reports[1], b"APGAS-Ready:127.0.0.1\n")
    assert scheduler.received.get(timeout=PATIENCE_S) == wire.Ready(nodes=("node1",))

    def understood() -> object:
        speak(made.reports[1], b"Evolving;Request;7:127.0.0.1\n")
        message = scheduler.received.get(timeout=PATIENCE_S)
        assert isinstance(message, wire.Evolving)
        return message.delta

    yield made.reports[1], understood
    made.close()


class Administered:
    """Stands for a daemon; keeps what it is asked for."""

    def __init__(self) -> None:
        self.received: queue.SimpleQueue[object] = queue.SimpleQueue()

    def submit(self, request: JobRequest) -> int:
        self.received.put(request.name)
        return 1

    def add_nodes(self, names: tuple[str, ...]) -> None:
        self.received.put(names)

    def request_stop(self) -> None:
        self.received.put("stop")

    async def durable(self) -> str:
        return ""

    def retract(self, reply: Submitted) -> None:
        self.received.put(reply)


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    scripts = tmp_path_factory.mktemp("scripts")
    (scripts / "good.sh").write_text("#NODES 1\n")
    daemon = Administered()
    ready: queue.SimpleQueue[Target] = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(daemon, scripts, ready)))
    thread.start()
    port, stop = ready.get(timeout=PATIENCE_S)

    def understood() -> object:
        speak(port, b"good.sh\n")
        return daemon.received.get(timeout=PATIENCE_S)

    yield port, understood
    stop()
    thread.join()


async def _serve(daemon: Administered, scripts: Path, ready: queue.SimpleQueue[Target]) -> None:
    done, loop = asyncio.Event(), asyncio.get_running_loop()
    stands_for: Any = daemon
    async with AdminServer(stands_for, AdminConfig(port=0, scripts=scripts)) as server:
        ready.put((server.port, lambda: loop.call_soon_threadsafe(done.set)))
        await done.wait()


@pytest.mark.parametrize(("name", "heard"), [("job", ("node7",)), ("gate", 7), ("admin", "good")])
@settings(max_examples=40)
@given(what=said)
def test_strangers_are_dropped_and_others_heard(
    name: str, heard: object, what: bytes, request: pytest.FixtureRequest
) -> None:
    port, understood = request.getfixturevalue(name)
    speak(port, what)
    assert understood() == heard
