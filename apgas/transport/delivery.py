"""What a transport hands on: frames and losses to its receiver, ends of connections to those who wait for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container

from apgas.transport.base import Receiver
from apgas.transport.loop import EventLoop
from apgas.transport.wire import Frame

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
