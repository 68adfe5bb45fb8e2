"""Both ends of one connection: a queue that any thread writes through, and what is read from the socket."""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final

from apgas.errors import ProtocolError, SlowPeerError
from apgas.transport import unix_socket
from apgas.transport.base import Buffer, UnknownPeerError
from apgas.transport.loop import READ, WRITE, EventLoop
from apgas.transport.shared import Borrower, Budget, Handing, Lender, receive, send_handing
from apgas.transport.wire import Decoder, Frame, encode_shared

MOST_QUEUED_BYTES: Final = 64 * 2**20
"""Who wants to send more to a place waits."""
PATIENCE_S: Final = 90.0
"""A place that takes nothing for so long is too slow."""
_PIECES_PER_CALL: Final = 512
"""Below the system's IOV_MAX of 1024."""
_CALLS_PER_EVENT: Final = 16
"""The io thread turns to other connections after this number of writes."""
_RETURNED_BYTES: Final = 4096
"""Read at once of what a place returns."""
_GATHER_BYTES: Final = 64 * 1024
"""How much is gathered at most; longer pieces are not, for they would be copied."""
_SHORTAGES: Final = frozenset({errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS})
"""What the system has too little of to send something now: memory, or room for descriptors on their way."""
_SHORTAGE_S: Final = 0.005
"""When it is asked again."""
_NO_SIGNAL: Final = int(socket.MSG_NOSIGNAL)
_CLOSE_S: Final = 100e-6
"""A frame that comes within this time follows closely on another."""


