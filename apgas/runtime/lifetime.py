"""Processes: how a place starts, how it spawns others, how it ends. One of two modules that import mpi4py.

MPI starts and reaps the processes and carries their identity; everything afterwards travels over the transport.
``NO_COLLECTIVE_FINALIZE`` lets each place finalize and exit alone.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from apgas.core.messages import PlaceInfo
from apgas.errors import ApgasError
from apgas.runtime import environment, segments
from apgas.transport.base import Address

_NEWCOMER = "import sys; sys.path.insert(0, {path!r}); from apgas.runtime.newcomer import main; main()"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a place knows when it starts."""

    place: int
    members: tuple[PlaceInfo, ...]
    epoch: int


@dataclass(frozen=True, slots=True)
class Admission:
    """What place 0 tells newcomers over MPI: their ids are the last of ``members``, in the order of their ranks."""

    members: tuple[PlaceInfo, ...]
    epoch: int
    sys_path: tuple[str, ...]
    cwd: str


def _mpi() -> Any:
    launch = environment.prepare()
    import mpi4py

    mpi4py.rc.finalize = False
    from mpi4py import MPI

    environment.check_world(launch, MPI.COMM_WORLD.size, MPI.Get_library_version().split("\n", 1)[0].split(",", 1)[0])
    return MPI


def bind_host(world: Any) -> str:
    """The address to listen on: loopback while all places share this machine."""
    chosen = os.environ.get("APGAS_BIND_HOST")
    if chosen:
        return chosen
    machines = set(world.allgather(os.uname().nodename))
    if len(machines) == 1:
        return "127.0.0.1"
    return socket.gethostbyname(os.uname().nodename)


def start_world(listen: Callable[[str, bytes], Address]) -> Identity:
    """Join the first world; ``listen`` is given the host to bind to and the job's token.

    Raises:
        UsageError: The process was started by a foreign mpiexec.
    """
    mpi = _mpi()
    world = mpi.COMM_WORLD
    token = world.bcast(secrets.token_bytes(32) if world.rank == 0 else None, root=0)
    host, port = listen(bind_host(world), token)
    me = PlaceInfo(world.rank, host, port, environment.node_name(), os.getpid())
    members = tuple(world.allgather(me))
    segments.unlink_leftovers()
    return Identity(world.rank, members, 0)


def spawn_places(
    nodes: tuple[str, ...],
    token: bytes,
    admit: Callable[[list[PlaceInfo]], Admission | None],
    note: Callable[[str], None],
) -> tuple[PlaceInfo, ...] | None:
    """Spawn a place per name in ``nodes`` (this machine where empty); ``admit`` numbers them, or refuses with None.

    ``note`` is told when the processes are up ("spawn") and when they know their job ("join").

    Raises:
        ApgasError: MPI could not spawn them.
    """
    mpi = _mpi()
    program = _NEWCOMER.format(path=str(Path(__file__).parents[2]))
    names = list(dict.fromkeys(nodes))
    infos = []
    for name in names:
        info = mpi.Info.Create()
        if name:
            info.Set("host", name)
        info.Set("wdir", str(Path.cwd()))
        infos.append(info)
    counts = [nodes.count(name) for name in names]
    args = [["-c", program]] * len(names)
    try:
        with environment.shielded_from_interrupt():
            if len(names) == 1:
                inter = mpi.COMM_SELF.Spawn(sys.executable, args[0], maxprocs=counts[0], info=infos[0])
            else:
                inter = mpi.COMM_SELF.Spawn_multiple([sys.executable] * len(names), args, counts, infos)
    except mpi.Exception as error:
        raise ApgasError(
            f"MPI could not spawn {len(nodes)} places on {', '.join(names) or 'this host'}: {error}"
        ) from error
    note("spawn")
    inter.bcast(token, root=mpi.ROOT)
    newcomers: list[PlaceInfo] = inter.recv(source=0, tag=0)
    admission = admit(newcomers)
    inter.bcast(admission, root=mpi.ROOT)
    inter.Disconnect()
    note("join")
    return admission.members[-len(newcomers) :] if admission else None


def join_job(listen: Callable[[str, bytes], Address]) -> Identity | None:
    """(newcomer) Report to the place that spawned us and learn who we are; None: not wanted any more."""
    mpi = _mpi()
    world = mpi.COMM_WORLD
    parent = mpi.Comm.Get_parent()
    token: bytes = parent.bcast(None, root=0)
    host, port = listen(os.environ.get("APGAS_BIND_HOST", "127.0.0.1"), token)
    me = PlaceInfo(world.rank, host, port, environment.node_name(), os.getpid())
    everyone = world.gather(me, root=0)
    if world.rank == 0:
        parent.send(everyone, dest=0, tag=0)
    admission: Admission | None = parent.bcast(None, root=0)
    parent.Disconnect()
    segments.unlink_leftovers()
    if admission is None:
        return None
    os.chdir(admission.cwd)
    sys.path[:] = list(admission.sys_path)
    place = admission.members[world.rank - world.size].place
    return Identity(place, admission.members, admission.epoch)


def finalize() -> None:
    """Leave MPI; the process exits soon after."""
    from mpi4py import MPI

    if MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.Finalize()


def abort(code: int) -> NoReturn:
    """End every process of the job at once; mpiexec returns ``code``. Say why before."""
    from mpi4py import MPI

    sys.stdout.flush()
    sys.stderr.flush()
    # MPI would add a line about its own abort, which tells the user nothing
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    MPI.COMM_WORLD.Abort(code)
    os._exit(code)
