"""Receives by MPI what was announced on the line, and keeps the order of what comes on both ways. Io thread only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from apgas.errors import ProtocolError
from apgas.transport import bulk
from apgas.transport.arrivals import Arrival, Arrivals
from apgas.transport.communicators import Epoch
from apgas.transport.engine import Engine, Transfer
from apgas.transport.onloop import OnLoop

Deliver: TypeAlias = Callable[[int, "bytes | memoryview", Sequence["bytearray | memoryview"]], None]
_KEPT = 2
"""By the time that a third communicator is there, nothing travels on the first any more."""


class Announced:
    """The large frames that are on their way here.

    Args:
        loop: The io thread.
        engine: Carries out the receives.
        byte: MPI's type of a byte.
        deliver: Is given each frame in its turn.
        lose: Is told of a place whose frames cannot be received, and why.

    Attributes:
        arrivals: What waits for its turn.
    """

    def __init__(
        self, loop: OnLoop, engine: Engine, byte: Any, deliver: Deliver, lose: Callable[[int, str], None]
    ) -> None:
        self.arrivals = Arrivals()
        self._loop = loop
        self._engine = engine
        self._byte = byte
        self._deliver = deliver
        self._lose = lose
        self._transfers: dict[int, dict[Arrival, Transfer | None]] = {}
        self._early: dict[int, list[Callable[[Epoch], None]]] = {}
        self._epochs: dict[int, Epoch] = {}

    def expect(self, src: int, head: bytes | bytearray | memoryview, small: Sequence[bytearray | memoryview]) -> None:
        """Keep the turn of a frame, and receive what is missing of it as soon as its communicator is there.

        Raises:
            ProtocolError: It makes no sense, or its communicator is there no more.
            MemoryError: There is not enough for it.
        """
        announcement, rest = bulk.parse(head)
        number = announcement.number
        missing = [(part, bytearray(part.length_bytes)) for part in announcement.parts]
        frame = bulk.assemble(small, missing)
        if number not in self._epochs and self._epochs and number < max(self._epochs):
            raise ProtocolError(f"a frame by the communicator of epoch {number}, which is gone")
        arrival = self.arrivals.expect(src, partial(self._deliver, src, rest, frame))
        self._transfers.setdefault(src, {})[arrival] = None
        begin = partial(self._receive, src, arrival, announcement.tag, [memory for _, memory in missing])
        if number in self._epochs:
            begin(self._epochs[number])
        else:
            self._early.setdefault(number, []).append(begin)

    def installed(self, epoch: Epoch) -> None:
        """A communicator is there."""
        self._epochs[epoch.number] = epoch
        for number in sorted(self._epochs)[:-_KEPT]:
            del self._epochs[number]
        for begin in self._early.pop(epoch.number, ()):
            begin(epoch)

    def drop(self, place: int) -> None:
        """Give up what is on its way from ``place``."""
        for transfer in self._transfers.pop(place, {}).values():
            if transfer is not None:
                self._engine.give_up(transfer)
        self.arrivals.drop(place)

    def _receive(self, src: int, arrival: Arrival, tag: int, memory: list[bytearray], epoch: Epoch) -> None:
        if arrival not in self._transfers.get(src, {}):
            return
        comm, rank = epoch.comm, epoch.ranks[src]
        transfer = Transfer(
            lambda: (comm.Irecv((buffer, self._byte), rank, tag) for buffer in memory),
            lambda error: self._received_soon(src, arrival, error),
            receiving=True,
        )
        self._transfers[src][arrival] = transfer
        self._engine.submit(transfer)

    def _received_soon(self, src: int, arrival: Arrival, error: str) -> None:
        if self._loop.in_io_thread():
            self._received(src, arrival, error)
        else:
            self._loop.call_soon(partial(self._received, src, arrival, error))

    def _received(self, src: int, arrival: Arrival, error: str) -> None:
        transfers = self._transfers.get(src, {})
        if arrival not in transfers:
            return
        del transfers[arrival]
        if error:
            self._lose(src, f"cannot receive by MPI: {error}")
        else:
            self.arrivals.completed(src, arrival)
