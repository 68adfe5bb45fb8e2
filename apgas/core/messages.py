"""The messages between places. A message is small and typed; what a program sends along is an opaque payload.

Every message carries the sender's epoch. A receiver that is still in an earlier epoch holds the message until the news
of the change has reached it, so no place ever acts on one that it does not know yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec


class PlaceInfo(msgspec.Struct, frozen=True, array_like=True):
    """What the members know of each other: id, where it listens, and for people its node and process id."""

    place: int
    host: str
    port: int
    node: str
    pid: int


class FinishId(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A finish: the place that opened it (its home) and a number unique there, below 0 if it is ``dense``."""

    home: int
    seq: int

    @property
    def dense(self) -> bool:
        """Whether its reports go up a tree: every place has to know that, from the first message on."""
        return self.seq < 0


RefId: TypeAlias = FinishId
"""A reference: the place that made it (its home) and a number unique there."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of the messages between places."""

    epoch: int


class OfFinish(Message, frozen=True, array_like=True, tag=True):
    """Base of those about a finish."""

    finish: FinishId


class OfShrink(Message, frozen=True, array_like=True, tag=True):
    """Base of those about the shrink of this ``order``."""

    order: int


# activities ----------------------------------------------------------------------------------------------------------


class Spawn(OfFinish, frozen=True, array_like=True, tag=True):
    """Run the payload as an activity under ``finish``; answer to the sender's ``call``.

    ``to_caller``: an error goes to the caller alone (``at``), not to the finish (``async_at``).
    """

    call: int
    to_caller: bool


class Reply(Message, frozen=True, array_like=True, tag=True):
    """The value (``ok``) or the error of the activity that answers ``call``; it is in the payload.

    An error without a payload: the finish was cancelled before the activity began.
    """

    call: int
    ok: bool


class Report(OfFinish, frozen=True, array_like=True, tag=True):
    """A place that fell quiet under ``finish`` reports to its home what happened since its last report.

    ``spawned``: activities sent, per place; ``completed``: activities ended here; ``sources``: where those came from,
    in resilient jobs (``core.resilient``). The payload holds the errors (``pack_errors``).
    """

    spawned: dict[int, int]
    completed: int
    sources: dict[int, int] | None = None


class Relayed(OfFinish, frozen=True, array_like=True, tag=True):
    """Reports of a dense finish on their way to its home, added up; fields as in ``core.finish.Gathered``.

    The payload holds the errors.
    """

    open: dict[int, int]
    heard: dict[int, tuple[int, int]]


class Word(msgspec.Struct, frozen=True, array_like=True):
    """What one place of a resilient job says of a dense finish: some of its reports, added up (``core.resilient``).

    ``turn``: how often it has begun to say all anew; ``count``, ``highest``: how many reports of that turn these are,
    and the highest of their numbers. ``sent``: activities sent, per place; ``completed``: activities ended, by where
    they came from: both since the finish began, of those numbers that have changed. ``errors``: by their numbers there.
    """

    turn: int
    count: int
    highest: int
    sent: dict[int, int]
    completed: dict[int, int]
    errors: dict[int, bytes]


class Said(OfFinish, frozen=True, array_like=True, tag=True):
    """(resilient jobs) What ``Relayed`` is in other jobs: words of places about a dense finish, on their way home."""

    words: dict[int, Word]


class Fulfilled(OfFinish, frozen=True, array_like=True, tag=True):
    """(resilient jobs) A dense finish has fired: who has reported for it need not remember what."""


class Answer(Message, frozen=True, array_like=True, tag=True):
    """A ``Reply`` and a ``Report`` without errors in one, for a place that made a call and is home of its finish."""

    call: int
    ok: bool
    finish: FinishId
    spawned: dict[int, int]
    completed: int
    sources: dict[int, int] | None = None


class Immediate(Message, frozen=True, array_like=True, tag=True):
    """Run the payload at once on the receiving thread; counted by no finish."""


class Uncounted(Message, frozen=True, array_like=True, tag=True):
    """Run the payload as an activity that no finish counts and that is not waited for."""


class Cancel(OfFinish, frozen=True, array_like=True, tag=True):
    """Start nothing more under ``finish``; to its home: have it cancelled everywhere. See ``core.finish``."""


class Forget(OfFinish, frozen=True, array_like=True, tag=True):
    """The home of ``finish``, which was cancelled, says that it has fired."""


# references ----------------------------------------------------------------------------------------------------------


class Carries(Message, frozen=True, array_like=True, tag=True):
    """The next message to the receiver carries copies of ``refs``. See ``core.references``."""

    refs: tuple[RefId, ...]


