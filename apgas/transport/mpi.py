"""The mpi plane: frames over TCP whose large buffers travel by MPI, on the communicator of the current epoch.

The TCP connections are the *line*: they authenticate, keep the order, notice losses, carry small frames whole, and ring
when something comes by MPI. So an idle place sleeps in the kernel, which MPI alone cannot do, and a resize stops
no place: what goes to a place that is not in our newest communicator, or to or from place 0 while its MPI spawns,
travels on the line.

A large frame is announced on the line, and its receiver posts the receives when it sees that. The queues of
``Arrivals`` keep it, and what follows from the same place, until all of it is there. Sends are synchronous:
when one has ended, the receiver has it. A side that ends a connection in good order ends its sends first and says BYE;
if the connection of a place that was not forgotten ends without that, the receiver gives up what is incomplete.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from apgas.errors import ProtocolError, SlowPeerError
from apgas.transport import channel
from apgas.transport.base import Buffer, Receiver, TransportClosedError, UnknownPeerError
from apgas.transport.communicators import Build, Communicators, Epoch
from apgas.transport.engine import Engine, Transfer, poke_while
from apgas.transport.loop import EventLoop
from apgas.transport.tcp import TcpTransport
from apgas.transport.wire import checked

_logger = logging.getLogger(__name__)


_TAGS: Final = itertools.count()
"""Of all transports of this process, which in tests share a communicator."""
_MOST_TAGS: Final = 2**24
"""MPICH allows more; a tag is used again when its frame has arrived long since."""
_BUILD_S: Final = 10.0
"""How long a place that leaves waits for communicators that others build with it."""
_ASIDE_S: Final = 1.0
"""How long a spawn waits for what is on its way by MPI."""
_BULK_BYTES: Final = 256 * 1024
_LOST_S: Final = 5.0
"""How long sends to a lost place are kept, and receives from a forgotten one: it may have ended one direction only."""


class MpiTransport:
    """A transport over MPI and ``line``, a TCP transport that was not started yet; keeps the contract of ``base``.

    ``mpi`` is the module mpi4py.MPI, and ``bridge`` a newcomer's; see ``Communicators``. Buffers of at least
    ``bulk_bytes`` travel by MPI.
    """

    def __init__(self, line: TcpTransport, mpi: Any, bridge: Any = None, bulk_bytes: int = _BULK_BYTES) -> None:
        self._line = line
        self.loop = line.loop
        self._mpi = mpi
        self._bulk_bytes = bulk_bytes
        self._here = -1
        self._receiver: Receiver | None = None
        self._byes: set[int] = set()
        self._lost: set[int] = set()
        self._forgotten: set[int] = set()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._close_lock = threading.Lock()
        self._outgoing: dict[int, set[Transfer]] = {}
        self._outgoing_bytes: Counter[int] = Counter()
        self._outgoing_epochs: Counter[int] = Counter()
        self._taken: Counter[int] = Counter()
        self._talked: set[int] = set()
        self._aside: Counter[int] = Counter()
        self._closing = False
        # Asking after a request that has not ended makes MPI look at everything. MPICH 5.0.2 does not when it is asked
        # for messages on a communicator of one process: what was on its way to places of other worlds stayed here.
        self._unending = self._mpi.Grequest.Start()
        calls = self._mpi.Request.Testsome, self._unending.Test
        self._engine = Engine(*calls, self._poke, self._mpi.Get_error_string, "apgas-mpi")
        self._arrivals = Arrivals(self.loop, self._engine, self._mpi.BYTE, self._deliver, self._lose)
        self.communicators = Communicators(mpi, bridge, "apgas-comm")
        self.communicators.on_installed = lambda epoch: self.loop.call_soon(partial(self._installed, epoch))
        self.communicators.on_failed = lambda why: self.loop.call_soon(partial(self._failed, why))
        self.communicators.on_building = self._building
        self.communicators.wait_sent = self._wait_sent
        # what only one part has to do with
        self.address = line.address
        self.learn = line.learn
        self.connect = line.connect
        self.hold = line.hold
        self.drain = line.drain
        self.linger = self._engine.linger

    # what only this plane has ----------------------------------------------------------------------------------------

    def begin(self, number: int, members: Sequence[int]) -> None:
        """(first world) Build the communicator of the epoch that the job begins with; all its places do so."""
        self.communicators.build(Build(number, tuple(members), ()))

    def enter(self, number: int, members: Sequence[int], added: Sequence[int]) -> None:
        """(place 0) Let all ``members`` build the communicator of a new epoch, in the background."""
        worlds = self.communicators.worlds(added)
        task = Build(number, tuple(members), worlds)
        self._notify(members, BUILD + msgspec.msgpack.encode(task))
        self.communicators.build(task)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """(place 0) Let nothing travel to or from here by MPI: it is going to spawn, and would make all that wait."""
        epoch = self.communicators.newest
        places = () if epoch is None else tuple(epoch.ranks)  # in the end the same, though there may be others by then
        with self._changed:
            self._aside[self._here] += 1
        self._notify(places, ASIDE)
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._outgoing, _ASIDE_S)
            yield
        finally:
            with self._changed:
                self._aside[self._here] -= 1
            self._notify(places, BACK)
            self._engine.linger()

    def within(self, places: Sequence[int]) -> Callable[[], None]:
        """Poke ``places`` until what is returned is called: the program may be in an operation of MPI with them.

        Those who have left it already may hold what others still need.
        """
        over = threading.Event()
        self._poke_while(lambda: not over.is_set(), places)
        return over.set

    def _poke_while(self, needed: Callable[[], bool], places: Sequence[int]) -> None:
        poke_while(needed, partial(self._notify, places, POKE), self.loop.call_later)

    def _notify(self, places: Iterable[int], words: bytes) -> None:
        for place in places:
            if place != self._here:
                with suppress(UnknownPeerError, TransportClosedError):  # gone, or we are closing: it is not waited for
                    self._line.send(place, words)

    # the contract ----------------------------------------------------------------------------------------------------

    def start(self, place: int, receiver: Receiver) -> None:
        """Begin to deliver; see ``Transport``."""
        with self._lock:
            self._receiver, self._here, self.communicators.here = receiver, place, place
        self._line.start(place, self)
        self._engine.start()

    def is_lost(self, place: int) -> bool:
        """Return whether the loss of ``place`` was reported; see ``Transport``."""
        return place in self._lost

    def send(self, dst: int, head: bytes, buffers: Sequence[Buffer] = (), *, soon: bool = False) -> None:
        """Send one frame; see ``Transport``."""
        if self._closing:
            raise TransportClosedError("the transport is not running")
        if dst in self._forgotten:
            raise UnknownPeerError(dst, "was forgotten and is not known any more")
        if buffers and dst != self._here:
            views = checked(head, buffers)
            parts = large_parts(views, self._bulk_bytes)
            if parts and self._send_beside(dst, head, views, parts):
                return
        self._line.send(dst, WHOLE + head, buffers, soon=soon)

    def crowded(self, dst: int) -> bool:
        """Return whether ``throttle`` would wait; see ``Transport``."""
        return self._outgoing_bytes[dst] > channel.MOST_QUEUED_BYTES or self._line.crowded(dst)

    def throttle(self, dst: int) -> None:
        """Wait while too much is queued for ``dst``; see ``Transport``."""
        high_bytes, patience_s = channel.MOST_QUEUED_BYTES, channel.PATIENCE_S
        if self._outgoing_bytes[dst] > high_bytes and not self.loop.in_thread():
            with self._changed:
                taken = self._taken[dst]
                while not self._changed.wait_for(
                    lambda: self._outgoing_bytes[dst] <= high_bytes or self._closing, patience_s
                ):
                    taken, before = self._taken[dst], taken
                    if taken == before:
                        left_bytes = self._outgoing_bytes[dst]
                        raise SlowPeerError(f"place {dst} left {left_bytes} bytes on their way for {patience_s} s")
        self._line.throttle(dst)

    def forget(self, place: int) -> None:
        """End what is on its way to ``place``, then close the connection to it; see ``Transport``."""
        if place == self._here:
            return
        with self._lock:
            if place in self._forgotten:
                return
            self._forgotten.add(place)
            sending = place in self._outgoing
        self._line.on_gone(place, partial(self._ended, place))
        if not sending:
            self._part_from(place)

    def on_gone(self, place: int, callback: Callable[[], None]) -> None:
        """Run ``callback`` when the connection from ``place`` has ended; see ``Transport``."""
        self._line.on_gone(place, lambda: self._arrivals.take(place, callback, always=True))

    def close(self, timeout_s: float = 1.0) -> None:
        """End what is on its way for at most ``timeout_s`` seconds, then everything else; see ``Transport``."""
        self._line.check_may_close()
        with self._close_lock:
            if self._closing:
                return
            self.communicators.settled(_BUILD_S)
            with self._changed:
                self._closing = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: not self._outgoing, timeout_s)
                talked = sorted(self._talked - self._forgotten)
            self._notify(talked, BYE)
            self._line.close(timeout_s)
            self._engine.stop()
            self._unending.Complete()
            self._unending.Wait()

    # sending ---------------------------------------------------------------------------------------------------------

    def _send_beside(self, dst: int, head: bytes, views: Sequence[Buffer], parts: list[Part]) -> bool:
        """Send ``parts`` by MPI and the rest on the line; False if they have to travel on the line, too."""
        if not self._by_mpi(dst):
            return False
        owned = [unchanging(views[part.position]) for part in parts]
        size_bytes = sum(part.length_bytes for part in parts)
        with self._lock:
            epoch = self._by_mpi(dst)
            if epoch is None:
                return False
            comm, rank, tag = epoch.comm, epoch.ranks[dst], next(_TAGS) % _MOST_TAGS
            transfer = Transfer(
                lambda: (comm.Issend((buffer, self._mpi.BYTE), rank, tag) for buffer in owned),
                lambda error: self._sent(dst, epoch.number, transfer, size_bytes, error),
                receiving=False,
            )
            self._outgoing.setdefault(dst, set()).add(transfer)
            self._outgoing_bytes[dst] += size_bytes
            self._outgoing_epochs[epoch.number] += 1
            self._talked.add(dst)
        self._engine.submit(transfer)
        beside = {part.position for part in parts}
        rest = [view for position, view in enumerate(views) if position not in beside]
        try:
            self._line.send(dst, announce(Announcement(epoch.number, tag, tuple(parts)), head), rest)
        except BaseException:
            # it will not be asked for, and its tag is used by no other
            self._engine.give_up(transfer)
            self._sent(dst, epoch.number, transfer, size_bytes, "")
            raise
        return True

    def _by_mpi(self, dst: int) -> Epoch | None:
        """The communicator to reach ``dst`` by; None: it has to be reached on the line."""
        epoch = self.communicators.newest
        if epoch is None or dst not in epoch.ranks or self._aside[self._here] or self._aside[dst]:
            return None
        return epoch

    def _sent(self, dst: int, number: int, transfer: Transfer, size_bytes: int, error: str) -> None:
        """(engine) A transfer to ``dst`` has ended."""
        with self._changed:
            transfers = self._outgoing.get(dst, set())
            if transfer not in transfers:
                return
            transfers.remove(transfer)
            self._outgoing_bytes[dst] -= size_bytes
            self._outgoing_epochs[number] -= 1
            self._taken[dst] += 1
            if not transfers:
                del self._outgoing[dst], self._outgoing_bytes[dst]
            last_words = not transfers and dst in self._forgotten
            self._changed.notify_all()
        if last_words:
            self.loop.call_soon(partial(self._part_from, dst))
        if error:
            self.loop.call_soon(partial(self._lose, dst, f"cannot send by MPI: {error}"))

    def _wait_sent(self, number: int, timeout_s: float) -> bool:
        """Wait until nothing is on its way on the communicator of epoch ``number``."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._outgoing_epochs[number], timeout_s)

    def _part_from(self, place: int) -> None:
        """End the connection to a forgotten place, after a BYE."""
        if place in self._talked:
            self._notify([place], BYE)
        self._line.forget(place)

    def _poke(self) -> None:
        """(engine) What we send is not taken for long."""
        with self._lock:
            places = list(self._outgoing)
        self._notify(places, POKE)

    def _abandon(self, place: int) -> None:
        """Do not wait any longer for a lost place to take what was sent to it."""
        with self._changed:
            transfers = list(self._outgoing.get(place, ()))
        for transfer in transfers:
            self._engine.give_up(transfer)
            transfer.end("")

    # receiving: the rest runs on the io thread -----------------------------------------------------------------------

    def on_frame(
        self, src: int, head: bytes | bytearray | memoryview, buffers: Sequence[bytearray | memoryview]
    ) -> None:
        """Take a frame of the line."""
        kind = head[:1]
        if kind == WHOLE:
            rest = head[1:] if isinstance(head, bytes) else memoryview(head)[1:]
            if src in self._arrivals.waiting:
                self._arrivals.take(src, partial(self._deliver, src, rest, buffers))
            else:
                self._deliver(src, rest, buffers)
            return
        try:
            if kind == ANNOUNCED:
                self._arrivals.expect(src, head, buffers)
            elif kind == BUILD and src == 0:
                self.communicators.build(msgspec.msgpack.decode(memoryview(head)[1:], type=Build))
            elif kind == BYE:
                self._byes.add(src)
            elif kind == POKE:
                self._engine.linger()
            elif kind in (ASIDE, BACK):
                with self._lock:
                    self._aside[src] += 1 if kind == ASIDE else -1
            else:
                raise ProtocolError(f"a frame of kind {bytes(kind)!r} makes no sense")
        except (ProtocolError, MemoryError, msgspec.DecodeError) as error:
            self._lose(src, f"protocol error: {error}")

    def on_lost(self, place: int, reason: str) -> None:
        """Take the loss of a connection of the line: report it in its turn."""
        if self._closing or place in self._forgotten:
            return
        if place not in self._byes:
            self._arrivals.drop(place)
        self._arrivals.take(place, partial(self._report, place, reason), always=True)
        self.loop.call_later(_LOST_S, partial(self._abandon, place))

    def _deliver(self, src: int, head: bytes | memoryview, buffers: Sequence[bytearray | memoryview]) -> None:
        assert self._receiver is not None
        if src not in self._lost:
            self._receiver.on_frame(src, head, buffers)

    def _report(self, place: int, reason: str) -> None:
        assert self._receiver is not None
        if place not in self._lost:
            self._lost.add(place)
            self._receiver.on_lost(place, reason)

    def _lose(self, place: int, reason: str) -> None:
        """Give up a place whose connection may be fine, but whose frames cannot be delivered."""
        if not self._closing and place not in self._forgotten:
            _logger.warning("place %d: gives up place %d: %s", self._here, place, reason)
            self._arrivals.drop(place)
            self._report(place, reason)
            self._line.forget(place)

    def _failed(self, why: str) -> None:
        """The communicators cannot be built: others wait for us, so the job cannot go on."""
        newest = self.communicators.newest
        others = [0] if newest is None else [place for place in newest.ranks if place != self._here]
        for place in others[:1]:
            self._lose(place, why)

    def _building(self, task: Build) -> None:
        """A communicator is being built, by all its members: none of them can leave MPI alone before it is there."""
        self._poke_while(lambda: not self.communicators.reached(task.number), task.members)

    def _installed(self, epoch: Epoch) -> None:
        self._engine.linger()
        self._arrivals.installed(epoch)

    def _ended(self, place: int) -> None:
        """The connection from a forgotten place has ended: perhaps in good order, but it could not say BYE any more."""
        if place not in self._byes and place in self._arrivals.waiting:
            self.loop.call_later(_LOST_S, partial(self._arrivals.drop, place))
        self.loop.call_later(_LOST_S, partial(self._abandon, place))


