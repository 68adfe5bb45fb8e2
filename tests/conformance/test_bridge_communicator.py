"""The socket communicator against a scripted scheduler: delivery, loss, reconnection, refusals, variables."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator
from typing import BinaryIO

import pytest
from support import PATIENCE_S

from apgas.errors import ApgasError, UsageError
from apgas.malleability import orders as wire
from apgas.malleability.communicator import SocketCommunicator, from_environment

TOKEN = "t" * 32


class Listener:
    """Keeps what it receives, for a test to take."""

    def __init__(self) -> None:
        self.received: queue.Queue[object] = queue.Queue()

    def order(self, order: wire.Order) -> None:
        self.received.put(order)

    def withdraw(self, order: wire.Withdraw) -> None:
        self.received.put(order)

    def answer(self, answer: wire.Answer) -> None:
        self.received.put(answer)

    def scheduler_lost(self, reason: str) -> None:
        self.received.put(f"lost: {reason}")

    def next(self) -> object:
        return self.received.get(timeout=PATIENCE_S)


class Peer:
    """One accepted connection, seen from the scheduler."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)
        self._connection = connection
        self._lines: BinaryIO = connection.makefile("rb")

    def read(self) -> wire.ToScheduler:
        return wire.decode_to_scheduler(self._lines.readline())

    def at_end(self) -> bool:
        return self._lines.readline() == b""

    def write(self, *messages: wire.Message) -> None:
        for message in messages:
            self._connection.sendall(wire.encode(message))

    def write_raw(self, data: bytes) -> None:
        self._connection.sendall(data)

    def close(self) -> None:
        self._lines.close()
        self._connection.close()


class Scheduler:
    """A listening socket that a test answers by hand."""

    def __init__(self, port: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self._listener.settimeout(PATIENCE_S)
        self.port: int = self._listener.getsockname()[1]
        self._peers: list[Peer] = []

    def accept(self, reply: wire.Message | None = None) -> Peer:
        """Accept, expect a hello, answer it."""
        peer = Peer(self._listener.accept()[0])
        self._peers.append(peer)
        assert peer.read() == wire.Hello(version=2, job=3, token=TOKEN)
        peer.write(reply or wire.Welcome(version=wire.PROTOCOL_VERSION))
        return peer

    def close(self) -> None:
        for peer in self._peers:
            peer.close()
        self._listener.close()


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    scheduler = Scheduler()
    yield scheduler
    scheduler.close()


@pytest.fixture
def listener() -> Listener:
    return Listener()


class Connected:
    """A communicator in touch with ``scheduler``; closed at the end of the with block."""

    def __init__(self, scheduler: Scheduler, listener: Listener, on_loss: str = "end") -> None:
        self.communicator = SocketCommunicator(f"127.0.0.1:{scheduler.port}", 3, TOKEN, on_loss)
        accepted: queue.Queue[Peer] = queue.Queue()
        acceptor = threading.Thread(target=lambda: accepted.put(scheduler.accept()))
        acceptor.start()
        self.communicator.start(listener)
        acceptor.join()
        self.peer = accepted.get_nowait()

    def __enter__(self) -> Connected:
        return self

    def __exit__(self, *_: object) -> None:
        self.communicator.close()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("apgas-scheduler")]


def test_orders_arrive_and_reports_leave_in_order(scheduler: Scheduler, listener: Listener) -> None:
    with Connected(scheduler, listener) as job:
        orders = [
            wire.Grow(order=1, count=1, nodes=("n2",)),
            wire.Withdraw(order=1),
            wire.Workers(order=2, count=4),
            wire.Answer(request=4, granted=0),
        ]
        job.peer.write(*orders)
        assert [listener.next() for _ in orders] == orders
        reports = [wire.Ready(nodes=("n1",)), wire.Evolving(request=1, delta=2), wire.Disable()]
        for report in reports:
            job.communicator.send(report)
        assert [job.peer.read() for _ in reports] == reports


def test_close_delivers_what_is_pending_and_is_idempotent(scheduler: Scheduler, listener: Listener) -> None:
    with Connected(scheduler, listener) as job:
        sent = [wire.Evolving(request=number, delta=1) for number in range(200)]
        for message in sent:
            job.communicator.send(message)
        job.communicator.close()
        job.communicator.close()
        assert [job.peer.read() for _ in sent] == sent
        assert job.peer.at_end()
        job.communicator.send(wire.Disable())
    assert listener.received.empty()


