"""The receiving end of one authenticated connection."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Sequence

from apgas.errors import ProtocolError
from apgas.transport import near
from apgas.transport.loop import READ, EventLoop
from apgas.transport.shared import Borrower, receive
from apgas.transport.wire import Decoder, Frame

_logger = logging.getLogger(__name__)
_READS_PER_EVENT = 16
"""The io thread turns to other connections after so many reads of one long frame."""
_FULL_S = 0.005
"""When a connection that took not all of what is returned is tried again."""
_LAST_READS = 4096
"""How much of what a lost peer had sent is still read, at most."""


class Incoming:
    """Reads frames of one place and hands them on.

    Args:
        loop: The io thread; everything here runs on it.
        sock: Connected, authenticated, non-blocking.
        new_decoder: Makes the decoder for this place, given where buffers in shared memory are found, if they are.
        on_frame: Called with every frame.
        on_end: Called once, with the reason, when the connection has ended; not after ``close``.
    """

    def __init__(
        self,
        loop: EventLoop,
        sock: socket.socket,
        new_decoder: Callable[[Callable[[int, Sequence[int]], list[memoryview]] | None], Decoder],
        on_frame: Callable[[Frame], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._socket: socket.socket | None = sock
        self._borrower = Borrower(self._on_returned) if near.is_near(sock) else None
        self._decoder = new_decoder(self._borrower.views if self._borrower is not None else None)
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
