"""Shared memory between places of one machine: large buffers are written once and read where they are.

The sender of a connection owns a few *segments* (anonymous memory). It copies the buffers of a frame into a free one
and sends the frame without them; the segment's file descriptor goes along the first time. The receiver maps it and
hands out views. When the last of them is dropped, it says so on the way back, and the segment is used again: fresh
memory would cost several times the copy. A connection that breaks leaves nothing behind, for the memory has no name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import socket
import struct
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from apgas.errors import ProtocolError

if TYPE_CHECKING:
    from apgas.transport.base import Buffer

LEAST_BYTES: Final = 512 * 1024
"""Frames with fewer bytes in buffers travel by the socket."""
MOST_BYTES: Final = 256 * 2**20
"""How much memory one place lends at most; what exceeds it travels by the socket."""
_ALIGNED: Final = 64
_SMALLEST: Final = 2**20
_COPIED_AT_ONCE: Final = 4 * 2**20
"""After each copy of this number of bytes other threads may run."""
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
NUMBER: Final = struct.Struct("!Q")
_FD: Final = struct.Struct("i")
_MOST_FDS: Final = 8
_CONTROL_BYTES: Final = socket.CMSG_SPACE(_MOST_FDS * _FD.size)


class Handing(bytes):
    """Bytes that a file descriptor goes along with."""

    fd: int


class Loan(NamedTuple):
    """A segment that a frame's buffers were copied to; ``fd``: to be sent along, for the receiver does not know it."""

    number: int
    fd: int | None

    def along_with(self, data: bytes) -> bytes:
        """Return ``data`` with the file descriptor, if that has to be sent."""
        if self.fd is None:
            return data
        handing = Handing(data)
        handing.fd = self.fd
        return handing


def send_handing(sock: socket.socket, piece: Handing) -> int:
    """Send bytes and their file descriptor; returns how many bytes went (the descriptor went with the first)."""
    return sock.sendmsg([piece], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _FD.pack(piece.fd))], socket.MSG_NOSIGNAL)


def receive(sock: socket.socket, into: memoryview) -> tuple[int, list[int]]:
    """Receive bytes, and the file descriptors that came along.

    Raises:
        ProtocolError: There were more descriptors than a sender may send.
        OSError: As ``recv_into``; or there was no room for a descriptor.
    """
    got_bytes, control, flags, _ = sock.recvmsg_into([into], _CONTROL_BYTES, socket.MSG_CMSG_CLOEXEC)
    if not control and not flags & socket.MSG_CTRUNC:
        return got_bytes, []
    fds = [fd for _, kind, data in control if kind == socket.SCM_RIGHTS for (fd,) in _FD.iter_unpack(data)]
    if flags & socket.MSG_CTRUNC:
        for fd in fds:
            os.close(fd)
        if len(fds) < _MOST_FDS:
            raise OSError(errno.EMFILE, "a file descriptor that came along is lost, for this process is out of them")
        raise ProtocolError("it sent too many file descriptors")
    return got_bytes, fds


class _Segment:
    """Memory to lend.

    It is written through its file descriptor the first time, for that is the quickest way to get memory; then through a
    mapping, which takes a sixth of the time. Before it is mapped it is all there, for to write to a mapping that there
    is no memory for would kill the process.
    """

    __slots__ = ("_mapped", "fd", "free", "known", "size")

    def __init__(self, size: int) -> None:
        self.fd = os.memfd_create("apgas", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEALS)
        except OSError:
            os.close(self.fd)
            raise
        self.size = size
        self.free = True
        self.known = False
        self._mapped: memoryview | None = None

    def write(self, buffers: Sequence[Buffer], starts: Sequence[int]) -> None:
        """Copy ``buffers`` to where they start.

        Raises:
            OSError: There is no memory for them.
        """
        if self.known and self._mapped is None:
            os.posix_fallocate(self.fd, 0, self.size)
            self._mapped = memoryview(mmap.mmap(self.fd, self.size))
            os.close(self.fd)  # the receiver has its own, and so has the mapping
        for at, buffer in zip(starts, buffers, strict=False):
            if self._mapped is None:
                _write(self.fd, buffer, at)
            else:
                _copy(self._mapped, buffer, at)

    def close(self) -> None:
        """Let go of it."""
        if self._mapped is None:
            os.close(self.fd)
        self._mapped = None


class Budget:
    """What all lenders of a place may lend together."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._left_bytes = most_bytes
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Take ``size`` bytes, if they are left."""
        with self._lock:
            if size > self._left_bytes:
                return False
            self._left_bytes -= size
            return True

    def give(self, size: int) -> None:
        """Give ``size`` bytes back."""
        with self._lock:
            self._left_bytes += size


