"""The words that jobs and schedulers exchange (wire protocol v2).

One message is one JSON object on one line, tagged by ``type``. Both sides decode with strict types, so a message that
does not fit is refused before anything acts on it. The scheduler gives orders in nodes; which places a job releases is
the job's choice, and it reports the nodes in the outcome.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from apgas import malleability
from apgas.malleability import core_ids

PROTOCOL_VERSION: Final = 2
MAX_LINE_BYTES: Final = 64 * 1024
"""Longer lines are refused, and the connection is closed: a peer that sends them is broken or hostile."""

MOST_COUNT: Final = 1_000_000
"""The most nodes that one order is about."""

ENV_SCHEDULER: Final = malleability.ENV_SCHEDULER
ENV_JOB: Final = "MALLEABLE_JOB"
ENV_TOKEN: Final = "MALLEABLE_TOKEN"

# The look-ahead because a lone `$` also matches before a newline at the end, in Python though not in JSON schemas.
NodeName = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9_.\-]+(?!\n)$")]
OrderId = Annotated[int, Meta(ge=0)]
JobId = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
Text = Annotated[str, Meta(max_length=4000)]
Count = Annotated[int, Meta(ge=1, le=MOST_COUNT)]
CoreList = Annotated[str, Meta(max_length=core_ids.LONGEST, pattern=core_ids.FORM)]
OutcomeKind: TypeAlias = Literal["done", "refused", "aborted", "not_due"]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """Base of every message."""


# scheduler -> job ---------------------------------------------------------------------------------------------------


class Welcome(Message, frozen=True, tag="welcome"):
    """The job is known and authenticated; orders may follow."""

    version: int


class Refused(Message, frozen=True, tag="refused"):
    """The last message changed nothing, for ``reason``. After a refused hello the scheduler closes the connection."""

    reason: Text


class Grow(Message, frozen=True, tag="grow"):
    """Add one node's places on each of ``nodes``; with no names, add ``count`` nodes' places on the job's own host."""

    order: OrderId
    count: Count
    nodes: tuple[NodeName, ...] = ()


class Shrink(Message, frozen=True, tag="shrink"):
    """Release ``count`` nodes, preferably those named."""

    order: OrderId
    count: Count
    nodes: tuple[NodeName, ...] = ()


class Workers(Message, frozen=True, tag="workers", omit_defaults=True):
    """Let ``count`` threads compute in each place; the nodes stay. A program that has no workers refuses it.

    A job that has asked for them in its hello gets the ids of the cores that are its: ``core_ids`` of each node, and
    ``core_ids_of`` nodes that differ.
    """

    order: OrderId
    count: Annotated[int, Meta(ge=1, le=1024)]
    core_ids: CoreList = ""
    core_ids_of: dict[NodeName, CoreList] = {}


class Withdraw(Message, frozen=True, tag="withdraw"):
    """Take back an order that the job deferred; without effect once the job carries it out."""

    order: OrderId


class Answer(Message, frozen=True, tag="answer"):
    """The scheduler's answer to an evolving request."""

    request: OrderId
    granted: int
    reason: Text = ""


# job -> scheduler ---------------------------------------------------------------------------------------------------


class Hello(Message, frozen=True, tag="hello", omit_defaults=True):
    """First line of every connection: who speaks, and the secret that proves it.

    ``core_ids``: workers orders may have ids. Only schedulers that have set ``MALLEABLE_CORE_IDS`` know the word.
    """

    version: int
    job: JobId
    token: Annotated[str, Meta(min_length=16, max_length=256)]
    core_ids: bool = False


class Ready(Message, frozen=True, tag="ready"):
    """The program registered a malleable handler: orders are welcome. ``nodes`` are those that it runs on now."""

    nodes: tuple[NodeName, ...]


class Disable(Message, frozen=True, tag="disable"):
    """The program gave its handler up: no further orders."""


class Progress(Message, frozen=True, tag="progress"):
    """How far the job is, in its own unit; ``total`` where known."""

    done: float
    total: float | None = None
    unit: Annotated[str, Meta(max_length=40)] = "tasks"


class Deferred(Message, frozen=True, tag="deferred"):
    """The order waits for a suitable phase of the program; the scheduler may withdraw it."""

    order: OrderId
    reason: Text = ""


class Outcome(Message, frozen=True, tag="outcome"):
    """How an order ended. ``nodes``: those gained or released; ``phases``: seconds per phase."""

    order: OrderId
    kind: Literal["grow", "shrink", "workers"]
    outcome: OutcomeKind
    reason: Text = ""
    nodes: tuple[NodeName, ...] = ()
    seconds: Seconds = 0.0
    phases: dict[str, Seconds] = {}


class Evolving(Message, frozen=True, tag="evolving"):
    """The program asks for ``delta`` nodes more (positive) or offers nodes back (negative)."""

    request: OrderId
    delta: int


class Lost(Message, frozen=True, tag="lost"):
    """A resilient job goes on without ``nodes``, on which its places died; it did not release them.

    ``loss`` grows from one message to the next, so that one that is repeated is recognised.
    """

    loss: OrderId
    nodes: tuple[NodeName, ...]
    reason: Text = ""


Order: TypeAlias = Grow | Shrink | Workers
ToJob: TypeAlias = Welcome | Refused | Grow | Shrink | Workers | Withdraw | Answer
ToScheduler: TypeAlias = Hello | Ready | Disable | Progress | Deferred | Outcome | Evolving | Lost


class BadMessageError(ValueError):
    """A line that is not a message of the protocol; the text says what is wrong and where."""


_TO_JOB: msgspec.json.Decoder[ToJob] = msgspec.json.Decoder(ToJob)
_TO_SCHEDULER: msgspec.json.Decoder[ToScheduler] = msgspec.json.Decoder(ToScheduler)
_ENCODER = msgspec.json.Encoder()


def encode(message: Message) -> bytes:
    """Encode ``message`` as one line, newline included."""
    return _ENCODER.encode(message) + b"\n"


def decode_to_job(line: bytes) -> ToJob:
    """Decode one line that a scheduler sent.

    Raises:
        BadMessageError: The line is not a message of the protocol.
    """
    try:
        return _TO_JOB.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessageError(str(error)) from None


def decode_to_scheduler(line: bytes) -> ToScheduler:
    """Decode one line that a job sent.

    Raises:
        BadMessageError: The line is not a message of the protocol.
    """
    try:
        return _TO_SCHEDULER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessageError(str(error)) from None
