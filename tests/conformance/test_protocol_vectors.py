"""Both sides of wire protocol v2 hold to the published schema and test vectors."""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

import jsonschema
import msgspec
import pytest
from support import PATIENCE_S, protocol_schema
from support.vectors import FOLDER, JOB, TOKEN, VECTORS, about, messages

from apgas.malleability import orders as wire
from apgas.malleability.communicator import SocketCommunicator
from scheduler_bridge.daemon.config import Limits
from scheduler_bridge.daemon.jobs.session import Action, Close, Heard, JobLink, OpenOrder, Send, Session

CHECKED_IN = json.loads((FOLDER / "v2.schema.json").read_text(encoding="utf-8"))
DECODE = {"job": wire.decode_to_scheduler, "scheduler": wire.decode_to_job}
DEFINITION = {"job": "ToScheduler", "scheduler": "ToJob"}
conversations = pytest.mark.parametrize("script", VECTORS["conversations"], ids=about)


def test_the_schema_is_that_of_the_types() -> None:
    path = FOLDER / "v2.schema.json"
    assert path.read_text(encoding="utf-8") == protocol_schema.text(), f"python -m support.protocol_schema > {path}"
    jsonschema.Draft202012Validator.check_schema(CHECKED_IN)


@pytest.mark.parametrize("vector", VECTORS["valid"], ids=about)
def test_what_is_valid_is_decoded_and_fits_the_schema(vector: Any) -> None:
    message = DECODE[vector["from"]](vector["line"].encode())
    validator(vector["from"]).validate(json.loads(vector["line"]))
    assert DECODE[vector["from"]](wire.encode(message)) == message
    validator(vector["from"]).validate(json.loads(wire.encode(message)))


@pytest.mark.parametrize("vector", VECTORS["invalid"], ids=about)
def test_what_is_invalid_is_refused_by_decoder_and_schema(vector: Any) -> None:
    with pytest.raises(wire.BadMessageError):
        DECODE[vector["from"]](vector["line"].encode())
    if vector.get("json", True):
        with pytest.raises(jsonschema.ValidationError):
            validator(vector["from"]).validate(json.loads(vector["line"]))


def test_every_message_has_a_vector() -> None:
    seen = {json.loads(vector["line"])["type"] for vector in VECTORS["valid"]}
    types = {field["properties"]["type"]["enum"][0] for field in CHECKED_IN["$defs"].values() if "properties" in field}
    assert seen == types


def validator(speaker: str) -> jsonschema.Draft202012Validator:
    reference = {"$ref": f"#/$defs/{DEFINITION[speaker]}"}
    return jsonschema.Draft202012Validator({"$defs": CHECKED_IN["$defs"], **reference})


# the scheduler's side -----------------------------------------------------------------------------------------------


class Scheduler:
    """The scheduler's side of one job, fed with lines."""

    def __init__(self, nodes: list[str]) -> None:
        self.link = JobLink(JOB, TOKEN, frozenset(nodes))
        self.reconnect()

    def reconnect(self) -> None:
        self._session = Session({JOB: self.link}, Limits(), 0.0)

    def hears(self, line: str) -> list[Action]:
        return self._session.receive(line.encode() + b"\n", 0.0)

    def orders(self, message: wire.ToJob) -> None:
        """Do what the daemon does when it says this."""
        if isinstance(message, wire.Answer):
            return
        if isinstance(message, wire.Withdraw):
            assert self.link.open is not None
            self.link.open.withdrawn = True
        else:
            assert isinstance(message, wire.Grow | wire.Shrink)
            kind: Any = "grow" if isinstance(message, wire.Grow) else "shrink"
            self.link.open = OpenOrder(message.order, kind, message.count, message.nodes)


def play(script: Any) -> tuple[Scheduler, list[Action]]:
    """Hold a conversation; return the scheduler and what it did last. What it says is compared with the script."""
    scheduler = Scheduler(script["nodes"])
    said: list[wire.Message] = []
    last: list[Action] = []
    for who, line in script["steps"]:
        if who == "both":
            scheduler.reconnect()
        elif who == "job":
            assert said == [], "the job speaks before it has heard everything"
            last = scheduler.hears(line)
            said = [action.message for action in last if isinstance(action, Send)]
        else:
            message = wire.decode_to_job(line.encode())
            if said:
                assert said.pop(0) == message
            else:
                scheduler.orders(message)
    return scheduler, last


@conversations
def test_the_scheduler_holds_the_conversation(script: Any) -> None:
    scheduler, last = play(script)
    assert [type(action) for action in last] == [Heard]
    assert scheduler.link.open is None


