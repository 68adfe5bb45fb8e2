"""What transports share: whom they may send to, whom they hand frames and losses, and their part of the io thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Mapping

from apgas.errors import UsageError
from apgas.transport.base import Address, Receiver, UnknownPeerError
from apgas.transport.loop import EventLoop, Timer
from apgas.transport.wire import Frame

# What a transport hands on: frames and losses to its receiver, ends of connections to those who wait for them --------

_logger = logging.getLogger(__name__)


class Delivery:
    """Hands on what arrives. All on the io thread but ``on_gone``.

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
        """Tell those who wait for it that the connection from ``place`` has ended."""
        for callback in self._waiting.pop(place, ()):
            self._loop.call_soon(callback)


# Whom a transport may send to: the places that it learned, less those forgotten and lost -----------------------------


class PeerBook:
    """The state of every place that a transport heard of. Thread-safe; ids are never reused, so entries only age."""

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
        """Tell whether ``place`` was forgotten."""
        with self._lock:
            return place in self._forgotten

    def is_lost(self, place: int) -> bool:
        """Tell whether ``place`` was lost."""
        with self._lock:
            return place in self._lost

    def lose(self, place: int) -> bool:
        """Note a loss; return whether it is news: the place was neither forgotten nor lost before."""
        with self._lock:
            if place in self._forgotten or place in self._lost:
                return False
            self._lost.add(place)
            return True


# The part of a transport's contract that is about the io thread, for transports that have an event loop --------------


class OnLoop:
    """Hands on to an event loop what ``apgas.transport.base.Transport`` says of the io thread.

    Args:
        loop: The io thread.
    """

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop

    @property
    def wakeups(self) -> int:
        """How often the io thread has woken up so far."""
        return self._loop.wakeups

    def flush(self) -> None:
        """Write the frames that were sent ``soon``; see ``Transport``."""
        self._loop.flush_now()

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` on the io thread; see ``Transport``."""
        self._loop.call_soon(callback)

    def run_last(self, work: Callable[[], None]) -> None:
        """Run ``work`` at the end of the io thread's round; see ``Transport``."""
        self._loop.run_last(work)

    @property
    def busy(self) -> bool:
        """Whether there is more ``run_last`` work."""
        return self._loop.busy

    def hand_off(self) -> None:
        """Let another thread be the io thread; see ``Transport``."""
        self._loop.hand_off()

    def on_broken(self, callback: Callable[[BaseException], None]) -> None:
        """Run ``callback`` if the io thread ends by an error; see ``Transport``."""
        self._loop.on_broken = callback

    def lead(self, done: Callable[[], bool], seconds: float) -> None:
        """Be the io thread for a while; see ``Transport``."""
        self._loop.lead(done, seconds)

    def may_lead(self) -> bool:
        """Tell whether the caller is within ``lead``; see ``Transport``."""
        return self._loop.may_lead()

    def nudge(self) -> None:
        """Let a thread that leads look at its ``done``; see ``Transport``."""
        self._loop.nudge()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Run ``callback`` on the io thread in ``delay_s`` seconds; see ``Transport``."""
        return self._loop.call_later(delay_s, callback)

    def _check_may_close(self) -> None:
        if self._loop.in_thread():
            raise UsageError("the io thread cannot close its own transport")

    def in_io_thread(self) -> bool:
        """Tell whether the caller runs on the io thread."""
        return self._loop.in_thread()
