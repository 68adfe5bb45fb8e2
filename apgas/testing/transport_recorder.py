"""Helpers for tests of transports: a receiver that records, and groups of connected transports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol, TypeAlias

from apgas.errors import ApgasError
from apgas.transport.base import Address, Transport

PATIENCE_S: Final = 20.0
"""Only a failing check waits that long."""


class WatchedTransport(Transport, Protocol):
    """A transport that counts how often its io thread wakes up."""

    @property
    def wakeups(self) -> int:
        """How often the io thread has woken up so far."""


TransportFactory: TypeAlias = Callable[[], WatchedTransport]


class Received(NamedTuple):
    """One frame as it was delivered."""

    src: int
    head: bytes
    buffers: Sequence[bytearray | memoryview]


class Recorder:
    """A receiver that keeps what it gets, in order, and lets other threads wait for it."""

    def __init__(self, react: Callable[[Received], None] | None = None) -> None:
        self.frames: list[Received] = []
        self.lost: list[tuple[int, str]] = []
        self.log: list[str] = []
        self._react = react
        self._changed = threading.Condition()

    def on_frame(
        self, src: int, head: bytes | bytearray | memoryview, buffers: Sequence[bytearray | memoryview]
    ) -> None:
        """Keep a frame."""
        frame = Received(src, bytes(head), buffers)
        with self._changed:
            self.frames.append(frame)
            self.log.append(f"frame {src}")
            self._changed.notify_all()
        if self._react is not None:
            self._react(frame)

    def on_lost(self, place: int, reason: str) -> None:
        """Keep a loss."""
        with self._changed:
            self.lost.append((place, reason))
            self.log.append(f"lost {place}")
            self._changed.notify_all()

    def wait_frames(self, count: int) -> list[Received]:
        """Wait until ``count`` frames have come, and return them."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.frames) >= count, PATIENCE_S):
                raise AssertionError(f"{len(self.frames)} of {count} frames came; losses: {self.lost}")
            return list(self.frames)

    def wait_lost(self, count: int = 1) -> list[int]:
        """Wait until ``count`` losses were reported, and return the places."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.lost) >= count, PATIENCE_S):
                raise AssertionError(f"{len(self.lost)} of {count} losses were reported")
            return [place for place, _ in self.lost]

    def heads(self, src: int) -> list[bytes]:
        """Return the heads of the frames of place ``src`` so far."""
        with self._changed:
            return [frame.head for frame in self.frames if frame.src == src]


class Group(NamedTuple):
    """Started transports that know one another: place i is ``transports[i]``."""

    transports: list[WatchedTransport]
    recorders: list[Recorder]
    addresses: dict[int, Address]


@contextmanager
def group(new: TransportFactory, recorders: int | Sequence[Recorder]) -> Iterator[Group]:
    """Build, start and in the end close one transport for each recorder, or as many as told with fresh ones."""
    kept = [Recorder() for _ in range(recorders)] if isinstance(recorders, int) else list(recorders)
    transports = [new() for _ in kept]
    addresses = {place: transport.address for place, transport in enumerate(transports)}
    try:
        for place, (transport, recorder) in enumerate(zip(transports, kept, strict=True)):
            transport.learn(addresses)
            transport.start(place, recorder)
        yield Group(transports, kept, addresses)
    finally:
        for transport in transports:
            transport.close()


def wait(event: threading.Event, what: str) -> None:
    """Wait for ``event``, or fail with ``what``."""
    if not event.wait(PATIENCE_S):
        raise AssertionError(f"not in {PATIENCE_S} s: {what}")


def pass_through(transport: Transport) -> None:
    """Wait until the io thread has run everything that was posted to it before."""
    passed = threading.Event()
    transport.call_soon(passed.set)
    wait(passed, "a callback on the io thread")


def expect(error: type[ApgasError], call: Callable[[], object]) -> None:
    """Fail unless ``call`` raises ``error``."""
    try:
        call()
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")
