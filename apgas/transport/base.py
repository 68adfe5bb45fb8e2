"""The delivery contract that every transport keeps, and that the runtime builds on.

A transport moves *frames* (a head and out-of-band buffers) between places:

- **Reliable and FIFO per ordered pair of places.** Frames from place *a* to place *b* arrive once each, in the order of
  the calls of ``send``. Nothing is promised between different pairs.
- **Lazy.** A connection is opened by the first frame to a place, or by ``connect``. Frames may arrive from a place that
  was not learned yet.
- **Authenticated.** Nothing of a peer is delivered before the peer has proved that it holds the job's token.
- **Losses are reported once.** When a connection of an authenticated peer ends, in either direction, and the place was
  not forgotten, the receiver is notified after the frames that had already arrived.
- **One io thread,** the ``loop``. Receiver, timers and callbacks all run there, one at a time. ``send`` never waits, so
  it may be called under a lock that the receiver needs; who sends much calls ``throttle`` before, which waits for a
  slow peer.
- **Small frames in a row travel together** if their sender allows it (``soon``); a lone one is not delayed.
- **Values, not references.** Once ``send`` has returned, the caller may change its buffers.
- **Idle is free.** Without traffic and timers the io thread sleeps in the kernel without a timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from apgas.errors import ApgasError

if TYPE_CHECKING:
    from apgas.transport.loop import EventLoop

Address: TypeAlias = tuple[str, int]
"""Numeric host address and port."""

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Contiguous bytes to send."""


class UnknownPeerError(ApgasError):
    """A frame was addressed to a place that was never learned, was forgotten, or is lost."""

    def __init__(self, place: int, why: str = "is not known") -> None:
        super().__init__(f"place {place} {why} to this transport")
        self.place = place
        self.why = why

    def __reduce__(self) -> tuple[type[UnknownPeerError], tuple[int, str], dict[str, object]]:
        return (type(self), (self.place, self.why), self.__dict__)


class TransportClosedError(ApgasError):
    """The transport was closed, or not started yet."""


class Receiver(Protocol):
    """The receiver of what a transport delivers. Both methods are called on the io thread only and must not block."""

    def on_frame(
        self, src: int, head: bytes | bytearray | memoryview, buffers: Sequence[bytearray | memoryview]
    ) -> None:
        """Take one frame of place ``src``; head and buffers belong to the receiver from now on."""

    def on_lost(self, place: int, reason: str) -> None:
        """Learn that the connection to or from ``place`` ended although we had not forgotten it. Once per place."""


class Transport(Protocol):
    """Moves frames between places; see the module's text for what it promises."""

    @property
    def address(self) -> Address:
        """Where this transport listens; known from the start, before ``start``."""

    @property
    def loop(self) -> EventLoop:
        """The io thread, which runs from ``start`` on."""

    def start(self, place: int, receiver: Receiver) -> None:
        """Begin to deliver: our id is ``place`` from now on, and the io thread runs."""

    def learn(self, peers: Mapping[int, Address]) -> None:
        """Allow frames to ``peers``. Ids are never reused: a place that was forgotten or lost stays so."""

    def connect(self, place: int) -> None:
        """Open the connection to ``place`` now, so that its loss is noticed even when nothing is sent.

        Raises:
            UnknownPeerError: The place is not known, forgotten, or lost.
            TransportClosedError: The transport is not running.
        """

    def is_lost(self, place: int) -> bool:
        """Return whether the loss of ``place`` was reported, or is just about to be. Any thread."""

    def send(self, dst: int, head: bytes, buffers: Sequence[Buffer] = (), *, soon: bool = False) -> None:
        """Send one frame; ``dst`` may be our own id. Any thread.

        ``soon``: a small frame may be kept until the io thread's round ends or its ``flush_now`` is called, so that
        several travel together. The order of frames is kept in any case.

        Raises:
            UnknownPeerError: The place is not known, forgotten, or lost.
            UsageError: The frame exceeds the limits of the wire format.
            TransportClosedError: The transport is not running.
        """

    def throttle(self, dst: int) -> None:
        """Wait while too much is queued for ``dst``. Returns at once on the io thread and for places without a queue.

        Raises:
            SlowPeerError: The queue did not shrink in time.
        """

    def crowded(self, dst: int) -> bool:
        """Return whether ``throttle`` would wait: the io thread, which must not, leaves it to others to send more."""

    def forget(self, place: int) -> None:
        """End our side: flush what is queued, then close the connection *to* ``place``.

        From now on the end of its connections is no loss. What it has sent or still sends is delivered until its
        connection ends. (It sees the end of ours: a loss, unless it has forgotten us, too.) Idempotent; any thread.
        """

    def on_gone(self, place: int, callback: Callable[[], None]) -> None:
        """Run ``callback`` once on the io thread when the connection *from* ``place`` has ended; soon if there is none.

        For a forgotten place this is the sign that its process is gone or has closed its transport.
        """

    def hold(self, place: int) -> None:
        """Let the connection to ``place`` live as long as this process: ``close`` leaves its end to the kernel.

        So ``on_gone`` shows the other side that the process has ended, not only that it has closed its transport.
        """

    def close(self, timeout_s: float = 1.0) -> None:
        """Flush what is queued for at most ``timeout_s`` seconds, then end the io thread and all connections.

        Losses are not reported from here on. Idempotent.

        Raises:
            UsageError: It was called on the io thread.
        """
