"""What a place's core asks its driver to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from apgas.core.messages import FinishId, Message, PlaceInfo, Spawn

Payload: TypeAlias = "list[bytes | bytearray | memoryview]"
"""What a program sends along with a message: opaque to the core."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message; sends of one core happen in the order of the effects."""

    dst: int
    message: Message
    payload: Payload


@dataclass(frozen=True, slots=True)
class RunActivity:
    """Start the activity in the payload; its end is told by ``ended``."""

    src: int
    spawn: Spawn
    payload: Payload


@dataclass(frozen=True, slots=True)
class RunImmediate:
    """Run the payload now, on this thread."""

    src: int
    payload: Payload


@dataclass(frozen=True, slots=True)
class RunUncounted:
    """Start the payload as an activity without a finish; its end is told by ``uncounted_ended``."""

    src: int
    payload: Payload


@dataclass(frozen=True, slots=True)
class ResolveCall:
    """A call of ours is answered; by an error without a payload if it was cancelled before it began."""

    call: int
    ok: bool
    payload: Payload


@dataclass(frozen=True, slots=True)
class CallLost:
    """A call of ours went to a place that died, and will not be answered."""

    call: int
    place: int


@dataclass(frozen=True, slots=True)
class FinishFired:
    """Every activity of a finish opened here has ended, or is lost: ``lost`` tells how many with which dead place."""

    finish: FinishId
    errors: tuple[bytes, ...]
    cancelled: bool = False
    lost: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """A new epoch began. Once nothing more is taken from those that ``died``, the core wants ``cut_off`` for each."""

    epoch: int
    added: tuple[PlaceInfo, ...]
    removed: tuple[int, ...]
    died: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaverDrained:
    """(place 0) A leaver is ready to be released."""

    order: int
    place: int


@dataclass(frozen=True, slots=True)
class Leaves:
    """This place was released: its process is to end."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The program is over; ``reason`` is empty if it ended well."""

    reason: str


@dataclass(frozen=True, slots=True)
class PlaceLost:
    """(place 0) A place died, or failed by itself."""

    place: int
    reason: str


Effect: TypeAlias = (
    Send
    | RunActivity
    | RunImmediate
    | RunUncounted
    | ResolveCall
    | CallLost
    | FinishFired
    | MembersChanged
    | LeaverDrained
    | Leaves
    | Ends
    | PlaceLost
)