class RefReport(Message, frozen=True, array_like=True, tag=True):
    """The place ``by``, which holds no copy of ``ref``, reports to its home what happened since its last report.

    Those of a leaver go by way of place 0, for its connection to the home may be at its end.
    """

    by: int
    ref: RefId
    sent: dict[int, int]
    dropped: int


class Freed(Message, frozen=True, array_like=True, tag=True):
    """The objects of a ``PlaceLocal`` are not needed any more."""

    ref: RefId


# membership ----------------------------------------------------------------------------------------------------------


class Members(Message, frozen=True, array_like=True, tag=True):
    """Place 0 commits a change: ``epoch`` is the new one. ``died``: lost in a resilient job, without draining."""

    added: tuple[PlaceInfo, ...]
    removed: tuple[int, ...]
    died: tuple[int, ...] = ()


class Leave(OfShrink, frozen=True, array_like=True, tag=True):
    """Place 0 prepares a shrink: send nothing new to ``leavers``, and confirm that to each of them with a ``Final``."""

    leavers: tuple[int, ...]


class Final(OfShrink, frozen=True, array_like=True, tag=True):
    """The sender will spawn nothing more at the receiver under shrink ``order``."""


class Drained(OfShrink, frozen=True, array_like=True, tag=True):
    """A leaver has nothing left to run, to wait for, or to receive."""


class StayOn(OfShrink, frozen=True, array_like=True, tag=True):
    """Place 0 aborts shrink ``order``: the leavers stay members."""


class Release(OfShrink, frozen=True, array_like=True, tag=True):
    """A drained leaver may go: its process ends."""


class Parted(OfShrink, frozen=True, array_like=True, tag=True):
    """(resilient jobs) What ``Drained`` is to place 0, for all other places: the sender has sent its last message."""


class Seen(OfShrink, frozen=True, array_like=True, tag=True):
    """(resilient jobs) The sender has everything of ``leaver`` that it needs: place 0 may release that one."""

    leaver: int


class LossReport(Message, frozen=True, array_like=True, tag=True):
    """(resilient jobs) A survivor has taken all that it will ever take from the dead ``place``; sent to every member.

    ``pending``: how many activities of that place's live or wait to be reported here, per finish of the receiver; those
    not named have none. See ``core.resilient``.
    """

    place: int
    pending: dict[int, int]


# the end -------------------------------------------------------------------------------------------------------------


class Lost(Message, frozen=True, array_like=True, tag=True):
    """A place reports to place 0 that it lost the connection to ``place``, or that it failed itself."""

    place: int
    reason: str


class End(Message, frozen=True, array_like=True, tag=True):
    """The program is over on every place; ``reason`` says why if it did not end well."""

    reason: str


AnyMessage: TypeAlias = (
    Spawn
    | Reply
    | Answer
    | Report
    | Relayed
    | Said
    | Fulfilled
    | Immediate
    | Uncounted
    | Cancel
    | Forget
    | Members
    | Leave
    | Final
    | Drained
    | StayOn
    | Release
    | Parted
    | Seen
    | LossReport
    | Lost
    | End
)
OfReferences: TypeAlias = Carries | RefReport | Freed
"""Messages that have nothing to do with finishes; of them a report alone waits for its epoch."""
OF_REFERENCES = (Carries, RefReport, Freed)
News: TypeAlias = Members | Leave | StayOn
"""What place 0 decides about the members: it reaches every place by a tree (``core.relay``)."""
FROM_PLACE_0_ONLY = (Release, End)

_ENCODER = msgspec.msgpack.Encoder()
_ERRORS = msgspec.msgpack.Decoder(list[bytes])

encode: Callable[[Message], bytes] = _ENCODER.encode
"""Encodes a message for the wire."""
decode_frame: Callable[[bytes | bytearray | memoryview], AnyMessage | OfReferences]
decode_frame = msgspec.msgpack.Decoder(AnyMessage | OfReferences).decode
"""Decodes whatever one place may send to another, strictly: raises ``msgspec.DecodeError`` if it is no such message."""


def pack_errors(errors: Sequence[bytes]) -> list[bytes | bytearray | memoryview]:
    """Make the payload of a report: one buffer, however many activities failed; none if there are no errors."""
    return [_ENCODER.encode(errors)] if errors else []


def unpack_errors(payload: list[bytes | bytearray | memoryview]) -> list[bytes]:
    """Read the payload of a report.

    Raises:
        msgspec.DecodeError: It was not made by ``pack_errors``.
    """
    return _ERRORS.decode(payload[0]) if payload else []