@pytest.mark.parametrize("script", VECTORS["refused"], ids=about)
def test_the_scheduler_refuses_what_does_not_fit(script: Any) -> None:
    before, _ = play({**script, "steps": script["steps"][:-1]})
    scheduler, last = play(script)
    assert isinstance(last[0], Send)
    assert isinstance(last[0].message, wire.Refused)
    assert any(isinstance(action, Close) for action in last) == script["closed"]
    assert scheduler.link == before.link


@pytest.mark.parametrize("vector", messages("invalid", "job"), ids=about)
def test_the_scheduler_refuses_invalid_lines_and_goes_on(vector: Any) -> None:
    scheduler = Scheduler(["node1"])
    hello = wire.encode(wire.Hello(version=2, job=JOB, token=TOKEN)).decode()
    scheduler.hears(hello)
    (refusal,) = scheduler.hears(vector["line"])
    assert isinstance(refusal, Send)
    assert isinstance(refusal.message, wire.Refused)
    (heard,) = scheduler.hears('{"type":"ready","nodes":["node1"]}')
    assert isinstance(heard, Heard)


# the job's side -----------------------------------------------------------------------------------------------------


class Listener:
    """Keeps what the job has received."""

    def __init__(self) -> None:
        self.received: queue.Queue[object] = queue.Queue()
        self.order = self.withdraw = self.answer = self.scheduler_lost = self.received.put


class Script:
    """The scheduler's side of a real connection, which says and expects the lines of a script."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(PATIENCE_S)
        self.endpoint = "{}:{}".format(*self._server.getsockname())
        self.connection: socket.socket | None = None
        self._lines: BinaryIO | None = None

    def greet(self) -> None:
        self.hang_up()
        self.connection, _ = self._server.accept()
        self.connection.settimeout(PATIENCE_S)
        self._lines = self.connection.makefile("rb")

    def say(self, line: str) -> None:
        assert self.connection is not None
        self.connection.sendall(line.encode() + b"\n")

    def hear(self) -> object:
        assert self._lines is not None
        return msgspec.to_builtins(wire.decode_to_scheduler(self._lines.readline()))

    def hang_up(self) -> None:
        if self.connection is not None and self._lines is not None:
            self._lines.close()
            self.connection.close()

    def close(self) -> None:
        self.hang_up()
        self._server.close()


@pytest.fixture
def scheduler() -> Iterator[Script]:
    made = Script()
    yield made
    made.close()


def started(scheduler: Script, listener: Listener) -> SocketCommunicator:
    """Start a communicator while the script greets it."""

    def welcome() -> None:
        scheduler.greet()
        assert scheduler.hear() == {"type": "hello", "version": 2, "job": JOB, "token": TOKEN}
        scheduler.say('{"type":"welcome","version":2}')

    thread = threading.Thread(target=welcome)
    thread.start()
    communicator = SocketCommunicator(scheduler.endpoint, JOB, TOKEN, on_loss=f"reconnect:{PATIENCE_S:g}")
    communicator.start(listener)
    thread.join()
    return communicator


@conversations
def test_the_job_holds_the_conversation(script: Any, scheduler: Script) -> None:
    listener = Listener()
    communicator = started(scheduler, listener)
    heard_orders: set[int] = set()
    again = 0
    try:
        for who, line in script["steps"][2:]:
            if who == "both":
                scheduler.greet()
                again = 2  # The job itself says hello and ready again.
                continue
            message = DECODE[who](line.encode())
            if who == "job":
                if again:
                    again -= 1
                else:
                    communicator.send(message)
                assert scheduler.hear() == msgspec.to_builtins(message)
            else:
                scheduler.say(line)
                repeated = isinstance(message, wire.Grow | wire.Shrink) and message.order in heard_orders
                if not isinstance(message, wire.Welcome) and not repeated:
                    assert listener.received.get(timeout=PATIENCE_S) == message
                if isinstance(message, wire.Grow | wire.Shrink):
                    heard_orders.add(message.order)
        assert listener.received.empty()
    finally:
        communicator.close()


@pytest.mark.parametrize("vector", messages("invalid", "scheduler"), ids=about)
def test_the_job_hangs_up_on_invalid_lines_and_comes_back(vector: Any, scheduler: Script) -> None:
    listener = Listener()
    communicator = started(scheduler, listener)
    try:
        scheduler.say(vector["line"])
        scheduler.greet()
        assert scheduler.hear() == {"type": "hello", "version": 2, "job": JOB, "token": TOKEN}
        scheduler.say('{"type":"welcome","version":2}')
        scheduler.say('{"type":"shrink","order":1,"count":1}')
        assert listener.received.get(timeout=PATIENCE_S) == wire.Shrink(order=1, count=1)
    finally:
        communicator.close()