# Receives by MPI what was announced on the line, and keeps the order of what comes on both ways (io thread only) -----

Deliver: TypeAlias = Callable[[int, "bytes | memoryview", Sequence["bytearray | memoryview"]], None]
_KEPT = 2
"""By the time that a third communicator is there, nothing travels on the first any more."""


class Arrival(msgspec.Struct, eq=False):
    """Something of a place that is to be done in its turn, once it is complete; ``always``: even after ``drop``.

    ``transfer``: what is on its way of it by MPI.
    """

    act: Callable[[], None]
    complete: bool
    always: bool = False
    transfer: Transfer | None = None


class Arrivals:
    """First in, first out per place; what is complete waits for what came before and is not.

    ``deliver`` is given each frame in its turn; ``lose`` a place whose frames cannot be received, with the reason.

    Attributes:
        waiting: The places of which something is incomplete, with all that waits.
    """

    def __init__(
        self, loop: EventLoop, engine: Engine, byte: Any, deliver: Deliver, lose: Callable[[int, str], None]
    ) -> None:
        self.waiting: Final[dict[int, deque[Arrival]]] = {}
        self._loop = loop
        self._engine = engine
        self._byte = byte
        self._deliver = deliver
        self._lose = lose
        self._early: dict[int, list[Callable[[Epoch], None]]] = {}
        self._epochs: dict[int, Epoch] = {}

    def take(self, place: int, act: Callable[[], None], *, always: bool = False) -> None:
        """Do ``act`` in its turn: now, if nothing of ``place`` waits. ``always``: it is not to be dropped."""
        queue = self.waiting.get(place)
        if queue is None:
            _do(act)
        else:
            queue.append(Arrival(act, complete=True, always=always))

    def expect(self, src: int, head: bytes | bytearray | memoryview, small: Sequence[bytearray | memoryview]) -> None:
        """Keep the turn of a frame, and receive what is missing of it as soon as its communicator is there.

        Raises:
            ProtocolError: It makes no sense, or its communicator is there no more.
            MemoryError: There is not enough for it.
        """
        announcement, rest = parse_announcement(head)
        number = announcement.number
        missing = [(part, bytearray(part.length_bytes)) for part in announcement.parts]
        frame = assemble(small, missing)
        if number not in self._epochs and self._epochs and number < max(self._epochs):
            raise ProtocolError(f"a frame by the communicator of epoch {number}, which is gone")
        arrival = Arrival(partial(self._deliver, src, rest, frame), complete=False)
        self.waiting.setdefault(src, deque()).append(arrival)
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
        """Forget all of ``place`` that waits, for what is incomplete will not be completed any more."""
        for arrival in self.waiting.pop(place, ()):
            if arrival.transfer is not None:
                self._engine.give_up(arrival.transfer)
            if arrival.always:
                _do(arrival.act)

    def _receive(self, src: int, arrival: Arrival, tag: int, memory: list[bytearray], epoch: Epoch) -> None:
        if arrival not in self.waiting.get(src, ()):
            return
        comm, rank = epoch.comm, epoch.ranks[src]
        arrival.transfer = Transfer(
            lambda: (comm.Irecv((buffer, self._byte), rank, tag) for buffer in memory),
            lambda error: self._received_soon(src, arrival, error),
            receiving=True,
        )
        self._engine.submit(arrival.transfer)

    def _received_soon(self, src: int, arrival: Arrival, error: str) -> None:
        if self._loop.in_thread():
            self._received(src, arrival, error)
        else:
            self._loop.call_soon(partial(self._received, src, arrival, error))

    def _received(self, src: int, arrival: Arrival, error: str) -> None:
        queue = self.waiting.get(src, deque())
        if arrival not in queue:
            return
        arrival.transfer = None
        if error:
            self._lose(src, f"cannot receive by MPI: {error}")
            return
        arrival.complete = True
        while queue and queue[0].complete:
            # what is done may send to ourselves, but never changes the queue of a place
            _do(queue.popleft().act)
        if not queue:
            del self.waiting[src]


