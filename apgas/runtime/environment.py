"""The surroundings of MPI: the environment, the library, and the files and processes that a killed job would leave.

Standard library only: a place imports this first, calls `prepare`, and then imports mpi4py.
"""

from __future__ import annotations

import functools
import os
import re
import resource
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from apgas.errors import UsageError
from apgas.runtime import at_once

if TYPE_CHECKING:
    from pathlib import Path


LauncherKind = Literal["launch", "hydra", "openmpi", "pmix", "slurm", "none"]

ENV_TRANSPORT = "APGAS_TRANSPORT"
TRANSPORTS = ("tcp", "mpi")

# Each spawned place costs place 0's hydra proxy one file descriptor for ever, and each pair of places one socket.
WANTED_OPEN_FILES = 65_536

ENV_PLACES_PER_NODE = "APGAS_PLACES_PER_NODE"
ENV_CALIBRATION = "APGAS_CALIBRATION"

ENV_LAUNCH: Final = "APGAS_LAUNCH"
"""The name of the stream in ``PMI_FD``, if `apgas.launch` has started this process; another one has another stream."""
ENV_LAUNCH_HOSTS: Final = "APGAS_LAUNCH_HOSTS"
"""Whether it may start processes on other hosts."""

OF_A_LAUNCHER: Final = ("PMI_", "PMIX_", "HYDRA_", "HYDI_", "MPI_LOCAL", "OMPI_COMM_WORLD_")
"""How variables begin that launchers of MPI set for each process, and that are not for processes of another one."""
_OF_A_PROCESS: Final = (*OF_A_LAUNCHER, "OMPI_UNIVERSE_", "PRTE_", "SLURM_")
"""Likewise, with what comes from further above."""

_STAND_IN: Final = os.path.join(os.path.dirname(__file__), "own_session", "mpiexec")
_INTERFACES = "/sys/class/net"
_INTERFACE_UP = 1
_LIBFABRIC = f"{sys.prefix}/lib/mpich/libfabric.so.1"


class Launch(NamedTuple):
    """Who started this process, according to its environment.

    Attributes:
        kind: the process manager: ours (`apgas.launch`), hydra (MPICH, Intel MPI), Open MPI's, another PMIx one, srun
            without PMI, or none.
        size: how many processes it says it started together; None if it does not say.
    """

    kind: LauncherKind
    size: int | None = None


def launched_by(environ: Mapping[str, str]) -> Launch:
    """Reads from the environment which process manager started this process.

    The marks of an outer launcher are inherited by what it starts, so the most specific ones are looked at first.
    """
    stream = environ.get("PMI_FD", "")
    if stream.isdecimal() and environ.get(ENV_LAUNCH) == stream_name(int(stream)):
        return Launch("launch", _number(environ.get("PMI_SIZE")))
    if "PMI_FD" in environ or "PMI_PORT" in environ or "PMI_RANK" in environ:
        return Launch("hydra", _number(environ.get("PMI_SIZE")))
    if "OMPI_COMM_WORLD_SIZE" in environ:
        return Launch("openmpi", _number(environ["OMPI_COMM_WORLD_SIZE"]))
    if "PMIX_RANK" in environ:
        return Launch("pmix")
    if "SLURM_STEP_NUM_TASKS" in environ:
        return Launch("slurm", _number(environ["SLURM_STEP_NUM_TASKS"]))
    return Launch("none")


def stream_name(fd: int) -> str:
    """Returns a name of the socket ``fd``, which no other one on this machine has meanwhile; empty if it is closed."""
    try:
        return str(os.fstat(fd).st_ino)
    except (OSError, OverflowError):
        return ""


def unreachable() -> dict[str, str]:
    """Returns the variables with which MPI's processes on this machine talk through shared memory and listen nowhere.

    By default each of them listens, by libfabric, on an address of the network, and takes what comes for MPI's.
    """
    variables = {"FI_PROVIDER": "shm", "UCX_TLS": "self,sm"}
    if os.path.exists(_LIBFABRIC):
        variables["MPIR_CVAR_CH4_NETMOD"] = "ofi"
    return variables


