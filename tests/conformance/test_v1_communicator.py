"""A job of ours under a scripted v1 scheduler, over real sockets: transcripts, garbage, half lines, floods."""

from __future__ import annotations

import queue
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from support import PATIENCE_S

from apgas.errors import ApgasError, UsageError
from apgas.malleability import orders as wire
from apgas.malleability.v1.communicator import V1Communicator, from_environment


class Listener:
    """Keeps what the job has received."""

    def __init__(self) -> None:
        self.received: queue.Queue[object] = queue.Queue()
        self.order = self.withdraw = self.answer = self.scheduler_lost = self.received.put

    def next(self) -> object:
        return self.received.get(timeout=PATIENCE_S)


class Scheduler:
    """The published scheduler's side: takes reports on its port, gives orders on the job's."""

    def __init__(self, port: int = 0) -> None:
        self._server = socket.create_server(("127.0.0.1", port))
        self._server.settimeout(PATIENCE_S)
        self.port = int(self._server.getsockname()[1])

    def report(self) -> str:
        """The next report: a connection with one line."""
        caller, _ = self._server.accept()
        with caller, caller.makefile("r") as lines:
            line = lines.readline()
            assert lines.read() == "", "one line a connection"
            return line

    def close(self) -> None:
        self._server.close()


def port_of(communicator: V1Communicator) -> int:
    assert communicator._port is not None
    return communicator._port.port


def say(communicator: V1Communicator, line: bytes) -> socket.socket:
    caller = socket.create_connection(("127.0.0.1", port_of(communicator)), timeout=PATIENCE_S)
    caller.sendall(line)
    return caller


def heard(caller: socket.socket) -> list[str]:
    with caller, caller.makefile("r") as lines:
        return lines.read().splitlines()


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler()
    yield made
    made.close()


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def job(scheduler: Scheduler, listener: Listener) -> Iterator[V1Communicator]:
    made = V1Communicator(f"127.0.0.1:{scheduler.port}", "127.0.0.1:0")
    made.start(listener)
    made.send(wire.Ready(nodes=("n1", "n2")))
    assert scheduler.report() == "APGAS-Ready:127.0.0.1\n"
    yield made
    made.close()


def test_a_grow_is_carried_out_and_its_times_are_reported(
    job: V1Communicator, scheduler: Scheduler, listener: Listener
) -> None:
    assert heard(say(job, b"grow 2 n3 n4\n")) == [], "a grow has no answer"
    order = listener.next()
    assert order == wire.Grow(order=0, count=2, nodes=("n3", "n4"))
    # As the order machine has it: the seconds end with the commit, before `post`.
    phases = {"pre": 0.25, "spawn": 0.5, "join": 0.25, "commit": 0.0, "post": 0.5}
    job.send(wire.Outcome(order=0, kind="grow", outcome="done", nodes=("n3", "n4"), seconds=1.0, phases=phases))
    assert [scheduler.report() for _ in range(3)] == [
        "preGrowTimeGLB;2;250000000:127.0.0.1\n",
        "postGrowTimeGLB;2;500000000:127.0.0.1\n",
        "growTimeAPGAS;2;1500000000:127.0.0.1\n",
    ]


def test_a_shrink_is_answered_with_a_line_for_each_host(
    job: V1Communicator, scheduler: Scheduler, listener: Listener
) -> None:
    caller = say(job, b"shrink 2\n")
    assert listener.next() == wire.Shrink(order=0, count=2)
    phases = {"pre": 0.25, "drain": 0.25, "commit": 0.0, "release": 0.25, "post": 0.125}
    job.send(wire.Outcome(order=0, kind="shrink", outcome="done", nodes=("n2", "n4"), seconds=0.75, phases=phases))
    assert heard(caller) == ["n2", "n4"]
    assert [scheduler.report() for _ in range(3)] == [
        "preShrinkTimeGLB;2;250000000:127.0.0.1\n",
        "postShrinkTimeGLB;2;125000000:127.0.0.1\n",
        "shrinkTimeAPGAS;2;875000000:127.0.0.1\n",
    ]


@pytest.mark.parametrize("outcome", ["refused", "aborted"])
def test_a_shrink_that_fails_does_not_let_the_scheduler_wait(
    job: V1Communicator, listener: Listener, outcome: wire.OutcomeKind
) -> None:
    caller = say(job, b"shrink 5\n")
    listener.next()
    job.send(wire.Outcome(order=0, kind="shrink", outcome=outcome, nodes=("n2",), reason="it came back"))
    assert heard(caller) == []


