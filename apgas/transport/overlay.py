"""A transport that sends what it is given over another one; what it does not change is that one's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from apgas.transport.base import Address
from apgas.transport.tcp import TcpTransport
from apgas.transport.timers import Timer


class Overlay:
    """The part of the contract that does not look at frames, as the line below keeps it.

    Args:
        line: The transport below.
    """

    def __init__(self, line: TcpTransport) -> None:
        self._line = line

    @property
    def address(self) -> Address:
        """Where the line listens."""
        return self._line.address

    @property
    def wakeups(self) -> int:
        """How often the io thread has woken up so far."""
        return self._line.wakeups

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

    def flush(self) -> None:
        """Write the frames that were sent ``soon``; see ``Transport``."""
        self._line.flush()

    def run_last(self, work: Callable[[], None]) -> None:
        """Run ``work`` at the end of the io thread's round; see ``Transport``."""
        self._line.run_last(work)

    def hand_over(self) -> None:
        """Let another thread be the io thread; see ``Transport``."""
        self._line.hand_over()

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` on the io thread; see ``Transport``."""
        self._line.call_soon(callback)

    @property
    def busy(self) -> bool:
        """Whether there is more ``run_last`` work."""
        return self._line.busy

    def lead(self, done: Callable[[], bool], seconds: float) -> None:
        """Be the io thread for a while; see ``Transport``."""
        self._line.lead(done, seconds)

    def nudge(self) -> None:
        """Let a thread that leads look at its ``done``; see ``Transport``."""
        self._line.nudge()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Run ``callback`` on the io thread in ``delay_s`` seconds; see ``Transport``."""
        return self._line.call_later(delay_s, callback)

    def in_io_thread(self) -> bool:
        """Tell whether the caller runs on the io thread."""
        return self._line.in_io_thread()