def changes(environ: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str | None]:
    """Returns what the program has changed in its environment, None where it has removed a variable.

    Without what a launcher sets for each process, and what `prepare` sets in any.
    """
    changed: dict[str, str | None] = {name: value for name, value in environ.items() if before.get(name) != value}
    changed |= dict.fromkeys(before.keys() - environ.keys())
    return {
        name: value
        for name, value in changed.items()
        if not name.startswith(_OF_A_PROCESS) and (name not in _prepared or _prepared[name] != value)
    }


def at_start() -> dict[str, str]:
    """Returns the environment that this process was started with; the present one where the system does not keep it."""
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return dict(os.environ)
    found = dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, value in found.items()}


def take_over(changed: Mapping[str, str | None]) -> None:
    """Change the environment: variables by name, None for those that are to go."""
    for name, value in changed.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


_prepared: dict[str, str] = {}
"""What `prepare` has set."""


def prepare() -> Launch:
    """Sets up this process for MPI, before `from mpi4py import MPI`; returns who started it. Repeated, it does nothing.

    Raises:
        UsageError: an mpiexec of another MPI started this process, so that its places would not find each other; or
            the transport that was chosen is none.
    """
    launch = launched_by(os.environ)
    if launch.kind == "openmpi" and _bundled(MPICH) and not _bundled(OPEN_MPI):
        raise _foreign_launcher(launch, "MPICH")
    before = dict(os.environ)
    for mpi in KNOWN:  # which of them is loaded is mpi4py's choice
        for name, value in mpi.variables.items():
            os.environ.setdefault(name, value)
    if _only_loopback():
        # Open MPI leaves the loopback interface out, but here there is no other
        os.environ.setdefault("OMPI_MCA_btl_tcp_if_exclude", "none")
    if os.path.exists(_LIBFABRIC):
        # Over UCX, the other way of PyPI's MPICH, a place fails in MPI_Finalize once a place on another host has left.
        os.environ.setdefault("MPIR_CVAR_CH4_NETMOD", "ofi")
    if transport() == "mpi":
        # Places that were spawned at different times do not agree on who shares a node with whom, and so not on how a
        # collective operation goes on a communicator of several nodes: it would hang, the next merge already.
        os.environ.setdefault("MPIR_CVAR_DEVICE_COLLECTIVES", "none")
        os.environ.setdefault("MPIR_CVAR_ENABLE_SMP_COLLECTIVES", "0")
    if not _managed(launch):
        _prepare_singleton()
    _prepared.update((name, value) for name, value in os.environ.items() if before.get(name) != value)
    raise_open_files_limit()
    return launch


def needs_no_mpi(environ: Mapping[str, str]) -> bool:
    """Whether this process starts the other places by itself: it is the only one, and all will be on this machine.

    Within Slurm, or with another launcher of MPICH's than ``fork``, it may grow onto other hosts. Open MPI has none.
    """
    if launched_by(environ).kind != "none" or transport() != "tcp":
        return False
    launcher = environ.get("HYDRA_LAUNCHER") or ("slurm" if "SLURM_JOB_ID" in environ else "fork")
    return launcher == "fork" or _bundled(OPEN_MPI)


def check_world(launch: Launch, world_size: int, library: str) -> None:
    """Refuses the silent trap of K separate worlds of size 1; call it after MPI is initialised.

    Raises:
        UsageError: the launcher started several processes, and this one sees only itself.
    """
    if launch.size is not None and launch.size > 1 and world_size == 1:
        raise _foreign_launcher(launch, library)


def transport() -> str:
    """Returns how places are to talk, as `APGAS_TRANSPORT` says: tcp (the default) or mpi.

    Raises:
        UsageError: it names another transport.
    """
    chosen = os.environ.get(ENV_TRANSPORT, "") or "tcp"
    if chosen not in TRANSPORTS:
        raise UsageError(f"{ENV_TRANSPORT}={chosen}: places talk over {' or '.join(TRANSPORTS)}")
    return chosen


def node_name() -> str:
    """Returns the name of the node that this place runs on: the launcher's name for it, else the host name.

    Nodes emulated on one machine (`mpiexec -launcher fork -hosts nodeA,nodeB`) differ in the launcher's name only.
    """
    return os.environ.get("PMI_HOSTNAME") or socket.gethostname()


def places_per_node(environ: Mapping[str, str]) -> int:
    """Returns how many places share a node, as `APGAS_PLACES_PER_NODE` says; 1 if it does not.

    Raises:
        UsageError: it is no number of at least 1.
    """
    text = environ.get(ENV_PLACES_PER_NODE) or "1"
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise UsageError(f"{ENV_PLACES_PER_NODE} is {text!r}; it is to be a number of at least 1")
    return int(text)


