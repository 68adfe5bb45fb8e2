"""Processes: how a place starts, how it spawns others, how it ends. One of two modules that import mpi4py.

MPI starts and reaps the processes and carries their identity; everything afterwards travels over the transport. Each
place finalizes and exits alone, whichever world it came from: see ``mpis`` for what lets it do so.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import pickle
import secrets
import stat
import sys
import termios
import threading
import time
from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from apgas.core.messages import PlaceInfo
from apgas.errors import ApgasError, UsageError
from apgas.runtime import (
    arrival,
    environment,
    library,
    logs,
    main_module,
    mpis,
    orphans,
    outputs,
    reach,
    resilience,
    segments,
)
from apgas.runtime.outputs import TaggedOutput
from apgas.transport.near import Listening

if TYPE_CHECKING:
    from apgas.transport.communicators import Beginning

READ_S: Final = 0.1
"""How long the end of a job may wait for its last words to be read."""

ABORT_S: Final = 1.0
"""How long MPI may take to end the job."""

_wards = orphans.Wards()


class _Spawns:
    """How many calls of MPI are waiting for new processes."""

    def __init__(self) -> None:
        self.waiting = 0

    def __enter__(self) -> None:
        self.waiting += 1

    def __exit__(self, *_: object) -> None:
        self.waiting -= 1


_spawns = _Spawns()
_NEWCOMER = (
    "import os, sys; sys.path.insert(0, {path!r}); os.environ.update({chosen!r}); "
    "from apgas.runtime.newcomer import main; main()"
)
"""MPI does not hand on what the program has changed in its environment."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a place knows when it starts: its id, all members in the order of their ids, the epoch.

    ``beginning``: what the mpi plane begins with; None on the tcp plane.
    """

    place: int
    members: tuple[PlaceInfo, ...]
    epoch: int
    beginning: Beginning | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """A place that is about to begin: who it is, the job's secret, and where it listens."""

    identity: Identity
    token: bytes
    listening: Listening


@dataclass(frozen=True, slots=True)
class Admission:
    """What place 0 tells newcomers over MPI; ``places`` are the ids of one spawned world, in the order of its ranks."""

    places: tuple[int, ...]
    members: tuple[PlaceInfo, ...]
    epoch: int
    sys_path: tuple[str, ...]
    cwd: str
    main: main_module.MainModule
    logs: logs.Settings | None
    tagged: bool


def start_world() -> Start:
    """Join the first world.

    Raises:
        UsageError: The process was started by a foreign mpiexec, the places cannot reach each other, or the transport
            that was chosen cannot be used.
    """
    resilience.prepare_first_world()
    if environment.transport() == "mpi" and "mpi4py.MPI" in sys.modules:
        raise UsageError(
            "mpi4py.MPI was imported before apgas.run, which has to set MPI up for the mpi transport: "
            "import it in the functions that use it"
        )
    mpi = library.load()
    world = mpi.COMM_WORLD
    token = world.bcast(secrets.token_bytes(32) if world.rank == 0 else None, root=0)
    spot = reach.Spot(reach.machine(), environment.node_name())
    towards = reach.someone_elsewhere(spot, world.allgather(spot))
    # as soon as all have initialised: until then a kill -9 leaves them behind
    _leave_nothing()
    if world.rank == 0:
        segments.sweep()
    listening, told = arrival.listen(towards)
    members = _all_listening(world.allgather(told))
    assert listening is not None
    beginning = _beginning(None) if environment.transport() == "mpi" else None
    return Start(Identity(world.rank, members, 0, beginning), token, listening)


def _beginning(bridge: Any) -> Beginning:
    """What the mpi plane begins with; ``bridge`` is a newcomer's to place 0.

    Raises:
        UsageError: It cannot work with this MPI.
    """
    from apgas.transport.communicators import Beginning

    mpi = library.load()
    version = mpi.Get_library_version()
    kind = mpis.named_in(version)
    if kind is None or "mpi" not in kind.planes or mpi.Query_thread() < mpi.THREAD_MULTIPLE:
        name = version.split("\n", 1)[0].split(",", 1)[0].strip()
        raise UsageError(
            f"the mpi transport needs MPICH with MPI_THREAD_MULTIPLE, and this is {name}: "
            f"leave {environment.ENV_TRANSPORT} out, or set it to tcp"
        )
    return Beginning(mpi, bridge)


