"""Opens one authenticated connection to a place, without blocking the io thread."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from typing import Final

from apgas.errors import AuthenticationError
from apgas.transport import far, near
from apgas.transport.auth import Caller
from apgas.transport.base import Address
from apgas.transport.loop import READ, WRITE, EventLoop
from apgas.transport.timers import Timer

_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 0.5


class Connector:
    """One attempt after the other until the peer welcomes us, something final happens, or the deadline passes.

    A listener that hangs up before its welcome is asked again: it may have been short of room for callers. A refused
    connection or a wrong proof is final. Everything happens on the io thread.

    Args:
        loop: The io thread.
        address: Where the peer listens.
        new_caller: Makes the handshake of one attempt.
        deadline_s: For all attempts together.
        on_open: Called with the socket once the peer has welcomed us.
        on_failed: Called with a reason instead.
    """

    def __init__(
        self,
        loop: EventLoop,
        address: Address,
        new_caller: Callable[[], Caller],
        deadline_s: float,
        on_open: Callable[[socket.socket], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._address = address
        self._new_caller = new_caller
        self._deadline_s = deadline_s
        self._on_open = on_open
        self._on_failed = on_failed
        self._socket: socket.socket | None = None
        self._caller = new_caller()
        self._cancelled = False
        self._why = "no answer"
        self._pause_s = _FIRST_PAUSE_S
        self._retry: Timer | None = None
        self._deadline: Timer | None = None

    def start(self) -> None:
        """Make the first attempt, unless cancelled meanwhile."""
        if self._cancelled:
            return
        self._deadline = self._loop.call_later(self._deadline_s, self._expire)
        self._attempt()

    def cancel(self) -> None:
        """Give up silently. Idempotent; also before ``start`` and after success."""
        self._cancelled = True
        for timer in (self._retry, self._deadline):
            if timer is not None:
                timer.cancel()
        self._hang_up()

    def _attempt(self) -> None:
        self._caller = self._new_caller()
        self._socket = near.connect(self._address)
        if self._socket is not None:
            self._greet(self._socket)
            return
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        try:
            self._socket = sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            far.set_up(sock)
            code = sock.connect_ex(self._address)
        except OSError as error:
            self._try_later(str(error))
            return
        if code not in (0, errno.EINPROGRESS):
            self._fail(f"cannot connect: {os.strerror(code)}")
            return
        self._loop.watch(sock, WRITE, self._on_connected)

    def _on_connected(self, _events: int) -> None:
        sock = self._socket
        if sock is None:
            return
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._fail(f"cannot connect: {os.strerror(code)}")
            return
        self._loop.unwatch(sock)
        self._greet(sock)

    def _greet(self, sock: socket.socket) -> None:
        self._loop.watch(sock, READ, self._on_readable)
        self._send(sock, self._caller.hello)

    def _on_readable(self, _events: int) -> None:
        sock = self._socket
        if sock is None:
            return
        try:
            data = sock.recv(self._caller.needed_bytes)
        except BlockingIOError:
            return
        except OSError as error:
            self._try_later(str(error))
            return
        if not data:
            self._try_later("the peer hung up during the handshake")
            return
        try:
            reply = self._caller.receive(data)
        except AuthenticationError as error:
            self._fail(str(error))
            return
        if reply:
            self._send(sock, reply)
        if self._caller.done:
            self._loop.unwatch(sock)
            self._socket = None
            self.cancel()
            self._on_open(sock)

    def _send(self, sock: socket.socket, message: bytes) -> None:
        """Write a message that is far smaller than an empty socket buffer."""
        try:
            sock.send(message, socket.MSG_NOSIGNAL)
        except OSError as error:
            self._try_later(str(error))

    def _try_later(self, why: str) -> None:
        self._why = why
        self._hang_up()
        self._retry = self._loop.call_later(self._pause_s, self._attempt)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def _expire(self) -> None:
        self._fail(f"no connection within {self._deadline_s} s: {self._why}")

    def _fail(self, reason: str) -> None:
        self.cancel()
        self._on_failed(reason)

    def _hang_up(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            self._loop.unwatch(sock)
            sock.close()