def right_mpiexec() -> Path | None:
    """Returns the mpiexec installed beside this interpreter, or None if its MPI came from elsewhere."""
    from pathlib import Path

    path = Path(sys.prefix) / "bin" / "mpiexec"
    return path if path.exists() else None


def raise_open_files_limit(wanted: int = WANTED_OPEN_FILES) -> int:
    """Raises the soft limit of open files as far as allowed and useful, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ceiling = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < ceiling:
        resource.setrlimit(resource.RLIMIT_NOFILE, (ceiling, hard))
        return ceiling
    return soft


@contextmanager
def tidied(launch: Launch) -> Iterator[None]:
    """Loads MPI inside this block so that no folder stays behind.

    In a program that was started without mpiexec, Open MPI makes folders in the temporary one as it is loaded, uses
    them for nothing that is wanted here, and forgets them.
    """
    if _managed(launch) or not _bundled(OPEN_MPI):
        yield
        return
    import tempfile

    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="apgas-", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = folder
        try:
            yield
        finally:
            take_over({"TMPDIR": before})


@contextmanager
def with_mpiexec_apart(launch: Launch) -> Iterator[None]:
    """Has MPICH start mpiexec in a session of its own inside this block, if the program was started without mpiexec.

    See ``own_session/mpiexec``, which stands before the others in ``PATH`` meanwhile.
    """
    if _managed(launch) or _bundled(OPEN_MPI) or not os.access(_STAND_IN, os.X_OK):
        yield
        return
    path = os.environ.get("PATH", os.defpath)
    changed = os.pathsep.join([os.path.dirname(_STAND_IN), path])
    os.environ.update({"APGAS_PATH": path, "PATH": changed})
    try:
        yield
    finally:
        del os.environ["APGAS_PATH"]
        if os.environ.get("PATH") == changed:  # else the program has set it meanwhile
            os.environ["PATH"] = path


@contextmanager
def shielded_from_interrupt() -> Iterator[None]:
    """Blocks SIGINT in the calling thread, and so in every process that is started from it inside the block.

    A program started without mpiexec gets one as its child at the first spawn. It sits in the same process group, sees
    the user's Ctrl-C as well and would kill the program before that can say a word. With the signal blocked around the
    spawn, the program alone hears Ctrl-C and ends its places itself.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _managed(launch: Launch) -> bool:
    """Whether a process manager that MPI can talk to started this process."""
    return launch.kind in ("launch", "hydra", "openmpi", "pmix")


