"""The receiving end of one authenticated connection."""

from __future__ import annotations

import socket
from collections.abc import Callable

from apgas.errors import ProtocolError
from apgas.transport.loop import READ, EventLoop
from apgas.transport.wire import Decoder, Frame

_READS_PER_EVENT = 16
"""The io thread turns to other connections after so many reads of one long frame."""
_LAST_READS = 4096
"""How much of what a lost peer had sent is still read, at most."""


class Incoming:
    """Reads frames of one place and hands them on.

    Args:
        loop: The io thread; everything here runs on it.
        sock: Connected, authenticated, non-blocking.
        decoder: For this place.
        on_frame: Called with every frame.
        on_end: Called once, with the reason, when the connection has ended; not after ``close``.
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
        self._on_frame = on_frame
        self._on_end = on_end
        loop.watch(sock, READ, self._on_readable)

    def close(self) -> None:
        """Stop to read. Idempotent."""
        sock, self._socket = self._socket, None
        if sock is not None:
            self._loop.unwatch(sock)
            sock.close()

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
            received_bytes = sock.recv_into(self._decoder.get_buffer())
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
        for frame in frames:
            self._on_frame(frame)
        return True

    def _end(self, reason: str) -> None:
        self.close()
        self._on_end(reason)
