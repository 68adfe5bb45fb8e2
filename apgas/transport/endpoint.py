"""Parts that all transports share: delivery to the receiver, the book of peers, and the contract's io thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Mapping

from apgas.errors import UsageError
from apgas.transport.base import Address, Receiver, UnknownPeerError
from apgas.transport.loop import EventLoop
from apgas.transport.wire import Frame

# Delivery ------------------------------------------------------------------------------------------------------------

_logger = logging.getLogger(__name__)


class Delivery:
    """Hands on frames and losses to the receiver, and ends of connections to the callbacks that wait for them.

    All on the io thread but ``on_gone``.

    Args:
        loop: The io thread.
        connected: The places whose connections to us have not ended; changed on the io thread.

    Attributes:
        receiver: Who gets frames and losses; None before the start.
    """

    def __init__(self, loop: EventLoop, connected: Container[int]) -> None:
        self.receiver: Receiver | None = None
        self._loop = loop
        self._connected = connected
        self._waiting: dict[int, list[Callable[[], None]]] = {}

    def frame(self, frame: Frame) -> None:
        """Deliver a frame; an error of the receiver is logged."""
        try:
            if self.receiver is not None:
                self.receiver.on_frame(frame.src, frame.head, frame.buffers)
        except Exception:
            _logger.exception("the receiver failed on a frame of place %d", frame.src)

    def lost(self, place: int, reason: str) -> None:
        """Report a loss."""
        if self.receiver is not None:
            self.receiver.on_lost(place, reason)

    def on_gone(self, place: int, callback: Callable[[], None]) -> None:
        """Run ``callback`` once ``gone(place)`` is called, or soon if there is no connection. Any thread."""

        def look() -> None:
            if place in self._connected:
                self._waiting.setdefault(place, []).append(callback)
            else:
                callback()

        self._loop.call_soon(look)

    def gone(self, place: int) -> None:
        """Run the callbacks that wait for the end of the connection from ``place``."""
        for callback in self._waiting.pop(place, ()):
            self._loop.call_soon(callback)


# Peers ---------------------------------------------------------------------------------------------------------------


class PeerBook:
    """Which places a transport may send to: those that it learned, less those forgotten and lost.

    Thread-safe. Ids are never reused, so entries only age.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._addresses: dict[int, Address] = {}
        self._forgotten: set[int] = set()
        self._lost: set[int] = set()

    def learn(self, peers: Mapping[int, Address]) -> None:
        """Add places; those forgotten or lost stay so."""
        with self._lock:
            self._addresses.update(peers)

    def address_of(self, place: int) -> Address:
        """Return where ``place`` listens.

        Raises:
            UnknownPeerError: Nothing may be sent to it.
        """
        with self._lock:
            if place in self._forgotten:
                raise UnknownPeerError(place, "was forgotten and is not known any more")
            if place in self._lost:
                raise UnknownPeerError(place, "was lost and is not known any more")
            if place not in self._addresses:
                raise UnknownPeerError(place)
            return self._addresses[place]

    def forget(self, place: int) -> None:
        """Let the end of connections of ``place`` be no loss, and refuse frames to it."""
        with self._lock:
            self._forgotten.add(place)

    def is_forgotten(self, place: int) -> bool:
        """Return whether ``place`` was forgotten."""
        with self._lock:
            return place in self._forgotten

    def is_lost(self, place: int) -> bool:
        """Return whether ``place`` was lost."""
        with self._lock:
            return place in self._lost

    def lose(self, place: int) -> bool:
        """Note a loss; return whether it is news: the place was neither forgotten nor lost before."""
        with self._lock:
            if place in self._forgotten or place in self._lost:
                return False
            self._lost.add(place)
            return True


# The io thread's part of the contract --------------------------------------------------------------------------------


class OnLoop:
    """The part of ``apgas.transport.base.Transport`` that is about the io thread, for transports with an event loop.

    Args:
        loop: The io thread.
    """

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        # The loop's own methods, bound here: forwarders would cost a call each on the path of every message.
        self.flush = loop.flush_now
        self.call_soon = loop.call_soon
        self.call_later = loop.call_later
        self.run_last = loop.run_last
        self.hand_off = loop.hand_off
        self.lead = loop.lead
        self.may_lead = loop.may_lead
        self.nudge = loop.nudge
        self.in_io_thread = loop.in_thread

    @property
    def wakeups(self) -> int:
        """How often the io thread has woken up so far."""
        return self._loop.wakeups

    @property
    def busy(self) -> bool:
        """Whether there is more ``run_last`` work."""
        return self._loop.busy

    def on_broken(self, callback: Callable[[BaseException], None]) -> None:
        """Run ``callback`` if the io thread ends by an error; see ``Transport``."""
        self._loop.on_broken = callback

    def _check_may_close(self) -> None:
        if self._loop.in_thread():
            raise UsageError("the io thread cannot close its own transport")