def _prepare_singleton() -> None:
    """A program started without mpiexec looks its own one up at the first spawn: it must be ours, and not use ssh."""
    if "SLURM_JOB_ID" not in os.environ and not _bundled(OPEN_MPI):
        os.environ.setdefault("HYDRA_LAUNCHER", "fork")
    if os.geteuid() == 0:
        # Open MPI's refuses to start as root; this program is root already
        os.environ.setdefault("PRTE_ALLOW_RUN_AS_ROOT", "1")
        os.environ.setdefault("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    mpiexec = right_mpiexec()
    if mpiexec is None:
        return
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if folders[0] != str(mpiexec.parent):
        os.environ["PATH"] = os.pathsep.join([str(mpiexec.parent), *folders])


def _only_loopback() -> bool:
    """Whether no other network interface is up."""
    for name in _names_in(_INTERFACES):
        with suppress(OSError, ValueError):  # gone meanwhile
            if name != "lo" and int(_text(f"{_INTERFACES}/{name}/flags"), 16) & _INTERFACE_UP:
                return False
    return True


def _foreign_launcher(launch: Launch, library: str) -> UsageError:
    names = {
        "launch": "apgas.launch, which is for MPICH",
        "hydra": "the mpiexec of MPICH, Intel MPI or another relative",
        "openmpi": "the mpiexec of Open MPI",
        "slurm": "srun without PMI support",
        "pmix": "a PMIx launcher",
    }
    launcher = names.get(launch.kind, "an mpiexec that does not fit")
    count = "" if launch.size is None else f" of {launch.size} processes"
    mpiexec = right_mpiexec()
    remedy = f"start it with {mpiexec}" if mpiexec else f"start it with the mpiexec that belongs to {library}"
    return UsageError(
        f"this program was started by {launcher}, but Python's MPI here is {library}\n"
        f"each process{count} would be alone in a world of size 1\n"
        f"{remedy}, or activate the virtual environment first: source {sys.prefix}/bin/activate"
    )


def _bundled(mpi: Mpi) -> bool:
    """Whether this MPI was installed from PyPI beside this interpreter; asking pip's records would take 30 ms."""
    return os.path.exists(f"{sys.prefix}/lib/{mpi.library}")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


# Loading MPI; beside the mpi transport, only this module and ``process`` import mpi4py --------------------------------

loaded_too_early = False
"""Whether MPI had been loaded before, without the variables that it needs."""


@functools.cache
def load() -> Any:
    """Return ``mpi4py.MPI``, initialised in an environment that suits us.

    Raises:
        UsageError: There is no MPI, or the process was started by a foreign mpiexec.
    """
    global loaded_too_early  # noqa: PLW0603 - MPI is loaded once
    early = sys.modules.get("mpi4py.MPI")
    before = frozenset(os.environ)
    launch = prepare()
    if early is not None:
        # Not only what it always needs: a place that is spawned over another netmod than ours fails in MPI_Init.
        own = tuple(name.partition("_")[0] for name in (named_in(early.Get_library_version()) or MPICH).variables)
        loaded_too_early = any(name.startswith(own) for name in os.environ.keys() - before)
    if launch.kind != "openmpi":
        check_shared_memory(int(os.environ.get("MPI_LOCALNRANKS") or "1"))
        _name_bus_errors()
    import mpi4py

    mpi4py.rc.finalize = False
    if transport() == "mpi":
        # The fast ones begin, on each communicator, with an MPI_Comm_dup that keeps the interpreter's lock. Others join
        # that only when they have what this process still has to send, and nothing can send it.
        mpi4py.rc.fast_reduce = False
    with tidied(launch), at_once():
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py of PyPI looks for a library by itself
            raise UsageError(
                f"mpi4py finds no MPI library that it can use: {str(error).partition(chr(10))[0]}\n"
                f'install one beside it: {sys.executable} -m pip install "malleable-apgas[mpi]"\n'
                "or name that of this machine: MPI4PY_LIBMPI=/path/to/libmpi.so"
            ) from None

    check_world(launch, MPI.COMM_WORLD.size, MPI.Get_library_version().split("\n", 1)[0].split(",", 1)[0])
    return MPI


def check_shared_memory(places: int) -> None:
    """See that the segment of a world has room here: MPICH does not look, and dies of SIGBUS in MPI_Init.

    Raises:
        UsageError: It has not.
    """
    with suppress(OSError):
        found = os.statvfs(os.path.dirname(_SEGMENT))
        size, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
        needed = places * _SEGMENT_BYTES
        if size and free + _begun_bytes() < needed:
            raise UsageError(
                f"/dev/shm has {size / 2**20:.2f} MiB, {free / 2**20:.2f} MiB of them free, and MPI needs "
                f"{needed / 2**20:.2f} MiB for {places} places on a machine: empty or enlarge it (--shm-size)"
            )


def _begun_bytes() -> int:
    """What is taken of /dev/shm already by the other places that begin, maybe those of our own world."""
    taken, folder = 0, os.path.dirname(_SEGMENT)
    for name in os.listdir(folder):
        if name.startswith(os.path.basename(_SEGMENT)):
            with suppress(OSError):  # gone meanwhile
                taken += os.lstat(f"{folder}/{name}").st_blocks * 512
    return taken


@functools.cache  # C has the address of what it returns
def _name_bus_errors() -> object:
    """Have the death of a place that finds no room in /dev/shm explained, which is a signal that Python cannot take.

    MPI touches its segments only when it needs them. By then there may be no room, whatever was free before.
    """
    if signal.getsignal(signal.SIGBUS) != signal.SIG_DFL or "faulthandler" in sys.modules:
        return None
    import ctypes

    def explain(number: int) -> None:  # in the thread that failed, which is not within Python
        found = os.statvfs(os.path.dirname(_SEGMENT))
        if found.f_bavail:
            install(number, None)  # another reason: the same happens again, and ends this process
            return
        os.write(2, f"apgas: process {os.getpid()} ends: /dev/shm is full, and MPI's memory is in it\n".encode())
        os._exit(128 + number)

    install = ctypes.CDLL(None).signal  # Python's is for the main thread only
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(explain)
    install(signal.SIGBUS, handler)
    return handler


def kind() -> Mpi:
    """Which MPI is loaded; one that is not known is treated as MPICH, which most are made of."""
    return named_in(load().Get_library_version()) or MPICH


# The MPI libraries ---------------------------------------------------------------------------------------------------
#
# How each is recognised, what it can do for a job, and how it is asked to spawn: data and pure functions; everything
# else is the same code for all of them.


class Mpi(NamedTuple):
    """One MPI library.

    Attributes:
        name: How it is called.
        distribution: The distribution on PyPI that brings it.
        library: The file that this puts into ``lib``.
        marks: Words of which one stands in what it and its mpiexec say about themselves.
        resizes: Whether a job can grow and shrink under it.
        hosts: On which hosts a job can grow.
        planes: The data planes that work with it.
        variables: What it needs in the environment before it is loaded; what the user has set is kept.
        spawning: The hints that it gets at each spawn.
    """

    name: str
    distribution: str
    library: str
    marks: tuple[str, ...]
    resizes: bool
    hosts: str
    planes: tuple[str, ...]
    variables: Mapping[str, str] = MappingProxyType({})
    spawning: Mapping[str, str] = MappingProxyType({})

    def abilities(self) -> str:
        """Say in a line what it can do."""
        if not self.resizes:
            return f"rigid jobs only (a spawned place could not leave); data plane {' or '.join(self.planes)}"
        return f"rigid and malleable jobs, growing on {self.hosts}; data plane {' or '.join(self.planes)}"


MPICH: Final = Mpi(
    name="MPICH",
    distribution="mpich",
    library="libmpi.so.12",
    marks=("MPICH", "HYDRA"),
    resizes=True,
    hosts="any host by name",
    planes=("tcp", "mpi"),
    # Every place finalizes and exits alone (in about 10 ms), whichever world it came from. By default MPI_Finalize is
    # collective over all that are connected, and no place could leave a running job.
    variables={"MPIR_CVAR_NO_COLLECTIVE_FINALIZE": "1"},
)

OPEN_MPI: Final = Mpi(
    name="Open MPI",
    distribution="openmpi",
    library="libmpi.so.40",
    marks=("Open MPI", "OpenRTE", "PRRTE"),
    resizes=True,
    hosts="the host of place 0",
    planes=("tcp",),
    variables={
        # the same: no barrier in MPI_Finalize
        "OMPI_MCA_async_mpi_finalize": "1",
        # MPI carries a few greetings here. Its libfabric module sleeps for a second in each process that does without
        # it, and its shared-memory module would leave segments behind when a job is killed.
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,tcp",
    },
    # places are idle much of the time, and a job may have more of them than cores
    spawning={"map_by": "slot:OVERSUBSCRIBE"},
)

INTEL_MPI: Final = Mpi(
    name="Intel MPI",
    distribution="impi-rt",
    library="libmpi.so.12",
    marks=("Intel(R) MPI", "Intel MPI"),
    resizes=False,
    hosts="none",
    planes=("tcp",),
)

# Intel MPI is made of MPICH and may say so: it is looked for first.
KNOWN: Final = (INTEL_MPI, OPEN_MPI, MPICH)


def named_in(text: str) -> Mpi | None:
    """Return the MPI that ``text`` is about: a library's version, or what an mpiexec answers to ``--version``."""
    return next((mpi for mpi in KNOWN if any(mark in text for mark in mpi.marks)), None)


# Files that MPICH would leave behind ---------------------------------------------------------------------------------
#
# MPICH keeps a shared-memory segment per world in /dev/shm, and hydra's proxy of each node a topology file in /tmp:
# two or three files of 1 MB would be left by every abnormal end. Both are opened or mapped once, at initialisation; a
# name that is unlinked after that cannot be left behind by a kill -9. What a job leaves that is killed within its
# initialisation, the next one of the same user removes (``sweep``).
#
# Where MPI talks through shared memory only (``unreachable``), libfabric keeps a segment for each process, by which
# newcomers find it. `apgas.launch` removes that of a process that was killed (``unlink_segments``), and at its end the
# segment of a world that was killed within its initialisation (``segments_of_world``).

_SEGMENT = "/dev/shm/mpich_shm_"
_SEGMENT_BYTES = 1_064_960
"""For each place, as measured with MPICH 5.0."""
_TOPOLOGY = "/hydra_hwloc_xmlfile_"
_DELETED = " (deleted)"
PROXY: Final = "hydra_pmi_proxy"
"""The program of MPICH that starts the processes of a job on its node."""
_ANCESTORS = 4  # a place may be wrapped by a shell or two
_OWN_SEGMENT = r"[0-9]+:[0-9]+:[0-9]+(?::[0-9]+)?"  # the last one if the name was taken
_LEFT = (("/dev/shm", rf"mpich_shm_.*|{_OWN_SEGMENT}"), ("/tmp", r"hydra_hwloc_xmlfile_.*"))
OLD_S: Final = 60.0
"""No initialisation takes so long: a file that is older and not in use is left over."""


def unlink_leftovers() -> list[str]:
    """Unlinks the MPI files of this process that have served their purpose; returns the names that went.

    Call it after MPI_Init and a barrier of this process's MPI.COMM_WORLD, so that every process of the world on this
    node has opened them. Every place may call it; the first one of a node does the work. Never raises.
    """
    return _unlinked(_mapped_segments() | _topology_files())


def unlink_segments(pid: int) -> None:
    """Unlinks the segments that a process of ours, which has ended, has left in shared memory."""
    names = (name for name in _names_in("/dev/shm") if name.startswith(f"{pid}:"))
    _unlinked(f"/dev/shm/{name}" for name in names if re.fullmatch(_OWN_SEGMENT, name))


def segments_of_world(store: str) -> list[str]:
    """Returns patterns of the names of MPICH's segments of a world, by the name of its key-value store.

    The name of a segment has a hash of that of the store in it: FNV-1a in 32 bits, seen in MPICH 5.0. Later versions
    hash the store's name with the number of the process's initialisations.
    """
    return [f"{_SEGMENT}{_fnv(name):x}_*" for name in (store, f"{store}-1")]


def _fnv(text: str) -> int:
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def sweep() -> list[str]:
    """Unlinks what killed jobs of this user have left on this node; returns the names that went. Never raises.

    Costs nothing but two listings where there is nothing that looks old; else a look at every process.
    """
    old = set(_old_files())
    if not old:
        return []
    used: set[str] = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        used |= _mapped_segments(pid, rf"/dev/shm/(mpich_shm_|{_OWN_SEGMENT}$)")
        with suppress(OSError):  # gone, or another user's
            used |= _open_files(int(pid))
    return _unlinked(old - used)


def _unlinked(paths: Iterable[str]) -> list[str]:
    """Unlink files; returns those that went."""
    gone = []
    for path in sorted(paths):
        with suppress(OSError):  # another process was quicker; or it is another user's, of a name like ours
            os.unlink(path)
            gone.append(path)
    return gone


def _names_in(folder: str) -> list[str]:
    with suppress(OSError):  # no such folder here
        return os.listdir(folder)
    return []


def _old_files() -> Iterable[str]:
    now_s = time.time()
    for folder, pattern in _LEFT:
        for name in _names_in(folder):
            if not re.fullmatch(pattern, name):
                continue
            with suppress(OSError):  # gone meanwhile
                found = os.lstat(f"{folder}/{name}")
                if found.st_uid == os.getuid() and now_s - found.st_mtime > OLD_S:
                    yield f"{folder}/{name}"


def _mapped_segments(pid: str = "self", pattern: str = _SEGMENT) -> set[str]:
    """Names of the segments that a process has mapped: of MPICH, or of another ``pattern``."""
    try:
        lines = _text(f"/proc/{pid}/maps").splitlines()
    except OSError:
        return set()
    names = (line[found.start() :] for line in lines if (found := re.search(pattern, line)))
    return {name for name in names if not name.endswith(_DELETED)}


def _topology_files() -> set[str]:
    """Names of the topology files that the hydra proxy above this process holds open."""
    with suppress(OSError):  # it has just ended
        if proxy := _proxy():
            return _open_files(proxy)
    return set()


def _proxy() -> int:
    """The pid of the hydra proxy above this process; 0 if there is none."""
    near = islice(ancestors(), _ANCESTORS)
    return next((pid for pid, words in near if os.path.basename(words[0]) == PROXY), 0)


def ancestors() -> Iterator[tuple[int, list[str]]]:
    """Yield the pids and command lines of the processes above this one, the nearest first, as far as they are shown."""
    pid = os.getppid()
    with suppress(OSError, ValueError, IndexError):  # it has just ended, or is another user's
        while pid > 1:
            yield pid, _text(f"/proc/{pid}/cmdline").split("\0")[:-1] or [""]
            # the name of the process, in parentheses, may hold anything
            pid = int(_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[1])


def _open_files(pid: int) -> set[str]:
    return {name for name, _ in _links(pid) if _TOPOLOGY in name and not name.endswith(_DELETED)}


def _links(pid: int) -> set[tuple[str, int]]:
    """What a process has open, and the mode that says whether it reads or writes."""
    found = set()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):  # closed meanwhile
            link = f"/proc/{pid}/fd/{descriptor}"
            found.add((os.readlink(link), os.lstat(link).st_mode))
    return found


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