def test_a_refused_job_gets_the_reason(scheduler: Scheduler, listener: Listener) -> None:
    acceptor = threading.Thread(target=lambda: scheduler.accept(wire.Refused(reason="wrong token")))
    acceptor.start()
    communicator = SocketCommunicator(f"127.0.0.1:{scheduler.port}", 3, TOKEN)
    with pytest.raises(ApgasError, match="wrong token"):
        communicator.start(listener)
    acceptor.join()
    communicator.close()


def test_nobody_there_is_an_error(scheduler: Scheduler, listener: Listener) -> None:
    scheduler.close()
    communicator = SocketCommunicator(f"127.0.0.1:{scheduler.port}", 3, TOKEN)
    with pytest.raises(ApgasError, match=f"127.0.0.1:{scheduler.port}"):
        communicator.start(listener)


def test_somebody_else_there_is_an_error_too(listener: Listener) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as lines:
                lines.readline()
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        communicator = SocketCommunicator(f"127.0.0.1:{server.getsockname()[1]}", 3, TOKEN)
        with pytest.raises(ApgasError, match="cannot reach the scheduler"):
            communicator.start(listener)
        answering.join()


def test_a_job_may_start_before_its_scheduler_is_back(listener: Listener) -> None:
    reserved = socket.socket()
    reserved.bind(("127.0.0.1", 0))  # Not listening: connections are refused.
    port = reserved.getsockname()[1]
    communicator = SocketCommunicator(f"127.0.0.1:{port}", 3, TOKEN, "reconnect:60")
    communicator.start(listener)
    communicator.send(wire.Ready(nodes=("n1",)))
    reserved.listen()
    connection, _ = reserved.accept()
    with connection, connection.makefile("rb") as lines:
        assert isinstance(wire.decode_to_scheduler(lines.readline()), wire.Hello)
        connection.sendall(wire.encode(wire.Welcome(version=wire.PROTOCOL_VERSION)))
        assert wire.decode_to_scheduler(lines.readline()) == wire.Ready(nodes=("n1",))
        communicator.close()
    reserved.close()


@pytest.mark.parametrize("last_words", [b"", b"{half a message", b"x" * (wire.MAX_LINE_BYTES + 10) + b"\n", b"{}\n"])
def test_a_lost_scheduler_ends_the_job(scheduler: Scheduler, listener: Listener, last_words: bytes) -> None:
    with Connected(scheduler, listener) as job:
        job.peer.write_raw(last_words)
        job.peer.close()
        lost = listener.next()
        assert isinstance(lost, str)
        assert lost.startswith("lost: ")
        job.communicator.send(wire.Disable())
    assert listener.received.empty()


def test_a_reconnected_job_says_again_what_holds(scheduler: Scheduler, listener: Listener) -> None:
    with Connected(scheduler, listener, "reconnect:60") as job:
        order = wire.Grow(order=9, count=1, nodes=("n2",))
        done = wire.Outcome(order=9, kind="grow", outcome="done", nodes=("n2",))
        job.communicator.send(wire.Ready(nodes=("n1",)))
        assert job.peer.read() == wire.Ready(nodes=("n1",))
        job.peer.write(order)
        assert listener.next() == order
        job.communicator.send(done)
        assert job.peer.read() == done
        job.peer.close()

        again = scheduler.accept()
        assert again.read() == wire.Ready(nodes=("n1", "n2"))
        assert again.read() == done
        again.write(order, wire.Withdraw(order=10))  # The order was delivered before: dropped.
        assert listener.next() == wire.Withdraw(order=10)
        job.communicator.send(wire.Evolving(request=1, delta=1))
        assert again.read() == wire.Evolving(request=1, delta=1)


def test_a_job_that_reconnects_again_and_again_counts_each_outcome_once(
    scheduler: Scheduler, listener: Listener
) -> None:
    with Connected(scheduler, listener, "reconnect:60") as job:
        grown = wire.Outcome(order=9, kind="grow", outcome="done", nodes=("n2",))
        for message in (wire.Ready(nodes=("n1", "n1", "n1")), grown):
            job.communicator.send(message)
            assert job.peer.read() == message
        peer = job.peer
        for _ in range(3):
            peer.close()
            peer = scheduler.accept()
            assert [peer.read(), peer.read()] == [wire.Ready(nodes=("n1", "n1", "n1", "n2")), grown]
        shrunk = wire.Outcome(order=10, kind="shrink", outcome="done", nodes=("n1",))
        job.communicator.send(shrunk)
        assert peer.read() == shrunk
        for _ in range(3):
            peer.close()
            peer = scheduler.accept()
            assert [peer.read() for _ in range(3)] == [wire.Ready(nodes=("n1", "n1", "n2")), grown, shrunk]