def _leave_nothing() -> None:
    """(after a barrier of this world) See to it that nothing stays behind, should the job be killed."""
    segments.unlink_leftovers()
    if environment.launched_by(os.environ).kind in ("hydra", "openmpi"):
        # mpiexec would wait for ever for places whose process manager was killed
        orphans.end_with_parent()


def _under_openmpi() -> bool:
    return environment.launched_by(os.environ).kind == "openmpi"


def _all_listening(everyone: Iterable[arrival.Told | str]) -> tuple[PlaceInfo, ...]:
    """Number all from 0.

    Raises:
        UsageError: One of them cannot listen.
    """
    members: list[PlaceInfo] = []
    for told in everyone:
        if isinstance(told, str):
            raise UsageError(told)
        members.append(PlaceInfo(len(members), *told))
    return tuple(members)


def spawn_places(
    nodes: tuple[str, ...],
    token: bytes,
    towards: str,
    admit: Callable[[list[PlaceInfo]], Identity],
    note: Callable[[str], None],
    bridge: Callable[[tuple[int, ...], Any], None] | None = None,
) -> tuple[PlaceInfo, ...]:
    """Spawn a place per name in ``nodes`` (this machine where empty); ``admit`` gives them ids and names the members.

    One spawn per node, for MPICH honours the node's name only there; the worlds come up while the next is spawned.
    ``towards`` is an address of ours that they must reach and be reached from; empty: all are on this machine.
    ``note`` is told when the processes are up ("spawn") and when they know their job ("join"). ``bridge``, on the mpi
    plane, takes the communicator that this place shares with each spawned world, with its ids.

    Raises:
        ApgasError: MPI could not spawn them, or nobody could reach them; those that were spawned end.
    """
    if library.loaded_too_early():
        raise ApgasError(
            "mpi4py.MPI was imported before apgas.run, so MPI was loaded without what growing needs: import it in main"
        )
    if not library.kind().resizes:
        raise ApgasError(f"a job cannot grow under {library.kind().name}; MPICH and Open MPI can: malleable doctor")
    _refuse_unreachable(nodes)
    worlds: list[Any] = []
    try:
        for name in dict.fromkeys(nodes):
            world = _spawn(name, nodes.count(name))
            _greet(world, name, (token, towards))
            worlds.append(world)
    except ApgasError:
        for world in worlds:
            world.recv(source=0, tag=0)
            _dismiss(world, None)
        raise
    note("spawn")
    groups: list[list[arrival.Told | str]] = [world.recv(source=0, tag=0) for world in worlds]
    try:
        newcomers = _all_listening(told for group in groups for told in group)
    except UsageError:
        for world in worlds:
            _dismiss(world, None)
        raise
    identity = admit(list(newcomers))
    added = identity.members[-len(nodes) :]
    taken = 0
    for world, group in zip(worlds, groups, strict=True):
        places = tuple(info.place for info in added[taken : taken + len(group)])
        taken += len(group)
        cwd, main = str(Path.cwd()), main_module.describe()
        saying = logs.settings(), outputs.wanted()
        admission = Admission(places, identity.members, identity.epoch, tuple(sys.path), cwd, main, *saying)
        _dismiss(world, admission, partial(bridge, places) if bridge is not None else None)
    if library.kind() is mpis.OPEN_MPI:
        here = [info.pid for info in added if info.node == environment.node_name()]
        _wards.add(here, orphans.MOMENT_S if _under_openmpi() else 0.0)
    note("join")
    return added


def _spawn(node: str, count: int) -> Any:
    mpi, kind = library.load(), library.kind()
    info = mpi.Info.Create()
    if node:
        info.Set("host", node)
    info.Set("wdir", str(Path.cwd()))
    for hint, value in kind.spawning.items():
        info.Set(hint, value)
    chosen = {
        environment.ENV_TRANSPORT: environment.transport(),
        resilience.ENV_RESILIENT: str(int(resilience.wanted())),
    }
    program = _NEWCOMER.format(path=str(Path(__file__).parents[2]), chosen=chosen)
    command, args = resilience.shielded(sys.executable, ["-c", program])
    try:
        with environment.shielded_from_interrupt(), _spawns:
            return mpi.COMM_SELF.Spawn(command, args, maxprocs=count, info=info)
    except mpi.Exception as error:
        where = f"{node} ({kind.name} can on {kind.hosts})" if node else "this host"
        raise ApgasError(f"MPI could not spawn {count} places on {where}: {error}") from error
    finally:
        info.Free()