# Processes of this machine -------------------------------------------------------------------------------------------
#
# Open MPI ends the world of the process that died, and no other. A place ends when its process manager is gone
# (``end_with_parent``), and when place 0 is gone, which it notices by its connection. One that holds on to its
# interpreter notices nothing: place 0 ends those on its own node (``Dependents``).

CODE_S: Final = 0.6
"""How long mpiexec takes to end place 0 with the code of the job; the code of a process that ends before may win."""

_SESSION: Final = "PMIX_SERVER_TMPDIR"
_SESSION_NAMES: Final = ("ompi.", "prte.")


class Processes:
    """Processes of this machine by handles of the kernel's: their numbers may be those of others one day."""

    def __init__(self) -> None:
        self._pids: dict[int, int] = {}

    def hold(self, pids: Iterable[int]) -> None:
        """Take a handle of each that runs."""
        for pid in pids:
            with suppress(OSError, AttributeError):  # gone already, or the kernel has no handles
                self._pids[os.pidfd_open(pid)] = pid

    def running(self, timeout_s: float = 0.0) -> list[int]:
        """Wait until all have ended, for so long at most; returns which still run, and forgets the others."""
        until = time.monotonic() + timeout_s
        for handle in list(self._pids):
            if _ended(handle, max(0.0, until - time.monotonic()) * 1000):
                del self._pids[handle]
                os.close(handle)
        return list(self._pids.values())


