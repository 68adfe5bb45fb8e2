"""Opens and accepts authenticated connections between places, without blocking the io thread."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable
from typing import Final

from apgas.errors import AuthenticationError
from apgas.transport import unix_socket
from apgas.transport.auth import Caller, Listener
from apgas.transport.base import Address
from apgas.transport.loop import READ, WRITE, EventLoop, Timer

# Accepting -----------------------------------------------------------------------------------------------------------

_logger = logging.getLogger(__name__)
_PAUSE_S: Final = 0.1


class Acceptor:
    """Accepts connections, and admits those whose caller proves that it holds the job's token.

    At most ``max_callers`` handshakes are under way. When one more comes, the oldest of them goes, and first
    one whose caller has said nothing: an honest caller has its hello on the way when it is accepted, is through in two
    exchanges, and comes again if it was sent away.

    Args:
        loop: The io thread.
        listening: Where it listens.
        deadline_s: For one handshake.
        max_callers: How many handshakes may be under way.
    """

    def __init__(self, loop: EventLoop, listening: unix_socket.Listening, deadline_s: float, max_callers: int) -> None:
        self._loop = loop
        self._deadline_s = deadline_s
        self._max_callers = max_callers
        self._handshakes: dict[int, _Handshake] = {}
        self.address: Final[Address] = listening.address
        self._sockets = listening.sockets

    def open(self, new_listener: Callable[[], Listener], admit: Callable[[int, socket.socket], bool]) -> None:
        """Begin to accept. ``admit`` gets the place and socket of who proved itself, and says whether it keeps them."""
        self._new_listener = new_listener
        self._admit = admit
        for sock in self._sockets:
            self._watch(sock)

    def close(self) -> None:
        """Stop to listen and end all handshakes under way."""
        for one in list(self._handshakes.values()):
            one.end("the acceptor closes")
        for sock in self._sockets:
            self._loop.unwatch(sock)
            sock.close()

    def _watch(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.watch(listening, READ, lambda _events: self._on_caller(listening))

    def _on_caller(self, listening: socket.socket) -> None:
        try:
            sock, _ = listening.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # Out of file descriptors, most likely: the caller stays in the backlog, so look again a little later.
            _logger.warning("cannot accept a connection: %s", error)
            self._loop.unwatch(listening)
            self._loop.call_later(_PAUSE_S, lambda: self._watch(listening))
            return
        if len(self._handshakes) >= self._max_callers:
            oldest = next(iter(self._handshakes.values()))
            silent = (one for one in self._handshakes.values() if not one.listener.greeted)
            next(silent, oldest).end("too many callers")
        sock.setblocking(False)
        if not unix_socket.is_unix(sock):
            set_tcp_options(sock)
        _Handshake(self._loop, sock, self._new_listener(), self._handshakes, self._admit, self._deadline_s)


class _Handshake:
    """One caller, from accept to admission or the end."""

    def __init__(
        self,
        loop: EventLoop,
        sock: socket.socket,
        listener: Listener,
        handshakes: dict[int, _Handshake],
        admit: Callable[[int, socket.socket], bool],
        deadline_s: float,
    ) -> None:
        self.listener = listener
        self._loop = loop
        self._socket = sock
        self._handshakes = handshakes
        self._admit = admit
        self._deadline = loop.call_later(deadline_s, lambda: self.end("too slow"))
        handshakes[id(self)] = self
        loop.watch(sock, READ, self._on_readable)

    def end(self, reason: str) -> None:
        """Hang up."""
        _logger.debug("hung up on a caller: %s", reason)
        self._leave()
        self._socket.close()

    def _leave(self) -> None:
        self._deadline.cancel()
        self._handshakes.pop(id(self), None)
        self._loop.unwatch(self._socket)

    def _on_readable(self, _events: int) -> None:
        try:
            data = self._socket.recv(self.listener.needed_bytes)
            if not data:
                self.end("it went away")
                return
            reply = self.listener.receive(data)
            if self.listener.done:
                self._welcome(reply)
            elif reply:
                self._socket.send(reply, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return
        except AuthenticationError as error:
            self.end(str(error))
        except OSError as error:
            self.end(error.strerror or "broken")

    def _welcome(self, welcome: bytes) -> None:
        self._leave()
        if not self._admit(self.listener.peer, self._socket):
            self._socket.close()
            return
        # If it went away meanwhile, whoever has the socket now is going to notice.
        with contextlib.suppress(OSError):
            self._socket.send(welcome, socket.MSG_NOSIGNAL)


# Connecting ----------------------------------------------------------------------------------------------------------

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
        self._socket = unix_socket.connect(self._address)
        if self._socket is not None:
            self._greet(self._socket)
            return
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        try:
            self._socket = sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            set_tcp_options(sock)
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


# The options of TCP connections, which lead to other machines ---------------------------------------------------------

_IDLE_S: Final = 20
_BETWEEN_S: Final = 10
_PROBES: Final = 4


def set_tcp_options(sock: socket.socket) -> None:
    """Send small frames at once, and notice within a minute that a machine has ended without closing its connections.

    TCP keepalive notices it, on connections without traffic, and also while this process does not run. There is a
    connection in each direction, so one of the two is without traffic even when what we send is not taken any more. A
    bound on that (TCP_USER_TIMEOUT) would end connections to places that live but are too busy to read.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _BETWEEN_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
