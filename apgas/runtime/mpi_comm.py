"""``apgas.comm``: MPI's own operations among the places of the present epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from apgas.core.identity import Place
from apgas.errors import UsageError
from apgas.runtime import current, process
from apgas.runtime.context import wait_context
from apgas.runtime.environment import ENV_TRANSPORT

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

COMM_S: Final = 30.0
"""How long ``comm`` waits for a resize that is under way."""


def comm(members: Sequence[Place] | None = None) -> Intracomm:
    """Get an MPI communicator of exactly these places, for mpi4py's operations and whatever builds on them.

    Works on the mpi transport only. The communicator is the program's own: the runtime does not use it. Rank i is the
    i-th of the places by their ids. As always with MPI, all of them have to take part in its operations. So let place 0
    read ``places()`` for each step of the program and send that list along: then all agree, even if a resize comes in
    between. While the communicator is being made, right after a resize, this waits.

    Args:
        members: The places: all members of one epoch, as ``places()`` tells them. By default those of now, as known
            here; another place may hear of a resize earlier or later, unless the handler keeps resizes off meanwhile.

    Returns:
        An ``mpi4py.MPI.Intracomm``. It can be used until this place gets that of a later epoch. Never free it.

    Raises:
        UsageError: The job does not use the mpi transport, this is called outside of ``apgas.run`` or in an
            ``immediate``, or these places are the members of no present or coming epoch.
    """
    driver = current.required()
    plane = process.mpi_plane()
    if plane is None:
        raise UsageError(f"apgas.comm needs the mpi transport: start the program with {ENV_TRANSPORT}=mpi")
    wanted = driver.places() if members is None else members
    with wait_context():
        if driver.transport.in_io_thread():
            raise UsageError("apgas.comm may wait, which an immediate must not")
        return plane.communicators.fetch(tuple(sorted(place.id for place in wanted)), COMM_S)