class Channel:
    """Frames on their way to one place.

    A sending thread writes to the socket itself when nothing is queued; what the socket does not take is queued and
    written by the io thread as the socket drains. Before ``attach`` everything is queued. Small frames that may wait
    (``soon``) and follow closely on others are gathered, and written together at the end of the io thread's round or
    before their sender waits; one that stands alone is written at once.

    ``throttle`` waits while more than ``MOST_QUEUED_BYTES`` are queued, for ``PATIENCE_S`` at most while nothing is
    taken. The io thread calls ``on_broken`` with a reason when the connection turns out broken, and ``on_drained``
    after ``finish``, once everything is written. A place of the same machine is lent shared memory from ``budget``.

    Attributes:
        on_close: Called when it is closed: perhaps it has no socket yet, and needs none any more.
    """

    def __init__(
        self,
        place: int,
        loop: EventLoop,
        on_broken: Callable[[str], None],
        on_drained: Callable[[], None],
        budget: Budget | None = None,
    ) -> None:
        self._place = place
        self._loop = loop
        self._on_broken = on_broken
        self._on_drained = on_drained
        self._lock = threading.Lock()
        self._shrunk = threading.Condition(self._lock)
        self._queue: deque[Buffer] = deque()
        self._queued_bytes = 0
        self._socket: socket.socket | None = None
        self._watched = 0
        self._short = False
        self._writes = 0
        self._finishing = False
        self._closed = False
        self._gathering = False
        self._submitted_s = 0.0
        self.on_close: Callable[[], None] = lambda: None
        self._budget = budget
        self._lender: Lender | None = None

    def submit(self, pieces: Sequence[Buffer], *, soon: bool = False) -> None:
        """Write or queue the pieces of one frame; the caller may reuse their memory afterwards. Never waits.

        ``soon``: it may travel a little later, in order to travel with others.

        Raises:
            UnknownPeerError: The channel was closed or is about to be.
        """
        with self._lock:
            self._check_open()
            if soon and len(pieces) == 1 and self._may_wait():
                self._enqueue(pieces, 0)
                if self._queued_bytes > _GATHER_BYTES:
                    self._flush()
            else:
                self._submit(pieces)

    def submit_shared(self, src: int, head: bytes, buffers: Sequence[Buffer]) -> bool:
        """Send a frame with its buffers in shared memory; False if it has to travel in pieces.

        Raises:
            UnknownPeerError: The channel was closed or is about to be.
        """
        with self._lock:
            self._check_open()
            loan = self._lender.lend(buffers) if self._lender is not None else None
            if loan is None:
                return False
            lengths = [len(buffer) for buffer in buffers]
            self._submit([loan.along_with(encode_shared(src, head, lengths, loan.number))])
            return True

    @property
    def lends(self) -> bool:
        """Whether large buffers may go in shared memory."""
        return self._lender is not None

    @property
    def crowded(self) -> bool:
        """Whether too much is queued."""
        return self._queued_bytes > MOST_QUEUED_BYTES

    def throttle(self) -> None:
        """Wait while too much is queued; not on the io thread, which must write it.

        Raises:
            SlowPeerError: The queue is above its mark, and the peer has taken nothing for too long.
        """
        if self.crowded and not self._loop.in_thread():
            with self._lock:
                self._wait_for_room()

    def drain(self, timeout_s: float) -> bool:
        """Wait until all is written, for at most ``timeout_s`` seconds; not on the io thread, which writes it."""
        if self._queue and not self._loop.in_thread():
            with self._lock:
                return self._shrunk.wait_for(lambda: not self._queue, timeout_s)
        return not self._queue

    def attach(self, sock: socket.socket) -> None:
        """Take over a connected, authenticated, non-blocking socket, and write what is queued. Io thread."""
        with self._lock:
            if self._closed:
                sock.close()
                return
            self._socket = sock
            if self._budget is not None and unix_socket.is_unix(sock):
                self._lender = Lender(self._budget)
            self._watched = READ | WRITE
            self._loop.watch(sock, self._watched, self._on_event)

    def hold(self) -> None:
        """Keep the connection open, whatever happens to this channel, until the process ends."""
        with self._lock:
            if self._socket is not None:
                with suppress(OSError):  # out of file descriptors: then it ends with the transport
                    os.dup(self._socket.fileno())  # only the kernel closes this one

    def finish(self) -> None:
        """Take no more frames; close the connection when everything is written. Any thread."""
        with self._lock:
            self._finishing = True
            self._shrunk.notify_all()
        self._loop.call_soon(self._close_if_drained)

    def close(self) -> None:
        """Drop everything, at once. Io thread, or after it ended. Idempotent."""
        self.on_close()
        with self._lock:
            self._closed = True
            self._queue.clear()
            self._queued_bytes = 0
            self._shrunk.notify_all()
            if self._lender is not None:
                self._lender.close()
            sock, self._socket = self._socket, None
            if sock is not None:
                self._loop.unwatch(sock)
                sock.close()

    def _check_open(self) -> None:
        if self._closed or self._finishing:
            raise UnknownPeerError(self._place, "has gone and is not known any more")

    def _submit(self, pieces: Sequence[Buffer]) -> None:
        try:
            if self._queue or self._socket is None:
                self._enqueue(pieces, 0)
                if self._gathering:
                    self._flush()
                return
            written_bytes = self._write(self._socket, pieces)
            if written_bytes < sum(map(len, pieces)):
                self._enqueue(pieces, written_bytes)
                self._watch(self._socket)
        except BaseException as error:
            # half of the frame may be on its way: whatever followed it would be taken for the rest of it
            self._finishing = True
            self._loop.call_soon(partial(self._on_broken, f"a frame could not be sent: {error!r}"))
            raise

    def _may_wait(self) -> bool:
        """Whether a small frame is gathered with others now; sees to it that they are written."""
        now_s = time.monotonic()
        before_s, self._submitted_s = self._submitted_s, now_s
        if self._gathering:
            return True
        if self._queue or self._socket is None:
            return False
        if now_s - before_s > _CLOSE_S and not self._loop.in_thread():
            return False
        self._gathering = True
        self._loop.flush_soon(self._write_gathered)
        return True

    def _write_gathered(self) -> None:
        with self._lock:
            if self._gathering:
                self._flush()
            finishing = self._finishing
        if finishing:
            self._loop.call_soon(self._close_if_drained)

    def _wait_for_room(self) -> None:
        deadline_s, writes = time.monotonic() + PATIENCE_S, self._writes
        while self.crowded and not self._closed and not self._finishing:
            if self._shrunk.wait(deadline_s - time.monotonic()):
                continue
            deadline_s, before = time.monotonic() + PATIENCE_S, writes
            writes = self._writes
            if writes == before:
                raise SlowPeerError(f"place {self._place} left {self._queued_bytes} bytes queued for {PATIENCE_S} s")

    def _write(self, sock: socket.socket, pieces: Sequence[Buffer]) -> int:
        """Write what the socket takes now; a broken connection takes nothing, and the io thread gets to know of it."""
        try:
            if isinstance(pieces[0], Handing):
                return send_handing(sock, pieces[0])
            if len(pieces) == 1:
                return sock.send(pieces[0], _NO_SIGNAL)
            return sock.sendmsg(_going_alone(pieces[:_PIECES_PER_CALL]), (), _NO_SIGNAL)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno in _SHORTAGES:
                if not self._short:
                    self._short = True
                    self._loop.call_later(_SHORTAGE_S, self._ask_again)
                return 0
            # The socket is readable now as well, but its event has a less precise reason.
            reason = f"cannot send: {error.strerror or error}"
            self._loop.call_soon(lambda: self._on_broken(reason))
            return 0

    def _enqueue(self, pieces: Sequence[Buffer], skip_bytes: int) -> None:
        """Queue ``pieces`` without their first ``skip_bytes``; memory that the caller could change is copied."""
        for piece in pieces:
            if skip_bytes >= len(piece):
                skip_bytes -= len(piece)
                continue
            if not skip_bytes and isinstance(piece, Handing):
                self._queue.append(piece)
                self._queued_bytes += len(piece)
                continue
            rest = memoryview(piece)[skip_bytes:]
            skip_bytes = 0
            self._queue.append(rest if isinstance(rest.obj, bytes) else bytes(rest))
            self._queued_bytes += len(rest)

    def _ask_again(self) -> None:
        with self._lock:
            self._short = False
            self._flush()
        self._close_if_drained()

    def _watch(self, sock: socket.socket) -> None:
        """Have the io thread write what is queued, when the socket takes it."""
        events = READ | WRITE if self._queue and not self._short else READ
        if events != self._watched:
            self._watched = events
            self._loop.rewatch(sock, events)

    def _on_event(self, events: int) -> None:
        if events & ~WRITE:
            reason = self._hung_up()
            if reason:
                self._on_broken(reason)
                return
        if events & WRITE:
            with self._lock:
                self._flush()
            self._close_if_drained()

    def _flush(self) -> None:
        sock = self._socket
        if sock is None:
            return
        self._gathering = False
        for _ in range(_CALLS_PER_EVENT):
            if not self._queue:
                break
            pieces = list(islice(self._queue, _PIECES_PER_CALL))
            written_bytes = self._write(sock, pieces)
            if not written_bytes:
                break
            self._queued_bytes -= written_bytes
            self._writes += 1
            self._drop(written_bytes)
            if self._queued_bytes <= MOST_QUEUED_BYTES:
                self._shrunk.notify_all()
        self._watch(sock)

    def _drop(self, written_bytes: int) -> None:
        while written_bytes:
            piece = self._queue.popleft()
            if written_bytes < len(piece):
                self._queue.appendleft(memoryview(piece)[written_bytes:])
                return
            written_bytes -= len(piece)

    def _hung_up(self) -> str:
        """Return why the peer's end is gone, or nothing. A peer writes on our connection only what it returns."""
        sock = self._socket
        if sock is None:
            return ""
        try:
            data = sock.recv(_RETURNED_BYTES)
            if not data:
                return "it closed our connection"
            if self._lender is None:
                return "it sent on a connection that is not its own"
            with self._lock:
                self._lender.returned(data)
            return ""
        except BlockingIOError:
            return ""
        except ProtocolError as error:
            return f"protocol error: {error}"
        except OSError as error:
            return f"our connection broke: {error.strerror or error}"

    def _close_if_drained(self) -> None:
        with self._lock:
            if self._closed or not self._finishing or self._queue:
                return
        self.close()
        self._on_drained()


