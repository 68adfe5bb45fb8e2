"""How a place reports where it listens, and how a newcomer does so before it has loaded anything else.

The job waits for a newcomer until place 0 knows its address. So this module loads little: MPI, and sockets. What others
send meanwhile waits in the sockets until the newcomer has loaded the rest.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from apgas.errors import UsageError
from apgas.runtime import environment, library, reach, segments
from apgas.transport.near import Listening


class Told(NamedTuple):
    """What a place tells of itself: where it listens, and for people its node and process id."""

    host: str
    port: int
    node: str
    pid: int


class Outfit(NamedTuple):
    """What newcomers take over from place 0, so that the program finds there what it finds on the first places.

    Attributes:
        environ: The variables that the program has set; None: removed.
        belongings: The rest, pickled, which takes loading (``main_module.Belongings``).
        at_once: Whether the program's ``setup`` is in it, and to be run before the newcomer reports.
    """

    environ: dict[str, str | None]
    belongings: bytes
    at_once: bool


class Arrival(NamedTuple):
    """A newcomer that has reported.

    Attributes:
        rank: Its rank among those spawned together.
        belongings: What it has still to take over, pickled; empty: it has done so.
        admission: What place 0 answered, pickled; empty: it is not wanted any more.
        token: The job's secret.
        listening: Where it listens; None: it has said that it cannot.
        bridge: On the mpi plane, the communicator that it shares with place 0.
    """

    rank: int
    belongings: bytes
    admission: bytes
    token: bytes
    listening: Listening | None
    bridge: Any


def listen(towards: str) -> tuple[Listening | None, Told | str]:
    """Listen where ``towards`` reaches us; returns what to tell of it, or why not: the others wait to hear of us."""
    node = environment.node_name()
    wanted = ""
    try:
        wanted = reach.listen_where(towards)
        listening = Listening(wanted)
    except UsageError as error:
        return None, f"{node}: {error}"
    except OSError as error:
        return None, f"{node}: cannot listen on {wanted}{reach.asked_for()}: {error.strerror}"
    host, port = listening.address
    return listening, Told(host, port, node, os.getpid())


def arrive() -> Arrival:
    """(newcomer) Report to the place that spawned us, and hear what it answers."""
    mpi = library.load()
    world = mpi.COMM_WORLD
    parent = mpi.Comm.Get_parent()
    token, towards, outfit = parent.bcast(None, root=0)
    environment.take_over(outfit.environ)
    problem = _set_up(outfit.belongings) if outfit.at_once else ""
    listening, told = (None, problem) if problem else listen(towards)
    everyone = world.gather(told, root=0)
    if world.rank == 0:
        parent.send(everyone, dest=0, tag=0)
    # when all have initialised: until then a kill -9 leaves MPI's files behind; but the job, which waits, comes first
    world.Barrier()
    segments.unlink_leftovers()
    admission: bytes
    admission, _ = parent.bcast(None, root=0)
    bridged = bool(admission) and environment.transport() == "mpi"
    bridge = parent.Merge(high=True) if bridged else None
    parent.Disconnect()
    belongings = b"" if outfit.at_once else outfit.belongings
    return Arrival(world.rank, belongings, admission, token, listening, bridge)


def _set_up(belongings: bytes) -> str:
    """Take over all at once, and run the program's ``setup``; returns why that failed, empty if it has not."""
    try:
        from apgas.runtime import main_module

        main_module.take_over(belongings)
    except BaseException as error:  # noqa: BLE001 - whatever the program raises: the order is aborted
        import traceback

        traceback.print_exc()
        return f"{environment.node_name()}: setup raised {type(error).__name__}: {error}"
    return ""
