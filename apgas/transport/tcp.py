"""Frames over TCP: one connection for each ordered pair of places, opened when first needed, after a handshake."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from apgas.errors import AuthenticationError, UsageError
from apgas.transport import unix_socket
from apgas.transport.auth import Caller, Listener, check_token
from apgas.transport.base import Address, Buffer, Receiver, TransportClosedError, UnknownPeerError
from apgas.transport.channel import Channel, Incoming
from apgas.transport.loop import READ, WRITE, EventLoop, Timer
from apgas.transport.shared import Budget
from apgas.transport.wire import MAX_PLACE, SCRATCH_BYTES, Decoder, Frame, checked, encode

_logger = logging.getLogger(__name__)


class TcpTransport:
    """A transport over TCP; keeps the contract of ``apgas.transport.base``.

    It listens from construction on, and accepts from ``start`` on.

    Args:
        token: The job's secret (``auth.new_token``).
        where: Numeric address to listen on, or the sockets that listen there already. Loopback will do when all places
            are on this host.

    Raises:
        ValueError: The token has the wrong length.
        OSError: It cannot listen there.
    """

    def __init__(self, token: bytes, where: str | unix_socket.Listening = "127.0.0.1") -> None:
        self.loop = EventLoop("apgas-io")
        self._place = -1
        self._receiver: Receiver | None = None
        # Ids are never reused, so nothing is ever taken out of these three, and they need no lock.
        self._addresses: dict[int, Address] = {}
        self._forgotten: set[int] = set()
        self._lost: set[int] = set()
        self._lock = threading.Lock()
        self._outgoing: dict[int, Channel] = {}
        """The connections that we have opened, by place, under ``_lock``."""
        self._incoming: dict[int, Incoming] = {}
        """Those of others, which change on the io thread."""
        self._closing = False
        self._waiting: dict[int, list[Callable[[], None]]] = {}
        self._token = check_token(token)
        self._close_lock = threading.Lock()
        self._scratch = bytearray(SCRATCH_BYTES)
        self._budget = Budget()
        self._drained = threading.Event()
        self._acceptors: list[Acceptor] = []
        self.address = self._new_acceptor(where).address

    def start(self, place: int, receiver: Receiver) -> None:
        """Become ``place`` and begin to deliver to ``receiver``.

        Raises:
            UsageError: It was started or closed before, or ``place`` is no id.
        """
        if not 0 <= place <= MAX_PLACE:
            raise UsageError(f"{place} is no place id: it must be from 0 to {MAX_PLACE}")
        with self._lock:
            if self._receiver is not None or self._closing:
                raise UsageError("a transport is started once, and before it is closed")
            self._place, self._receiver = place, receiver
        self.loop.start()
        self.loop.call_soon(self._acceptors[0].open)

    def learn(self, peers: Mapping[int, Address]) -> None:
        """Allow frames to ``peers``; see ``Transport``."""
        self._addresses.update(peers)

    def listen_also(self, host: str) -> Address:
        """Listen on a further address of this machine, for places that do not reach the first one; returns it.

        Raises:
            TransportClosedError: It is not running.
            OSError: It cannot listen there.
        """
        with self._lock:
            self._require_running()
            acceptor = self._new_acceptor(host)
            self.loop.call_soon(acceptor.open)
            return acceptor.address

    def connect(self, place: int) -> None:
        """Open the connection to ``place`` now; see ``Transport``."""
        if place == self._place:
            return
        # refuses a lost place also while its connection is still being closed
        self._address_of(place)
        if place not in self._outgoing:
            self._open(place)

    def send(self, dst: int, head: bytes, buffers: Sequence[Buffer] = (), *, soon: bool = False) -> None:
        """Send one frame; see ``Transport``."""
        if self._closing or self._receiver is None or self.loop.abandoned:
            raise TransportClosedError("the transport is not running")
        if dst == self._place:
            views = checked(head, buffers)
            frame = Frame(dst, bytes(head), [bytearray(view) for view in views])
            self.loop.call_soon(partial(self._deliver, frame))
            return
        channel = self._outgoing.get(dst) or self._open(dst)
        if buffers and channel.lends:
            views = checked(head, buffers)
            if channel.submit_shared(self._place, head, views):
                return
        channel.submit(encode(self._place, head, buffers), soon=soon)

    def is_lost(self, place: int) -> bool:
        """Return whether the loss of ``place`` was reported; see ``Transport``."""
        return place in self._lost

    def forget(self, place: int) -> None:
        """Flush, then close the connection to ``place``; see ``Transport``."""
        if place != self._place:
            self._forgotten.add(place)
            self._end_outgoing(place)

    def on_gone(self, place: int, callback: Callable[[], None]) -> None:
        """Run ``callback`` once the connection from ``place`` has ended; see ``Transport``."""

        def look() -> None:
            if place in self._incoming:
                self._waiting.setdefault(place, []).append(callback)
            else:
                callback()

        self.loop.call_soon(look)

    def throttle(self, dst: int) -> None:
        """Wait while too much is queued for ``dst``; see ``Transport``."""
        channel = self._outgoing.get(dst)
        if channel is not None:
            channel.throttle()

    def drain(self, places: Iterable[int], timeout_s: float) -> bool:
        """Wait until all that was sent to ``places`` has left this process; False if that takes too long."""
        until_s = time.monotonic() + timeout_s
        found = [channel for place in places if (channel := self._outgoing.get(place)) is not None]
        return all(channel.drain(max(0.0, until_s - time.monotonic())) for channel in found)

    def crowded(self, dst: int) -> bool:
        """Return whether ``throttle`` would wait; see ``Transport``."""
        channel = self._outgoing.get(dst)
        return channel is not None and channel.crowded

    def hold(self, place: int) -> None:
        """Let the connection to ``place`` live as long as this process; see ``Transport``."""
        channel = self._outgoing.get(place)
        if channel is not None:
            channel.hold()

    def check_may_close(self) -> None:
        """See that the caller is not the io thread, which cannot end itself.

        Raises:
            UsageError: It is.
        """
        if self.loop.in_thread():
            raise UsageError("the io thread cannot close its own transport")

    def close(self, timeout_s: float = 1.0) -> None:
        """Flush for at most ``timeout_s`` seconds, then end everything; see ``Transport``."""
        self.check_may_close()
        if self.loop.abandoned:
            return
        with self._close_lock:
            if self._closing:
                return
            with self._lock:
                self._closing = True
                running = self._receiver is not None
            if running:
                self.loop.call_soon(self._flush_all)
                self._drained.wait(timeout_s)
            self.loop.stop(self._end_all)

    def _new_acceptor(self, where: str | unix_socket.Listening) -> Acceptor:
        listening = unix_socket.Listening(where) if isinstance(where, str) else where
        acceptor = Acceptor(self.loop, listening, lambda: Listener(self._token, self._place), self._accept)
        self._acceptors.append(acceptor)
        return acceptor

    def _require_running(self) -> None:
        if self._closing or self._receiver is None:
            raise TransportClosedError("the transport is not running")

    def _address_of(self, place: int) -> Address:
        """Return where ``place`` listens.

        Raises:
            UnknownPeerError: Nothing may be sent to it.
        """
        if place in self._forgotten:
            raise UnknownPeerError(place, "was forgotten and is not known any more")
        if place in self._lost:
            raise UnknownPeerError(place, "was lost and is not known any more")
        if place not in self._addresses:
            raise UnknownPeerError(place)
        return self._addresses[place]

    # the rest runs on the io thread, except _open --------------------------------------------------------------------

    def _open(self, place: int) -> Channel:
        with self._lock:
            self._require_running()
            address = self._address_of(place)
            channel = self._outgoing.get(place)
            if channel is None:
                broken, drained = partial(self._on_broken, place), partial(self._drop_outgoing, place)
                channel = self._outgoing[place] = Channel(place, self.loop, broken, drained, self._budget)
                greet = partial(Caller, self._token, self._place, place)
                connector = Connector(self.loop, address, greet, on_open=channel.attach, on_failed=broken)
                channel.on_close = connector.cancel
                self.loop.call_soon(connector.start)
            return channel

    def _accept(self, place: int, sock: socket.socket) -> bool:
        if place == self._place or place in self._incoming or place in self._lost:
            _logger.warning("refused a second connection of place %d", place)
            return False
        decoder = Decoder(place, self._scratch)
        self._incoming[place] = Incoming(self.loop, sock, decoder, self._deliver, partial(self._on_end, place))
        return True

    def _deliver(self, frame: Frame) -> None:
        """Deliver a frame; an error of the receiver is logged."""
        try:
            if self._receiver is not None:
                self._receiver.on_frame(frame.src, frame.head, frame.buffers)
        except Exception:
            _logger.exception("the receiver failed on a frame of place %d", frame.src)

    def _on_end(self, place: int, reason: str) -> None:
        """The connection from ``place`` has ended."""
        del self._incoming[place]
        self._lose(place, reason)
        self._gone(place)

    def _lose(self, place: int, reason: str) -> None:
        """End all connections of a place, and report its loss, if that is news."""
        if place in self._forgotten or place in self._lost:
            return
        self._lost.add(place)
        self._end_outgoing(place)  # perhaps it only stopped sending: it still gets what was queued for it before
        incoming = self._incoming.pop(place, None)
        if incoming is not None:
            incoming.close()
        if not self._closing and self._receiver is not None:
            self._receiver.on_lost(place, reason)
        if incoming is not None:
            self._gone(place)

    def _gone(self, place: int) -> None:
        """Run the callbacks that wait for the end of the connection from ``place``."""
        for callback in self._waiting.pop(place, ()):
            self.loop.call_soon(callback)

    def _on_broken(self, place: int, reason: str) -> None:
        """Our connection to ``place`` failed: deliver what it had sent already, then report."""
        incoming = self._incoming.get(place)
        if incoming is not None and place not in self._forgotten:
            incoming.drain()
        self._drop_outgoing(place)
        self._lose(place, reason)

    def _end_outgoing(self, place: int) -> None:
        with self._lock:
            channel = self._outgoing.get(place)
        if channel is not None:
            channel.finish()

    def _drop_outgoing(self, place: int) -> None:
        with self._lock:
            channel = self._outgoing.pop(place, None)
        if channel is not None:
            channel.close()
        if self._closing and not self._outgoing:
            self._drained.set()

    def _flush_all(self) -> None:
        if not self._outgoing:
            self._drained.set()
        for channel in list(self._outgoing.values()):
            channel.finish()

    def _end_all(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        for channel in self._outgoing.values():
            channel.close()
        for incoming in self._incoming.values():
            incoming.close()
        self._outgoing.clear()
        self._incoming.clear()


# Opens and accepts authenticated connections between places, without blocking the io thread --------------------------

# Accepting -----------------------------------------------------------------------------------------------------------

MOST_CALLERS: Final = 64
"""Handshakes that are under way at a time."""
HANDSHAKE_S: Final = 5.0
"""How long one may take."""
_PAUSE_S: Final = 0.1


class Acceptor:
    """Accepts connections, and keeps those whose caller proves that it holds the job's token.

    When more than ``MOST_CALLERS`` handshakes would be under way, the oldest of them goes, and first one whose caller
    has said nothing: an honest caller has its hello on the way when it is accepted, is through in two
    exchanges, and comes again if it was sent away. ``accept`` gets a proven caller's place and socket, and returns
    whether it is kept.
    """

    def __init__(
        self,
        loop: EventLoop,
        listening: unix_socket.Listening,
        new_listener: Callable[[], Listener],
        accept: Callable[[int, socket.socket], bool],
    ) -> None:
        self._loop = loop
        self._new_listener = new_listener
        self._accept = accept
        self._handshakes: dict[_Handshake, None] = {}
        self.address: Final[Address] = listening.address
        self._sockets = listening.sockets

    def open(self) -> None:
        """Begin to accept."""
        for sock in self._sockets:
            self._watch(sock)

    def close(self) -> None:
        """Stop to listen and end all handshakes under way."""
        for one in list(self._handshakes):
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
        if len(self._handshakes) >= MOST_CALLERS:
            silent = (one for one in self._handshakes if not one.listener.greeted)
            next(silent, next(iter(self._handshakes))).end("too many callers")
        sock.setblocking(False)
        if not unix_socket.is_unix(sock):
            set_tcp_options(sock)
        _Handshake(self._loop, sock, self._new_listener(), self._handshakes, self._accept)


class _Handshake:
    """One caller, from its connection to the welcome or the end."""

    def __init__(
        self,
        loop: EventLoop,
        sock: socket.socket,
        listener: Listener,
        handshakes: dict[_Handshake, None],
        accept: Callable[[int, socket.socket], bool],
    ) -> None:
        self.listener = listener
        self._loop = loop
        self._socket = sock
        self._handshakes = handshakes
        self._accept = accept
        self._deadline = loop.call_later(HANDSHAKE_S, lambda: self.end("too slow"))
        handshakes[self] = None
        loop.watch(sock, READ, self._on_readable)

    def end(self, reason: str) -> None:
        """Hang up."""
        _logger.debug("refused a caller: %s", reason)
        self._leave()
        self._socket.close()

    def _leave(self) -> None:
        self._deadline.cancel()
        self._handshakes.pop(self, None)
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
        if not self._accept(self.listener.peer, self._socket):
            self._socket.close()
            return
        # If it went away meanwhile, the new owner of the socket is going to notice.
        with contextlib.suppress(OSError):
            self._socket.send(welcome, socket.MSG_NOSIGNAL)


# Connecting ----------------------------------------------------------------------------------------------------------

CONNECT_S: Final = 90.0
"""How long all attempts to reach a place may take together."""
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 0.5
_SILENT_S: Final = 10.0
"""After this time without a connection the user gets to know."""
_NO_WAY: Final = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.ETIMEDOUT)


class Connector:
    """One attempt after the other until the peer welcomes us, something final happens, or the deadline passes.

    A listener that hangs up before its welcome is asked again: it may have been short of room for callers. So is a
    machine to which no way leads at present. A refused connection or a wrong proof is final. Everything happens on the
    io thread. ``new_caller`` makes the handshake of one attempt. In the end ``on_open`` gets the socket, or
    ``on_failed`` a reason.
    """

    def __init__(
        self,
        loop: EventLoop,
        address: Address,
        new_caller: Callable[[], Caller],
        on_open: Callable[[socket.socket], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._address = address
        self._new_caller = new_caller
        self._on_open = on_open
        self._on_failed = on_failed
        self._socket: socket.socket | None = None
        self._caller = new_caller()
        self._cancelled = False
        self._why = "no answer"
        self._pause_s = _FIRST_PAUSE_S
        self._retry: Timer | None = None
        self._deadline: Timer | None = None
        self._warning: Timer | None = None

    def start(self) -> None:
        """Make the first attempt, unless cancelled meanwhile."""
        if self._cancelled:
            return
        self._deadline = self._loop.call_later(CONNECT_S, self._expire)
        self._warning = self._loop.call_later(_SILENT_S, self._warn)
        self._attempt()

    def cancel(self) -> None:
        """Give up silently. Idempotent; also before ``start`` and after success."""
        self._cancelled = True
        for timer in (self._retry, self._deadline, self._warning):
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
            self._refused(code)
            return
        self._loop.watch(sock, WRITE, self._on_connected)

    def _on_connected(self, _events: int) -> None:
        sock = self._socket
        if sock is None:
            return
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._refused(code)
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

    def _refused(self, code: int) -> None:
        why = f"cannot connect: {os.strerror(code)}"
        if code in _NO_WAY:
            self._try_later(why)
        else:
            self._fail(why)

    def _warn(self) -> None:
        _logger.warning("no connection to %s:%s yet: %s", *self._address[:2], self._why)

    def _expire(self) -> None:
        self._fail(f"no connection within {CONNECT_S} s: {self._why}")

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