def test_evolving_requests_are_reported_and_answered_here(
    job: V1Communicator, scheduler: Scheduler, listener: Listener
) -> None:
    job.send(wire.Evolving(request=3, delta=1))
    assert scheduler.report() == "Evolving;Request;1:127.0.0.1\n"
    answer = listener.next()
    assert isinstance(answer, wire.Answer)
    assert (answer.request, answer.granted) == (3, 0)
    job.send(wire.Evolving(request=4, delta=-1))
    assert scheduler.report() == "Evolving;Release;n2:127.0.0.1\n"
    assert listener.next() == wire.Answer(request=4, granted=0, reason=answer.reason)


def test_the_rest_is_not_said(job: V1Communicator, scheduler: Scheduler) -> None:
    job.send(wire.Progress(done=1.0))
    job.send(wire.Deferred(order=0))
    job.send(wire.Lost(loss=0, nodes=("n2",)))
    job.send(wire.Disable())
    job.send(wire.Evolving(request=1, delta=1))
    assert scheduler.report() == "Evolving;Request;1:127.0.0.1\n"


@pytest.mark.parametrize(
    "words",
    [b"", b"\n", b"grow 2 n3\n", b"shrink 0\n", b"\xff\xfe\n", b"GET / HTTP/1.1\r\n\r\n", b"x" * 100_000, b"shrink 1"],
)
def test_garbage_and_half_lines_are_dropped(job: V1Communicator, listener: Listener, words: bytes) -> None:
    with suppress(OSError), say(job, b"") as caller:  # It may be cut off in the middle of it.
        caller.sendall(words)
        caller.shutdown(socket.SHUT_WR)
        assert caller.recv(1000) == b""
    shrink = say(job, b"shrink 1\n")
    assert listener.next() == wire.Shrink(order=0, count=1), "nothing else was taken for an order"
    shrink.close()


def test_silence_and_floods_keep_nobody_out_for_long(job: V1Communicator, listener: Listener) -> None:
    silent = [say(job, b"gro") for _ in range(40)]
    for caller in silent:
        caller.close()
    until = time.monotonic() + PATIENCE_S
    while listener.received.empty() and time.monotonic() < until:
        say(job, b"grow 1 n3\n").close()
    assert isinstance(listener.next(), wire.Grow)


def test_other_machines_are_not_heard(listener: Listener) -> None:
    job = V1Communicator("192.0.2.7:8081", "127.0.0.1:0")
    job.start(listener)
    caller = say(job, b"shrink 1\n")
    with suppress(ConnectionResetError):  # hung up on
        assert heard(caller) == []
    assert listener.received.empty()
    job.close()


def test_a_scheduler_of_this_machine_is_heard_by_whatever_name_it_goes(listener: Listener) -> None:
    job = V1Communicator("127.0.1.1:8081", "127.0.0.1:0")  # as Debian has it for the host's own name
    job.start(listener)
    say(job, b"grow 1 n3\n").close()
    assert listener.next() == wire.Grow(order=0, count=1, nodes=("n3",))
    job.close()


def test_a_scheduler_that_comes_later_hears_that_the_job_is_ready(listener: Listener) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    job = V1Communicator(f"127.0.0.1:{port}", "127.0.0.1:0")
    job.start(listener)
    job.send(wire.Ready(nodes=("n1",)))
    scheduler = Scheduler(port)
    assert scheduler.report() == "APGAS-Ready:127.0.0.1\n"
    scheduler.close()
    job.close()


def test_an_order_after_the_end_is_refused_at_once(job: V1Communicator) -> None:
    waiting = say(job, b"shrink 1\n")
    job.close()
    with suppress(ConnectionResetError):  # if the order had not been read yet
        assert heard(waiting) == []
    with pytest.raises(ConnectionRefusedError):
        say(job, b"shrink 1\n")


def test_a_port_that_is_taken_is_reported(job: V1Communicator, scheduler: Scheduler, listener: Listener) -> None:
    with pytest.raises(ApgasError, match=f"on 127.0.0.1:{port_of(job)}: .*in use"):
        V1Communicator(f"127.0.0.1:{scheduler.port}", f"127.0.0.1:{port_of(job)}").start(listener)


def test_variables_are_read() -> None:
    assert from_environment({}) is None
    made = from_environment({"MALLEABLE_V1_SCHEDULER": "127.0.0.1:8081"})
    assert made is not None
    assert made._listen[1] == 8081
    other = from_environment({"MALLEABLE_V1_SCHEDULER": "h:1", "MALLEABLE_V1_LISTEN": "9000"})
    assert other is not None
    assert other._listen[1] == 9000
    for wrong in ({"MALLEABLE_V1_SCHEDULER": "h"}, {"MALLEABLE_V1_SCHEDULER": "h:1", "MALLEABLE_V1_LISTEN": "x:y"}):
        with pytest.raises(UsageError, match="MALLEABLE_V1_"):
            from_environment(wrong)