class Dependents(Processes):
    """Those that end with this one, at the latest."""

    _grace_s = 0.0

    def add(self, pids: Iterable[int], grace_s: float) -> None:
        """Take charge of processes, which get so long to end by themselves; forget those that have ended."""
        self.running()
        self._grace_s = grace_s
        self.hold(pids)

    def kill(self) -> None:
        """Kill them all after their time, whether this process lives or not: MPI's abort lets no thread of it run."""
        running = self.running()  # a process that has not been waited for keeps its number
        if running and not self._grace_s:
            for pid in running:
                with suppress(ProcessLookupError):  # ended just now
                    os.kill(pid, signal.SIGKILL)
        elif running:
            words = ["sh", "-c", f'sleep {self._grace_s}; kill -s KILL "$@"', "sh", *map(str, running)]
            silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in range(3)]
            with suppress(OSError):  # no shell: MPI's abort is all there is
                os.posix_spawn("/bin/sh", words, os.environ, file_actions=silent, setsid=True)


# What a place has started and not ended ------------------------------------------------------------------------------
#
# Hydra makes each place the leader of a session, and waits for the end of its output as well as for its own. So a child
# that lives on would hold mpiexec. Some helpers, such as multiprocessing's, end by themselves when the place is gone:
# only a process that outlives it can end the others, and is started where there are any.

