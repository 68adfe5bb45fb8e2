"""The effects of a place's core: the things that it asks its driver to do."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from apgas.core.messages import FinishId, Message, PlaceInfo, Spawn

Payload: TypeAlias = "list[bytes | bytearray | memoryview]"
"""What a program sends along with a message: opaque to the core."""


class Send(msgspec.Struct, frozen=True):
    """Send a message; sends of one core happen in the order of the effects."""

    dst: int
    message: Message
    payload: Payload


class RunActivity(msgspec.Struct, frozen=True):
    """Start the activity in the payload; its end is reported by ``ended``."""

    src: int
    spawn: Spawn
    payload: Payload


class RunImmediate(msgspec.Struct, frozen=True):
    """Run the payload now, on this thread."""

    src: int
    payload: Payload


class RunUncounted(msgspec.Struct, frozen=True):
    """Start the payload as an activity without a finish; its end is reported by ``uncounted_ended``."""

    src: int
    payload: Payload


class ResolveCall(msgspec.Struct, frozen=True):
    """A call of ours is answered; by an error without a payload if it was cancelled before it began."""

    call: int
    ok: bool
    payload: Payload


class CallLost(msgspec.Struct, frozen=True):
    """A call of ours went to a place that died, and will not be answered."""

    call: int
    place: int


class FinishFired(msgspec.Struct, frozen=True):
    """Every activity of a finish opened here has ended, or is lost: ``lost`` says how many with which dead place."""

    finish: FinishId
    errors: tuple[bytes, ...]
    cancelled: bool = False
    lost: tuple[tuple[int, int], ...] = ()


class PassOn(msgspec.Struct, frozen=True):
    """Call ``pass_on`` for this dense finish soon; ``lives``: an activity of it is alive here, so there is time."""

    finish: FinishId
    lives: bool


class MembersChanged(msgspec.Struct, frozen=True):
    """A new epoch began. Once nothing more is taken from those that ``died``, the core wants ``cut_off`` for each."""

    epoch: int
    added: tuple[PlaceInfo, ...]
    removed: tuple[int, ...]
    died: tuple[int, ...] = ()


class StaysOn(msgspec.Struct, frozen=True):
    """This place was to leave, and stays: the shrink was aborted."""


class LeaverDrained(msgspec.Struct, frozen=True):
    """(place 0) A leaver is ready to be released."""

    order: int
    place: int


class Leaves(msgspec.Struct, frozen=True):
    """This place was released: its process is to end."""


class Ends(msgspec.Struct, frozen=True):
    """The program is over; ``reason`` is empty if it ended well."""

    reason: str


class PlaceLost(msgspec.Struct, frozen=True):
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
    | PassOn
    | MembersChanged
    | StaysOn
    | LeaverDrained
    | Leaves
    | Ends
    | PlaceLost
)
