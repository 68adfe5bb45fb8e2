"""Receives by MPI what was announced on the line, and keeps the order of what comes on both ways."""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from apgas.errors import ProtocolError
from apgas.transport.base import Buffer
from apgas.transport.communicators import Epoch
from apgas.transport.endpoint import OnLoop
from apgas.transport.engine import Engine, Transfer

Deliver: TypeAlias = Callable[[int, "bytes | memoryview", Sequence["bytearray | memoryview"]], None]
_KEPT = 2
"""By the time that a third communicator is there, nothing travels on the first any more."""


class Announced:
    """The large frames that are on their way here.

    Args:
        loop: The io thread.
        engine: Carries out the receives.
        byte: MPI's type of a byte.
        deliver: Is given each frame in its turn.
        lose: Called for a place whose frames cannot be received, with the reason.

    Attributes:
        arrivals: What waits for its turn.
    """

    def __init__(
        self, loop: OnLoop, engine: Engine, byte: Any, deliver: Deliver, lose: Callable[[int, str], None]
    ) -> None:
        self.arrivals = Arrivals()
        self._loop = loop
        self._engine = engine
        self._byte = byte
        self._deliver = deliver
        self._lose = lose
        self._transfers: dict[int, dict[Arrival, Transfer | None]] = {}
        self._early: dict[int, list[Callable[[Epoch], None]]] = {}
        self._epochs: dict[int, Epoch] = {}

    def expect(self, src: int, head: bytes | bytearray | memoryview, small: Sequence[bytearray | memoryview]) -> None:
        """Keep the turn of a frame, and receive what is missing of it as soon as its communicator is there.

        Raises:
            ProtocolError: It makes no sense, or its communicator is there no more.
            MemoryError: There is not enough for it.
        """
        announcement, rest = parse(head)
        number = announcement.number
        missing = [(part, bytearray(part.length_bytes)) for part in announcement.parts]
        frame = assemble(small, missing)
        if number not in self._epochs and self._epochs and number < max(self._epochs):
            raise ProtocolError(f"a frame by the communicator of epoch {number}, which is gone")
        arrival = self.arrivals.expect(src, partial(self._deliver, src, rest, frame))
        self._transfers.setdefault(src, {})[arrival] = None
        begin = partial(self._receive, src, arrival, announcement.tag, [memory for _, memory in missing])
        if number in self._epochs:
            begin(self._epochs[number])
        else:
            self._early.setdefault(number, []).append(begin)

    def installed(self, epoch: Epoch) -> None:
        """A communicator is there."""
        self._epochs[epoch.number] = epoch
        for number in sorted(self._epochs)[:-_KEPT]:
            del self._epochs[number]
        for begin in self._early.pop(epoch.number, ()):
            begin(epoch)

    def drop(self, place: int) -> None:
        """Give up what is on its way from ``place``."""
        for transfer in self._transfers.pop(place, {}).values():
            if transfer is not None:
                self._engine.give_up(transfer)
        self.arrivals.drop(place)

    def _receive(self, src: int, arrival: Arrival, tag: int, memory: list[bytearray], epoch: Epoch) -> None:
        if arrival not in self._transfers.get(src, {}):
            return
        comm, rank = epoch.comm, epoch.ranks[src]
        transfer = Transfer(
            lambda: (comm.Irecv((buffer, self._byte), rank, tag) for buffer in memory),
            lambda error: self._received_soon(src, arrival, error),
            receiving=True,
        )
        self._transfers[src][arrival] = transfer
        self._engine.submit(transfer)

    def _received_soon(self, src: int, arrival: Arrival, error: str) -> None:
        if self._loop.in_io_thread():
            self._received(src, arrival, error)
        else:
            self._loop.call_soon(partial(self._received, src, arrival, error))

    def _received(self, src: int, arrival: Arrival, error: str) -> None:
        transfers = self._transfers.get(src, {})
        if arrival not in transfers:
            return
        del transfers[arrival]
        if error:
            self._lose(src, f"cannot receive by MPI: {error}")
        else:
            self.arrivals.completed(src, arrival)


# Frames in order, while parts of them are on their way (io thread only) ----------------------------------------------

_logger = logging.getLogger(__name__)


class Arrival:
    """Something of a place that is to be done in its turn, once it is complete; ``always``: even after ``drop``."""

    __slots__ = ("act", "always", "complete")

    def __init__(self, act: Callable[[], None], *, complete: bool, always: bool = False) -> None:
        self.act = act
        self.complete = complete
        self.always = always


class Arrivals:
    """First in, first out per place; what is complete waits for what came before and is not.

    Attributes:
        waiting: The places of which something is incomplete, with all that waits.
    """

    def __init__(self) -> None:
        self.waiting: Final[dict[int, deque[Arrival]]] = {}

    def take(self, place: int, act: Callable[[], None], *, always: bool = False) -> None:
        """Do ``act`` in its turn: now, if nothing of ``place`` waits. ``always``: it is not to be dropped."""
        queue = self.waiting.get(place)
        if queue is None:
            _do(act)
        else:
            queue.append(Arrival(act, complete=True, always=always))

    def expect(self, place: int, act: Callable[[], None]) -> Arrival:
        """Keep the turn of ``act``, which is done after ``completed``."""
        arrival = Arrival(act, complete=False)
        self.waiting.setdefault(place, deque()).append(arrival)
        return arrival

    def completed(self, place: int, arrival: Arrival) -> None:
        """Do what has waited for ``arrival`` only."""
        arrival.complete = True
        queue = self.waiting.get(place)
        while queue and queue[0].complete:
            # what is done may send to ourselves, but never changes the queue of a place
            _do(queue.popleft().act)
        if queue is not None and not queue:
            del self.waiting[place]

    def drop(self, place: int) -> None:
        """Forget all of ``place`` that waits, for what is incomplete will not be completed any more."""
        for arrival in self.waiting.pop(place, ()):
            if arrival.always:
                _do(arrival.act)


def _do(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception:
        _logger.exception("what arrived could not be taken")


# Announcements: the head of a frame on the line of the mpi plane -----------------------------------------------------
#
# The line is TCP and keeps the order; MPI carries the buffers that are worth it. The first byte tells:
#
#     WHOLE       the frame is all there
#     ANNOUNCED   number of the communicator, tag, then position and length of each buffer that comes by MPI; the others
#                 are in the frame. All buffers of one frame have one tag, and come in the order of their positions.
#     BUILD       no frame: place 0 asks to build the communicator of an epoch
#     BYE         no frame: the sender has sent everything by MPI that it has announced
#     ASIDE       no frame: MPI is busy at the sender, so nothing should come by it until BACK
#     BACK        no frame: MPI is free again at the sender
#     POKE        no frame: the sender waits for MPI, which may need to be called here, too

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
    """The buffers that come by MPI: on which communicator, with which tag."""

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
    """The bytes of ``view`` as they are now; copied if they could be changed."""
    if isinstance(view, bytes) or (isinstance(view, memoryview) and isinstance(view.obj, bytes)):
        return view
    return bytes(view)