def _going_alone(pieces: Sequence[Buffer]) -> Sequence[Buffer]:
    """The pieces up to the next one that a file descriptor goes along with."""
    for number, piece in enumerate(pieces):
        if isinstance(piece, Handing):
            return pieces[:number]
    return pieces


# The receiving end of one authenticated connection -------------------------------------------------------------------

_logger = logging.getLogger(__name__)
_READS_PER_EVENT = 16
"""The io thread turns to other connections after this number of reads of one long frame."""
_FULL_S = 0.005
"""When a connection that took not all of what is returned is tried again."""
_LAST_READS = 4096
"""How much of what a lost peer had sent is still read, at most."""


class Incoming:
    """Reads frames of one place from a connected, authenticated, non-blocking socket. All of it runs on the io thread.

    ``on_end`` is called once, with the reason, when the connection has ended; not after ``close``.
    """

    def __init__(
        self,
        loop: EventLoop,
        sock: socket.socket,
        decoder: Decoder,
        on_frame: Callable[[Frame], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._socket: socket.socket | None = sock
        self._decoder = decoder
        self._borrower: Borrower | None = None
        if unix_socket.is_unix(sock):
            self._borrower = Borrower(self._on_returned)
            decoder.shared = self._borrower.views
        self._on_frame = on_frame
        self._on_end = on_end
        self._returning = threading.Lock()
        self._unreturned = b""
        loop.watch(sock, READ, self._on_readable)

    def close(self) -> None:
        """Stop to read. Idempotent."""
        with self._returning:
            sock, self._socket = self._socket, None
        if sock is not None:
            self._loop.unwatch(sock)
            sock.close()
            if self._borrower is not None:
                self._borrower.close()

    def drain(self) -> None:
        """Deliver what has arrived already; calls ``on_end`` if that is everything there will be."""
        for _ in range(_LAST_READS):
            if not self._read():
                return

    def _on_readable(self, _events: int) -> None:
        for _ in range(_READS_PER_EVENT):
            # Between frames one read has most likely emptied the socket; a long frame is worth another look at once.
            if not self._read() or self._decoder.at_boundary():
                return

    def _read(self) -> bool:
        """Receive once and deliver; return whether there may be more."""
        sock = self._socket
        if sock is None:
            return False
        try:
            if self._borrower is None:
                received_bytes = sock.recv_into(self._decoder.get_buffer())
            else:
                received_bytes, fds = receive(sock, self._decoder.get_buffer())
                self._borrower.received(fds)
            if not received_bytes:
                self._end("it closed its connection" + ("" if self._decoder.at_boundary() else " within a frame"))
                return False
            frames = self._decoder.buffer_updated(received_bytes)
        except BlockingIOError:
            return False
        except ProtocolError as error:
            self._end(f"protocol error: {error}")
            return False
        except OSError as error:
            self._end(f"its connection broke: {error.strerror or error}")
            return False
        except Exception as error:
            # memory, most likely; part of a frame is lost, so nothing that follows can be understood
            _logger.exception("what arrived cannot be taken")
            self._end(f"what it sent cannot be taken: {error!r}")
            return False
        for frame in frames:
            self._on_frame(frame)
        return True

    def _on_returned(self) -> None:
        """Return shared memory in the next round of the io thread. Any thread, at any point: it is not woken."""
        self._loop.flush_next(self._give_back)

    def _give_back(self) -> None:
        with self._returning:
            sock = self._socket
            if sock is None or self._borrower is None:
                return
            self._unreturned += self._borrower.returns()
            if not self._unreturned:
                return
            try:
                sent_bytes = sock.send(self._unreturned, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                sent_bytes = 0
            except OSError:  # then the connection ends, and with it what was lent
                return
            self._unreturned = self._unreturned[sent_bytes:]
            if self._unreturned:
                self._loop.call_later(_FULL_S, self._give_back)

    def _end(self, reason: str) -> None:
        self.close()
        self._on_end(reason)
