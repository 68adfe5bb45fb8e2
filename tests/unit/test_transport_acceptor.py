"""A transport that listens on a further address."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence

import pytest
from support import PATIENCE_S

from apgas.transport.auth import new_token
from apgas.transport.base import TransportClosedError
from apgas.transport.tcp import TcpTransport


class Inbox:
    """Keeps the frames that arrive."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.arrived = threading.Event()

    def on_frame(
        self, src: int, head: bytes | bytearray | memoryview, buffers: Sequence[bytearray | memoryview]
    ) -> None:
        self.frames.append(bytes(head))
        self.arrived.set()

    def on_lost(self, place: int, reason: str) -> None:
        pass


def test_both_addresses_lead_to_the_same_place_until_it_closes() -> None:
    token = new_token()
    home, near, far = (TcpTransport(token) for _ in range(3))
    inbox = Inbox()
    try:
        home.start(0, inbox)
        further = home.listen_also("127.0.0.2")
        assert further[0] == "127.0.0.2"
        assert home.address[0] == "127.0.0.1"
        for place, transport, address in ((1, near, home.address), (2, far, further)):
            inbox.arrived.clear()
            transport.start(place, Inbox())
            transport.learn({0: address})
            transport.send(0, b"from %d" % place)
            assert inbox.arrived.wait(PATIENCE_S)
        assert inbox.frames == [b"from 1", b"from 2"]
    finally:
        for transport in (home, near, far):
            transport.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(further, 5)
    with pytest.raises(TransportClosedError):
        home.listen_also("127.0.0.2")


def test_a_transport_that_is_not_running_opens_no_acceptor() -> None:
    transport = TcpTransport(new_token())
    try:
        with pytest.raises(TransportClosedError):
            transport.listen_also("127.0.0.2")
    finally:
        transport.close()