def test_a_node_that_was_given_back_leaves_its_namesakes(scheduler: Scheduler, listener: Listener) -> None:
    with Connected(scheduler, listener, "reconnect:60") as job:
        messages = [
            wire.Ready(nodes=("n1", "n1", "n1")),
            wire.Outcome(order=9, kind="shrink", outcome="done", nodes=("n1",)),
        ]
        for message in messages:
            job.communicator.send(message)
            assert job.peer.read() == message
        job.peer.close()
        assert scheduler.accept().read() == wire.Ready(nodes=("n1", "n1"))


def test_a_reconnected_job_asks_again_what_was_not_answered(scheduler: Scheduler, listener: Listener) -> None:
    with Connected(scheduler, listener, "reconnect:30") as job:
        requests = [wire.Evolving(request=number, delta=2) for number in (1, 2)]
        for request in requests:
            job.communicator.send(request)
        assert [job.peer.read() for _ in requests] == requests
        job.peer.write(wire.Answer(request=1, granted=2))
        assert listener.next() == wire.Answer(request=1, granted=2)
        job.peer.close()
        peer = scheduler.accept()
        assert peer.read() == requests[1]


def test_a_message_that_cannot_be_encoded_does_not_stop_the_others(scheduler: Scheduler, listener: Listener) -> None:
    with Connected(scheduler, listener) as job:
        job.communicator.send(wire.Deferred(order=1, reason="\udc80"))
        job.communicator.send(wire.Disable())
        assert job.peer.read() == wire.Disable()


def test_messages_of_a_lost_connection_are_kept(scheduler: Scheduler, listener: Listener) -> None:
    port = scheduler.port
    with Connected(scheduler, listener, "reconnect:60") as job:
        scheduler.close()
        with job.communicator._changed:
            assert job.communicator._changed.wait_for(lambda: job.communicator._socket is None, PATIENCE_S)
        kept = wire.Evolving(request=1, delta=1)
        job.communicator.send(kept)
        for done in range(100):
            job.communicator.send(wire.Progress(done=float(done)))
        successor = Scheduler(port)
        try:
            peer = successor.accept()
            assert [peer.read(), peer.read()] == [kept, wire.Progress(done=99.0)]
        finally:
            successor.close()
    assert listener.received.empty()


def test_a_disabled_job_says_disable_again_and_not_ready(scheduler: Scheduler, listener: Listener) -> None:
    with Connected(scheduler, listener, "reconnect:60") as job:
        for message in (wire.Ready(nodes=("n1",)), wire.Disable()):
            job.communicator.send(message)
            assert job.peer.read() == message
        job.peer.close()
        again = scheduler.accept()
        assert again.read() == wire.Disable()
        job.communicator.send(wire.Progress(done=1.0))
        assert again.read() == wire.Progress(done=1.0)


def test_reconnection_is_given_up_in_the_end(scheduler: Scheduler, listener: Listener) -> None:
    with Connected(scheduler, listener, "reconnect:0.2"):
        scheduler.close()
        assert str(listener.next()).startswith("lost: ")
    assert listener.received.empty()


def test_a_refusal_ends_the_reconnection(scheduler: Scheduler, listener: Listener) -> None:
    with Connected(scheduler, listener, "reconnect:3600") as job:
        job.peer.close()
        scheduler.accept(wire.Refused(reason="unknown job"))
        assert "unknown job" in str(listener.next())


GOOD = {wire.ENV_SCHEDULER: "localhost:4711", wire.ENV_JOB: "3", wire.ENV_TOKEN: TOKEN}


def test_no_variables_mean_no_scheduler() -> None:
    assert from_environment({}) is None
    assert isinstance(from_environment(GOOD), SocketCommunicator)
    assert isinstance(from_environment({**GOOD, "APGAS_ON_SCHEDULER_LOSS": "reconnect:2.5"}), SocketCommunicator)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (wire.ENV_SCHEDULER, ""),
        (wire.ENV_SCHEDULER, "localhost"),
        (wire.ENV_SCHEDULER, "localhost:99999"),
        (wire.ENV_JOB, "three"),
        (wire.ENV_JOB, "-3"),
        (wire.ENV_JOB, ""),
        (wire.ENV_TOKEN, ""),
        (wire.ENV_TOKEN, "short"),
        ("APGAS_ON_SCHEDULER_LOSS", "reconnect"),
        ("APGAS_ON_SCHEDULER_LOSS", "reconnect:never"),
        ("APGAS_ON_SCHEDULER_LOSS", "reconnect:-1"),
        ("APGAS_ON_SCHEDULER_LOSS", "panic"),
    ],
)
def test_errors_name_the_variable_and_keep_the_secret(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name) as caught:
        from_environment({**GOOD, name: value})
    assert TOKEN not in str(caught.value)