def _refuse_unreachable(nodes: tuple[str, ...]) -> None:
    """Open MPI finds a way from a place to another host at most once, and may crash when it is finalized after that.

    Raises:
        ApgasError: The job cannot grow there.
    """
    elsewhere = sorted(set(nodes) - {"", environment.node_name()})
    if library.kind() is mpis.OPEN_MPI and elsewhere:
        raise ApgasError(f"under Open MPI a job grows on the host of place 0 only, not on {', '.join(elsewhere)}")


def _greet(world: Any, node: str, words: tuple[bytes, str]) -> None:
    """Tell a spawned world what it needs to report; it ends if it cannot hear us.

    Raises:
        ApgasError: MPI has no way to it.
    """
    mpi = library.load()
    try:
        world.bcast(words, root=mpi.ROOT)
    except mpi.Exception as error:
        where = node or "this host"
        raise ApgasError(f"{library.kind().name} started places on {where}, and cannot reach them: {error}") from error


def _dismiss(world: Any, admission: Admission | None, bridge: Callable[[Any], None] | None = None) -> None:
    """Give a spawned world its admission, or send it home with None; but for ``bridge``, MPI has done its work."""
    body = b"" if admission is None else pickle.dumps(admission)
    world.bcast(body, root=library.load().ROOT)  # which the newcomers read when they have loaded what it is made of
    if bridge is not None:
        bridge(world.Merge(high=False))
    world.Disconnect()


def join_job(arrived: arrival.Arrival) -> Start | None:
    """(newcomer) Learn who we are from place 0's answer; None: not wanted any more."""
    _leave_nothing()
    if not arrived.admission or arrived.listening is None:
        return None
    admission: Admission = pickle.loads(arrived.admission)
    beginning = _beginning(arrived.bridge) if arrived.bridge is not None else None
    os.chdir(admission.cwd)
    sys.path[:] = list(admission.sys_path)
    main_module.stand_in(admission.main)
    if admission.logs is not None:
        logs.apply(admission.logs)
    outputs.want(tagged=admission.tagged)
    identity = Identity(admission.places[arrived.rank], admission.members, admission.epoch, beginning)
    return Start(identity, arrived.token, arrived.listening)


def spawning() -> bool:
    """Whether MPI waits for new processes: it cannot be left then, and they may never come."""
    return _spawns.waiting > 0


def finalize() -> None:
    """Leave MPI; the process exits soon after."""
    from mpi4py import MPI

    if MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.Finalize()


def leave(code: int = 0) -> NoReturn:
    """Leave MPI and end this process, which has nothing left to do, without taking the interpreter apart.

    That would take 0.2 s of a core with Numba loaded, while the scheduler waits for the node. C's exit is needed, for
    MPICH says goodbye to its process manager there; what Python would do first (threads, exit functions) is done.
    """
    if code and _under_openmpi():
        # place 0 is lost, and its mpiexec returns the code of whoever ends first: that of place 0 says more
        time.sleep(orphans.MOMENT_S)
    import ctypes

    finalize()
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()  # noqa: SLF001 - nothing public runs them
    flush()
    ctypes.PyDLL(None).exit(code)  # keeps the interpreter's lock: no other thread runs while libraries are taken apart
    os._exit(code)


def abort(code: int) -> NoReturn:
    """End every process of the job at once; mpiexec returns ``code``. Say why before."""
    from mpi4py import MPI

    # MPI may be busy for long, with a spawn on a host that does not answer; without us, mpiexec ends the others, too
    by_force = threading.Timer(ABORT_S, os._exit, (code,))
    by_force.daemon = True
    by_force.start()
    flush()
    for pipe in (1, 2):
        _wait_until_read(pipe)
    # MPI would add a line about its own abort, which tells the user nothing
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    _wards.kill()
    MPI.COMM_WORLD.Abort(code)
    os._exit(code)


def flush() -> None:
    """Write out what was printed; whoever should read it may be gone."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            if isinstance(stream, TaggedOutput):
                stream.finish()
            stream.flush()


def _wait_until_read(pipe: int) -> None:
    """Wait until mpiexec's proxy has read what is in ``pipe``: what it has not read is lost when it ends the job."""
    unread = array("i", [0])
    until = time.monotonic() + READ_S
    with suppress(OSError):
        while stat.S_ISFIFO(os.fstat(pipe).st_mode) and time.monotonic() < until:
            fcntl.ioctl(pipe, termios.FIONREAD, unread)
            if not unread[0]:
                return
            time.sleep(0.0001)