class Lender:
    """The sender's segments of one connection. The caller serialises the calls."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._segments: list[_Segment] = []
        self._partial = b""

    def lend(self, buffers: Sequence[Buffer]) -> Loan | None:
        """Copy ``buffers`` to a segment; None if they are too small for that, or there is no segment for them."""
        lengths = [len(buffer) for buffer in buffers]
        if sum(lengths) < LEAST_BYTES:
            return None
        starts = offsets(lengths)
        number = self._find(starts[-1])
        if number is None:
            return None
        segment = self._segments[number]
        try:
            segment.write(buffers, starts)
        except OSError:  # no memory: the socket takes it bit by bit
            return None
        segment.free = False
        fd = None if segment.known else segment.fd
        segment.known = True
        return Loan(number, fd)

    def returned(self, data: bytes) -> None:
        """Take back what the receiver does not need any more.

        Raises:
            ProtocolError: It returns what it was not lent.
        """
        data = self._partial + data
        whole = len(data) - len(data) % NUMBER.size
        self._partial = data[whole:]
        for (number,) in NUMBER.iter_unpack(data[:whole]):
            if number >= len(self._segments) or self._segments[number].free:
                raise ProtocolError(f"it returned segment {number}, which it was not lent")
            self._segments[number].free = True

    def close(self) -> None:
        """Let go of everything; the receiver keeps what it has mapped."""
        for segment in self._segments:
            segment.close()
            self._budget.give(segment.size)
        self._segments.clear()

    def _find(self, size: int) -> int | None:
        fitting = [n for n, segment in enumerate(self._segments) if segment.free and segment.size >= size]
        if fitting:
            return min(fitting, key=lambda n: self._segments[n].size)
        rounded = max(_SMALLEST, 1 << (size - 1).bit_length())
        if not self._budget.take(rounded):
            return None
        try:
            self._segments.append(_Segment(rounded))
        except OSError:
            self._budget.give(rounded)
            return None
        return len(self._segments) - 1


class Borrower:
    """The receiver's side of one connection: maps segments, hands out views, notes which are not needed any more.

    ``on_returned`` is called when there is something to return; on any thread, at any point of the program, because it
    is called when memory is freed: it must take no lock.
    """

    def __init__(self, on_returned: Callable[[], None]) -> None:
        self._on_returned = on_returned
        self._fds: deque[int] = deque()
        self._maps: dict[int, mmap.mmap] = {}
        self._loans: dict[int, weakref.ref[object]] = {}
        self._returned: deque[int] = deque()

    def received(self, fds: Sequence[int]) -> None:
        """Take file descriptors that came along with bytes."""
        self._fds.extend(fds)

    def views(self, number: int, lengths: Sequence[int]) -> list[memoryview]:
        """Return the buffers that were copied to segment ``number``.

        Raises:
            ProtocolError: There is no such segment, it is on loan already, or it is shorter than the buffers.
        """
        import ctypes

        if number in self._loans:
            raise ProtocolError(f"segment {number} was lent twice")
        mapped = self._maps.get(number)
        if mapped is None:
            mapped = self._maps[number] = self._map(number)
        starts = offsets(lengths)
        if starts[-1] > len(mapped):
            raise ProtocolError(f"segment {number} has {len(mapped)} bytes, {starts[-1]} are announced")
        # an object of its own for each loan, which lives as long as any view of it, views of views included
        loan = (ctypes.c_ubyte * starts[-1]).from_buffer(mapped)
        self._loans[number] = weakref.ref(loan, lambda _: self._dropped(number))
        whole = memoryview(loan).cast("B")
        return [whole[start : start + length] for start, length in zip(starts, lengths, strict=False)]

    def returns(self) -> bytes:
        """Say what is to be returned, once."""
        numbers = []
        with contextlib.suppress(IndexError):  # another thread may say it at the same time
            while True:
                number = self._returned.popleft()
                del self._loans[number]
                numbers.append(NUMBER.pack(number))
        return b"".join(numbers)

    def close(self) -> None:
        """Forget everything; views that are still in use stay valid."""
        while self._fds:
            os.close(self._fds.popleft())
        self._maps.clear()

    def _dropped(self, number: int) -> None:
        self._returned.append(number)
        self._on_returned()

    def _map(self, number: int) -> mmap.mmap:
        if not self._fds:
            raise ProtocolError(f"segment {number} is not known")
        fd = self._fds.popleft()
        try:
            if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
                raise ProtocolError(f"segment {number} could be cut off")
            return mmap.mmap(fd, os.fstat(fd).st_size)
        except (OSError, ValueError) as error:
            raise ProtocolError(f"segment {number} cannot be mapped: {error}") from error
        finally:
            os.close(fd)


def offsets(lengths: Sequence[int]) -> list[int]:
    """Return where in a segment buffers of these lengths begin, and where the next one would."""
    return list(accumulate((-(-length // _ALIGNED) * _ALIGNED for length in lengths), initial=0))


def _write(fd: int, buffer: Buffer, at: int) -> None:
    rest = memoryview(buffer)
    while rest:
        written = os.pwrite(fd, rest, at)
        at += written
        rest = rest[written:]


def _copy(mapped: memoryview, buffer: Buffer, at: int) -> None:
    view = memoryview(buffer)
    for start in range(0, len(view), _COPIED_AT_ONCE):
        piece = view[start : start + _COPIED_AT_ONCE]
        mapped[at + start : at + start + len(piece)] = piece