_REMAINS: Final = """\
who=$1; shift
living() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        left=; for pid; do kill -0 "$pid" 2>/dev/null && left="$left $pid"; done
        [ "$left" ] || exit
        sleep 0.05
    done
}
living "$@"
echo "apgas: $who left processes behind, which are ended:$left" >&2
kill -s TERM $left
living $left
kill -s KILL $left
"""


def end_remains(who: str, place: int, spares: Callable[[int], bool]) -> None:
    """Have a process end, after a place, what that started and what is in its session or holds its output."""
    # a forked child may come here, too
    if os.getpid() == place and (left := [str(pid) for pid in _remains(spares, at_all_places=False)]):
        with suppress(OSError):  # no shell, or no more processes
            os.posix_spawn("/bin/sh", ["sh", "-c", _REMAINS, "sh", who, *left], os.environ, setsid=True)


def kill_remains(spares: Callable[[int], bool]) -> None:
    """Kill what this place started, and what holds the output of other places here but is in none of their sessions.

    The job is to end at once. Hydra ends those sessions, but not that of a place which has ended before.
    """
    for pid in _remains(spares, at_all_places=True):
        with suppress(OSError):  # ended just now
            os.kill(pid, signal.SIGKILL)


def _remains(spares: Callable[[int], bool], *, at_all_places: bool) -> list[int]:
    if not (proxy := _proxy()):
        return []
    me, mine, found = os.getpid(), os.getsid(0), _living()
    # a proxy for each node, even if the nodes are one machine, and all that has started them: mpiexec, shells of ssh
    proxies = {pid for pid, (name, _, _) in found.items() if name == PROXY[:15]}
    launchers, above = set(proxies), proxies
    while above:
        above = {found[pid][1] for pid in above if pid in found} - launchers
        launchers |= above
    of_others = {pid for pid, (_, parent, _) in found.items() if parent in proxies} - {mine}
    output = _outputs(proxy, launchers)
    if not at_all_places:
        output &= {os.readlink(f"/proc/self/fd/{stream}") for stream in (1, 2)}
    return [
        pid
        for pid, (_, parent, session) in found.items()
        if pid not in launchers and pid != me and session not in of_others
        # where a shell is the leader, it and others may be in the session
        and (me in (mine, parent) if session == mine else _writes_to(pid, output)) and not spares(pid)
    ]  # fmt: skip


