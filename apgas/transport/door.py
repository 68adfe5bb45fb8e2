"""Where a place listens: lets in who holds the token, and keeps everybody else from disturbing the job."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable
from typing import Final

from apgas.errors import AuthenticationError
from apgas.transport import far, near
from apgas.transport.auth import Listener
from apgas.transport.base import Address
from apgas.transport.loop import READ, EventLoop

_logger = logging.getLogger(__name__)
_PAUSE_S: Final = 0.1


class Door:
    """Accepts connections and holds the handshake with each.

    At most ``max_callers`` are between the door and the job. When one more comes, the oldest of them goes, and first
    one that has said nothing: an honest caller has its hello on the way when it is accepted, is through in two
    exchanges, and comes again if it was sent away.

    Args:
        loop: The io thread.
        listening: Where it listens.
        deadline_s: For one handshake.
        max_callers: How many handshakes may be under way.
    """

    def __init__(self, loop: EventLoop, listening: near.Listening, deadline_s: float, max_callers: int) -> None:
        self._loop = loop
        self._deadline_s = deadline_s
        self._max_callers = max_callers
        self._visits: dict[int, _Visit] = {}
        self.address: Final[Address] = listening.address
        self._sockets = listening.sockets

    def open(self, new_listener: Callable[[], Listener], admit: Callable[[int, socket.socket], bool]) -> None:
        """Begin to accept. ``admit`` gets the place and socket of who proved itself, and says whether it keeps them."""
        self._new_listener = new_listener
        self._admit = admit
        for sock in self._sockets:
            self._watch(sock)

    def close(self) -> None:
        """Stop to listen and hang up on everybody under way."""
        for visit in list(self._visits.values()):
            visit.end("the door closes")
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
        if len(self._visits) >= self._max_callers:
            oldest = next(iter(self._visits.values()))
            silent = (visit for visit in self._visits.values() if not visit.listener.greeted)
            next(silent, oldest).end("too many callers")
        sock.setblocking(False)
        if not near.is_near(sock):
            far.set_up(sock)
        _Visit(self._loop, sock, self._new_listener(), self._visits, self._admit, self._deadline_s)


class _Visit:
    """One caller, from accept to admission or the end."""

    def __init__(
        self,
        loop: EventLoop,
        sock: socket.socket,
        listener: Listener,
        visits: dict[int, _Visit],
        admit: Callable[[int, socket.socket], bool],
        deadline_s: float,
    ) -> None:
        self.listener = listener
        self._loop = loop
        self._socket = sock
        self._visits = visits
        self._admit = admit
        self._deadline = loop.call_later(deadline_s, lambda: self.end("too slow"))
        visits[id(self)] = self
        loop.watch(sock, READ, self._on_readable)

    def end(self, reason: str) -> None:
        """Hang up."""
        _logger.debug("hung up on a caller: %s", reason)
        self._leave()
        self._socket.close()

    def _leave(self) -> None:
        self._deadline.cancel()
        self._visits.pop(id(self), None)
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
