"""``apgas.comm``: MPI's own operations among the places of one moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from apgas.core.identity import Place
from apgas.errors import UsageError
from apgas.runtime import process
from apgas.runtime.context import at_end, wait_context
from apgas.runtime.driver import Driver, required_driver
from apgas.runtime.environment import ENV_TRANSPORT

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from apgas.transport.communicators import Communicators
    from apgas.transport.mpi import MpiTransport

COMM_S: Final = 30.0
"""How long ``comm`` waits for a communicator, not counting the drain of leavers."""
_LOOK_S: Final = 0.25
DRAIN_S: Final = 5.0
"""How long ``comm`` waits until others have what was sent to them: they may need it to come to MPI."""


class _Together(threading.local):
    places: tuple[int, ...] | None = None


_together = _Together()


@contextmanager
def among(places: tuple[int, ...] | None) -> Iterator[None]:
    """Let ``comm`` be that of ``places`` on this thread, within the block."""
    before, _together.places = _together.places, places
    try:
        yield
    finally:
        _together.places = before
        plane = process.mpi_plane()
        if plane is not None:
            # what MPI calls done here, another place may still be waiting for
            plane.linger()


def comm(members: Sequence[Place] | None = None) -> Intracomm:
    """Get an MPI communicator of exactly these places, for mpi4py's operations and whatever builds on them.

    Works on the mpi transport only. As always with MPI, all its places have to call this and to take part in the same
    operations: begin them all with ``gather``, which calls the places of one moment, and call this in what it runs.
    Rank i is the i-th of the places by their ids. Right after a resize this waits until the communicator is made.

    Operations on buffers (``Allreduce``) and on objects (``allreduce``) are safe, for they let other threads run while
    they wait. ``Reduce_scatter`` without ``recvcounts``, ``mpi4py.util.pkl5`` and libraries that call MPI without
    letting go of the interpreter are safe within ``gather`` only: elsewhere they can wait for places that cannot be
    asked any more to take part.

    Args:
        members: The places, all members of one epoch. By default those that the ``gather`` around the caller has
            called; else those of now, as this place knows them: another one may hear of a resize earlier or later.

    Returns:
        An ``mpi4py.MPI.Intracomm`` of the program's own. It can be used until this place gets that of a later epoch;
        never free it.

    Raises:
        UsageError: The job does not use the mpi transport, this is called outside of ``apgas.run`` or in an
            ``immediate``, or these places are the members of no present or coming epoch.

    Example:
        >>> def everybody():
        ...     return apgas.comm().allreduce(1)
        >>> set(apgas.gather(everybody).values()) == {len(apgas.places())}
        True
    """
    driver = required_driver()
    plane = process.mpi_plane()
    if plane is None:
        raise UsageError(f"apgas.comm needs the mpi transport: start the program with {ENV_TRANSPORT}=mpi")
    if members is not None:
        wanted = tuple(sorted(place.id for place in members))
    else:
        wanted = _together.places or tuple(place.id for place in driver.places())
    with wait_context():
        found = _await(driver, plane.communicators, wanted)
        # The caller may now wait for them within MPI, in code that keeps the interpreter from sending anything. One
        # that takes nothing for long may be in there already, and wait for us.
        plane.drain(wanted, DRAIN_S)
    at_end(partial(_leave, plane, plane.within(wanted)))
    return found


def _leave(plane: MpiTransport, leave: Callable[[], None]) -> None:
    leave()
    plane.linger()


def _await(driver: Driver, communicators: Communicators, wanted: tuple[int, ...]) -> Intracomm:
    until_s = time.monotonic() + COMM_S
    while time.monotonic() < until_s:
        found = communicators.fetch(wanted, _LOOK_S)
        if found is not None:
            return found
        with driver.lock:
            membership = driver.core.membership
            if membership.leaving and wanted == tuple(info.place for info in membership.staying):
                # it will come when the leavers have drained; if they do not, their order has a deadline
                until_s = time.monotonic() + COMM_S
    with driver.lock:
        members = sorted(driver.core.membership.members)
    raise UsageError(
        f"no communicator of exactly the places {list(wanted)} came within {COMM_S:g} s; the members are {members}: "
        "call apgas.comm in what apgas.gather runs, so that all places mean the same"
    )