def _living() -> dict[int, tuple[str, int, int]]:
    """Name, as far as the kernel keeps it, parent and session of each process."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError, IndexError):  # ended just now
            named, _, rest = _text(f"/proc/{pid}/stat").rpartition(") ")
            state, parent, _, session = rest.split()[:4]
            if state not in "ZX":
                found[int(pid)] = named.partition(" (")[2], int(parent), int(session)
    return found


def _outputs(proxy: int, launchers: Iterable[int]) -> set[str]:
    """The pipes from its places: those that a proxy only reads from, and that no launcher writes to.

    Each proxy inherits what mpiexec has open, so also the pipes between mpiexec and earlier proxies.
    """
    links: dict[int, set[tuple[str, int]]] = {}
    for pid in {proxy, *launchers}:
        with suppress(OSError):  # it has just ended, or is another user's
            links[pid] = _links(pid)
    written = {name for of_one in links.values() for name, mode in of_one if mode & stat.S_IWUSR}
    return {name for name, _ in links.get(proxy, ()) if name.startswith("pipe:")} - written


def _writes_to(pid: int, pipes: set[str]) -> bool:
    with suppress(OSError):  # ended, or another user's
        return bool(pipes) and any(name in pipes and mode & stat.S_IWUSR for name, mode in _links(pid))
    return False


def end_with_parent() -> None:
    """End this process as soon as the one that started it is gone; does nothing where the kernel cannot notify it."""
    import threading  # a newcomer reports before it needs this

    with suppress(OSError, AttributeError):  # no handles of processes here
        parent = os.pidfd_open(os.getppid())
        threading.Thread(target=_wait_and_end, args=(parent,), name="apgas-orphan", daemon=True).start()


def _wait_and_end(parent: int) -> None:
    _ended(parent, None)
    # the process that could read a last message is gone, too
    _remove_session(os.environ.get(_SESSION, ""))
    os._exit(1)


def _ended(handle: int, timeout_ms: float | None) -> bool:
    watch = select.poll()  # select() refuses descriptors above 1023
    watch.register(handle, select.POLLIN)
    return bool(watch.poll(timeout_ms))


def _remove_session(name: str) -> None:
    """Remove the folder that the process manager kept on this node; the other places here do the same."""
    import shutil
    from pathlib import Path

    folder = Path(name)
    if folder.is_absolute() and folder.name.startswith(_SESSION_NAMES):
        shutil.rmtree(folder, ignore_errors=True)
