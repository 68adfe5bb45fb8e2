"""A transport that sends what it is given over another one; what it does not change is that one's."""

from __future__ import annotations

from collections.abc import Mapping

from apgas.transport.base import Address
from apgas.transport.onloop import OnLoop
from apgas.transport.tcp import TcpTransport


class Overlay(OnLoop):
    """The part of the contract that does not look at frames, as the line below keeps it.

    Args:
        line: The transport below.
    """

    def __init__(self, line: TcpTransport) -> None:
        super().__init__(line.loop)
        self._line = line

    @property
    def address(self) -> Address:
        """Where the line listens."""
        return self._line.address

    def listen_also(self, host: str) -> Address:
        """Listen on a further address; see ``TcpTransport``."""
        return self._line.listen_also(host)

    def learn(self, peers: Mapping[int, Address]) -> None:
        """Allow frames to ``peers``; see ``Transport``."""
        self._line.learn(peers)

    def connect(self, place: int) -> None:
        """Open the connection to ``place`` now; see ``Transport``."""
        self._line.connect(place)

    def hold(self, place: int) -> None:
        """Let the connection to ``place`` live as long as this process; see ``Transport``."""
        self._line.hold(place)
