"""What stands before the head of a frame on the mpi plane's line: is the frame whole, or do parts come by MPI? Pure.

The line is TCP and keeps the order; MPI carries the buffers that are worth it. The first byte tells:

    WHOLE       the frame is all there
    ANNOUNCED   number of the communicator, tag, then position and length of each buffer that comes by MPI; the others
                are in the frame. All buffers of one frame have one tag, and come in the order of their positions.
    BUILD       no frame: place 0 asks to build the communicator of an epoch
    BYE         no frame: the sender has sent everything by MPI that it has announced
    ASIDE       no frame: MPI is busy at the sender, so nothing should come by it until BACK
    BACK        no frame: MPI is free again at the sender
    POKE        no frame: the sender waits for MPI, which may need to be called here, too
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from apgas.errors import ProtocolError
from apgas.transport.base import Buffer

WHOLE: Final = b"\x00"
ANNOUNCED: Final = b"\x01"
BUILD: Final = b"\x02"
BYE: Final = b"\x03"
ASIDE: Final = b"\x04"
BACK: Final = b"\x05"
POKE: Final = b"\x06"

_FIXED: Final = struct.Struct("!cQII")
_PART: Final = struct.Struct("!IQ")

B = TypeVar("B")


class Part(NamedTuple):
    """A buffer that comes by MPI: where it belongs in the frame, and its length in bytes."""

    position: int
    length_bytes: int


class Announcement(NamedTuple):
    """What is told of the buffers that come by MPI: on which communicator, with which tag."""

    number: int
    tag: int
    parts: tuple[Part, ...]


def large(views: Sequence[Buffer], from_bytes: int) -> list[Part]:
    """Return the buffers of at least ``from_bytes``."""
    return [Part(position, len(view)) for position, view in enumerate(views) if len(view) >= from_bytes]


def announce(announcement: Announcement, head: bytes) -> bytes:
    """Return ``head`` with the announcement before it."""
    number, tag, parts = announcement
    return b"".join((_FIXED.pack(ANNOUNCED, number, tag, len(parts)), *(_PART.pack(*part) for part in parts), head))


def parse(head: bytes | bytearray | memoryview) -> tuple[Announcement, memoryview]:
    """Return the announcement and the frame's own head.

    Raises:
        ProtocolError: ``announce`` has not made this.
    """
    view = memoryview(head)
    try:
        _, number, tag, count = _FIXED.unpack_from(view)
        ends = _FIXED.size + count * _PART.size
        parts = tuple(Part(*part) for part in _PART.iter_unpack(view[_FIXED.size : ends]))
    except struct.error as error:
        raise ProtocolError(f"an announcement is cut off: {error}") from None
    if len(parts) != count:
        raise ProtocolError(f"an announcement of {count} buffers names {len(parts)}")
    return Announcement(number, tag, parts), view[ends:]


def assemble(small: Iterable[B], large: Iterable[tuple[Part, B]]) -> list[B]:
    """Put the buffers that came by MPI between those that came with the frame.

    Raises:
        ProtocolError: A position is not in the frame, or two are the same.
    """
    buffers = list(small)
    for part, buffer in large:
        if part.position > len(buffers):
            raise ProtocolError(f"a buffer is announced at position {part.position} of {len(buffers)}")
        buffers.insert(part.position, buffer)
    return buffers


def own(view: Buffer) -> Buffer:
    """The bytes of ``view`` as they are now; copied if somebody could change them."""
    if isinstance(view, bytes) or (isinstance(view, memoryview) and isinstance(view.obj, bytes)):
        return view
    return bytes(view)