def _do(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception:
        _logger.exception("what arrived could not be taken")


# Announcements: the head of a frame on the line of the mpi plane -----------------------------------------------------
#
# The line is TCP and keeps the order; MPI carries the buffers that are worth it. The first byte is the kind:
#
#     WHOLE       the frame is all there
#     ANNOUNCED   an ``Announcement`` of the buffers that come by MPI, and the head; the others are in the frame. All
#                 buffers of one frame have one tag, and come in the order of their positions.
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

B = TypeVar("B")
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Part(NamedTuple):
    """A buffer that comes by MPI: where it belongs in the frame, and its length in bytes."""

    position: _Number
    length_bytes: _Number


class Announcement(NamedTuple):
    """The buffers that come by MPI: on which communicator, with which tag."""

    number: _Number
    tag: _Number
    parts: tuple[Part, ...]


_ANNOUNCEMENTS: Final = msgspec.msgpack.Decoder(tuple[Announcement, memoryview])


def large_parts(views: Sequence[Buffer], from_bytes: int) -> list[Part]:
    """Return the buffers of at least ``from_bytes``."""
    return [Part(position, len(view)) for position, view in enumerate(views) if len(view) >= from_bytes]


def announce(announcement: Announcement, head: bytes) -> bytes:
    """Return ``head`` with the announcement before it."""
    return ANNOUNCED + msgspec.msgpack.encode((announcement, head))


def parse_announcement(head: bytes | bytearray | memoryview) -> tuple[Announcement, memoryview]:
    """Return the announcement and the frame's own head.

    Raises:
        ProtocolError: ``announce`` has not made this.
    """
    try:
        return _ANNOUNCEMENTS.decode(memoryview(head)[1:])
    except msgspec.DecodeError as error:
        raise ProtocolError(f"an announcement makes no sense: {error}") from None


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


def unchanging(view: Buffer) -> Buffer:
    """The bytes of ``view`` as they are now; copied if they could be changed."""
    if isinstance(view, bytes) or (isinstance(view, memoryview) and isinstance(view.obj, bytes)):
        return view
    return bytes(view)
