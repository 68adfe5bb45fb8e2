"""What transports share that have a connection for each ordered pair of places."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from apgas.errors import UsageError
from apgas.transport.base import Address, Receiver, TransportClosedError, UnknownPeerError
from apgas.transport.loop import EventLoop
from apgas.transport.wire import Frame

_logger = logging.getLogger(__name__)


Outgoing = TypeVar("Outgoing")
Incoming = TypeVar("Incoming")


class Endpoint(Generic[Outgoing, Incoming]):
    """A transport with a connection for each ordered pair of places: whom it may send to, and what comes of peers.

    ``_outgoing`` has the connections that we have opened, by place, under ``_lock``; ``_incoming`` those of others,
    which change on the io thread. What it hands on to the receiver it does there, too.
    """

    def __init__(self, loop: EventLoop) -> None:
        self.loop = loop
        self._place = -1
        self._receiver: Receiver | None = None
        # Ids are never reused, so nothing is ever taken out of these three, and they need no lock.
        self._addresses: dict[int, Address] = {}
        self._forgotten: set[int] = set()
        self._lost: set[int] = set()
        self._lock = threading.Lock()
        self._outgoing: dict[int, Outgoing] = {}
        self._incoming: dict[int, Incoming] = {}
        self._closing = False
        self._waiting: dict[int, list[Callable[[], None]]] = {}

    def start(self, place: int, receiver: Receiver) -> None:
        """Become ``place`` and begin to deliver to ``receiver``.

        Raises:
            UsageError: It was started or closed before.
        """
        with self._lock:
            if self._receiver is not None or self._closing:
                raise UsageError("a transport is started once, and before it is closed")
            self._place, self._receiver = place, receiver
        self.loop.start()

    def learn(self, peers: Mapping[int, Address]) -> None:
        """Allow frames to ``peers``; see ``Transport``."""
        self._addresses.update(peers)

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

    def check_may_close(self) -> None:
        """See that the caller is not the io thread, which cannot end itself.

        Raises:
            UsageError: It is.
        """
        if self.loop.in_thread():
            raise UsageError("the io thread cannot close its own transport")

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

    @abstractmethod
    def _end_outgoing(self, place: int) -> None:
        """Write what is queued for ``place``, then close our connection to it, if there is one. Any thread."""

    @abstractmethod
    def _end_incoming(self, incoming: Incoming) -> None:
        """Close a connection of a lost place."""

    # on the io thread ------------------------------------------------------------------------------------------------

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
            self._end_incoming(incoming)
        if not self._closing and self._receiver is not None:
            self._receiver.on_lost(place, reason)
        if incoming is not None:
            self._gone(place)

    def _gone(self, place: int) -> None:
        """Run the callbacks that wait for the end of the connection from ``place``."""
        for callback in self._waiting.pop(place, ()):
            self.loop.call_soon(callback)
