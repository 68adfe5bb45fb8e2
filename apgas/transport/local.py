"""Frames between places of one process, for tests and for programs that simulate several places."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from functools import partial

from apgas.transport.base import Address, Buffer
from apgas.transport.endpoint import Endpoint
from apgas.transport.loop import EventLoop
from apgas.transport.wire import Frame, checked


class LocalNetwork:
    """Where local transports find one another. Transports of different networks do not meet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._transports: dict[Address, LocalTransport] = {}

    def transport(self) -> LocalTransport:
        """Return a new transport of this network, with an address of its own."""
        with self._lock:
            address = ("local", next(self._numbers))
            return self._transports.setdefault(address, LocalTransport(self, address))

    def connect(self, address: Address, place: int, caller: LocalTransport) -> LocalTransport | None:
        """Connect ``place`` to the transport that listens at ``address``, and return that; None if there is none."""
        with self._lock:
            listener = self._transports.get(address)
            if listener is not None:
                listener.loop.call_soon(partial(listener.post_connected, place, caller))
            return listener

    def leave(self, address: Address) -> None:
        """Free ``address``: no transport connects to it from now on."""
        with self._lock:
            self._transports.pop(address, None)


class LocalTransport(Endpoint["LocalTransport", "LocalTransport"]):
    """A transport inside one process; keeps the contract of ``apgas.transport.base``, each place on its own io thread.

    A connection is an entry on both sides: ``_outgoing`` of the sender, ``_incoming`` of the receiver. Whatever happens
    to it is posted to the io thread of the other side, which keeps the order. Queues are bounded by memory only.
    """

    def __init__(self, network: LocalNetwork, address: Address) -> None:
        super().__init__(EventLoop(f"apgas-io-{address[1]}"))
        self.address = address
        self._network = network

    def connect(self, place: int) -> None:
        """Open the connection to ``place`` now; see ``Transport``."""
        if place != self._place:
            with self._lock:
                self._link(place)

    def send(self, dst: int, head: bytes, buffers: Sequence[Buffer] = (), *, soon: bool = False) -> None:
        """Send one frame; see ``Transport``."""
        del soon  # nothing is gained by waiting
        frame = Frame(self._place, bytes(head), [bytearray(view) for view in checked(head, buffers)])
        with self._lock:
            self._require_running()
            if dst == self._place:
                self.loop.call_soon(partial(self._deliver, frame))
            elif (peer := self._link(dst)) is not None:
                peer.loop.call_soon(partial(peer.post_take, frame))

    def throttle(self, dst: int) -> None:
        """Nothing waits in a process: frames are handed over at once."""

    def crowded(self, dst: int) -> bool:  # noqa: ARG002 - no queue is bounded
        """Return whether ``throttle`` would wait: never; see ``Transport``."""
        return False

    def hold(self, place: int) -> None:
        """All places of a local network live in one process: there is nothing to wait for."""

    def close(self, timeout_s: float = 1.0) -> None:  # noqa: ARG002 - nothing here takes time to flush
        """End everything; see ``Transport``."""
        self.check_may_close()
        with self._lock:
            if self._closing:
                return
            self._closing = True
            outgoing, self._outgoing = self._outgoing, {}
        self._network.leave(self.address)
        for peer in outgoing.values():
            peer.loop.call_soon(partial(peer.post_end, self._place))
        if self._receiver is None:
            # Those that have connected to a transport that was never started are to be notified, too.
            self.loop.start()
        self.loop.stop()
        for peer in self._incoming.values():
            peer.loop.call_soon(partial(peer.post_broken, self._place))

    def _link(self, place: int) -> LocalTransport | None:
        """Return the peer, connecting if need be, with ``_lock`` held; None if there is none: a loss follows."""
        self._require_running()
        address = self._address_of(place)
        peer = self._outgoing.get(place)
        if peer is None:
            peer = self._network.connect(address, self._place, self)
            if peer is None:
                self.loop.call_soon(partial(self._lose, place, "cannot connect: no transport listens there"))
                return None
            self._outgoing[place] = peer
        return peer

    # what peers post to our io thread -------------------------------------------------------------------------------

    def post_connected(self, place: int, peer: LocalTransport) -> None:
        """Learn that ``place`` has connected to us."""
        if place in self._lost:
            peer.loop.call_soon(partial(peer.post_broken, self._place))
            return
        self._incoming[place] = peer

    def post_take(self, frame: Frame) -> None:
        """Take a frame of a connected place."""
        if frame.src in self._incoming:
            self._deliver(frame)

    def post_end(self, place: int) -> None:
        """Learn that the connection from ``place`` has ended."""
        if place in self._incoming:
            self._on_end(place, "it closed its connection")

    def post_broken(self, place: int) -> None:
        """Learn that ``place`` has ended our connection to it."""
        with self._lock:
            self._outgoing.pop(place, None)
        self._lose(place, "it closed our connection")

    def _end_outgoing(self, place: int) -> None:
        with self._lock:
            peer = self._outgoing.pop(place, None)
        if peer is not None:
            peer.loop.call_soon(partial(peer.post_end, self._place))

    def _end_incoming(self, incoming: LocalTransport) -> None:
        incoming.loop.call_soon(partial(incoming.post_broken, self._place))
