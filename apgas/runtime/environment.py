"""The process environment that MPI needs, arranged before MPI is loaded.

Standard library only: a place imports this first, calls `prepare`, and then imports mpi4py.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sys
from typing import TYPE_CHECKING, Literal, NamedTuple

from apgas.errors import UsageError
from apgas.runtime import mpis

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

LauncherKind = Literal["hydra", "openmpi", "pmix", "slurm", "none"]

ENV_TRANSPORT = "APGAS_TRANSPORT"
TRANSPORTS = ("tcp", "mpi")

# Each spawned place costs place 0's hydra proxy one file descriptor for ever, and each pair of places one socket.
WANTED_OPEN_FILES = 65_536

ENV_PLACES_PER_NODE = "APGAS_PLACES_PER_NODE"
ENV_CALIBRATION = "APGAS_CALIBRATION"

_OF_A_PROCESS = (
    "PMI_",
    "PMIX_",
    "HYDRA_",
    "HYDI_",
    "MPI_LOCAL",
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_",
    "PRTE_",
    "SLURM_",
)
"""How variables begin that launchers set for each process."""

_INTERFACES = "/sys/class/net"
_INTERFACE_UP = 1
_LIBFABRIC = f"{sys.prefix}/lib/mpich/libfabric.so.1"


class Launch(NamedTuple):
    """Who started this process, as its environment tells.

    Attributes:
        kind: the process manager: hydra (MPICH, Intel MPI), Open MPI's, another PMIx one, srun without PMI, or none.
        size: how many processes it says it started together; None if it does not say.
    """

    kind: LauncherKind
    size: int | None = None


def launched_by(environ: Mapping[str, str]) -> Launch:
    """Reads from the environment which process manager started this process.

    The marks of an outer launcher are inherited by what it starts, so the most specific ones are looked at first.
    """
    if "PMI_FD" in environ or "PMI_PORT" in environ or "PMI_RANK" in environ:
        return Launch("hydra", _number(environ.get("PMI_SIZE")))
    if "OMPI_COMM_WORLD_SIZE" in environ:
        return Launch("openmpi", _number(environ["OMPI_COMM_WORLD_SIZE"]))
    if "PMIX_RANK" in environ:
        return Launch("pmix")
    if "SLURM_STEP_NUM_TASKS" in environ:
        return Launch("slurm", _number(environ["SLURM_STEP_NUM_TASKS"]))
    return Launch("none")


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
    """Returns the environment that this process was started with; the present one where the system does not tell."""
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return dict(os.environ)
    found = dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, value in found.items()}


def take_over(changed: Mapping[str, str | None]) -> None:
    """(newcomer) Changes the environment as the program has changed that of place 0."""
    for name, value in changed.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


_prepared: dict[str, str] = {}
"""What `prepare` has set."""


def prepare() -> Launch:
    """Sets up this process for MPI; call it before `from mpi4py import MPI`. Calling it again changes nothing.

    Returns:
        Who started this process.

    Raises:
        UsageError: an mpiexec of another MPI started this process, so that its places would not find each other; or
            the transport that was chosen is none.
    """
    launch = launched_by(os.environ)
    if launch.kind == "openmpi" and _bundled(mpis.MPICH) and not _bundled(mpis.OPEN_MPI):
        raise _foreign_launcher(launch, "MPICH")
    before = dict(os.environ)
    for mpi in mpis.KNOWN:  # which of them is loaded is mpi4py's choice
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


def check_world(launch: Launch, world_size: int, library: str) -> None:
    """Refuses the silent trap of K separate worlds of size 1; call it after MPI is initialised.

    Args:
        launch: what `prepare` returned.
        world_size: the size of MPI.COMM_WORLD.
        library: name of the loaded MPI, for the message.

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


@contextlib.contextmanager
def tidied(launch: Launch) -> Iterator[None]:
    """Loads MPI inside this block so that no folder stays behind.

    In a program that was started without mpiexec, Open MPI makes folders in the temporary one as it is loaded, uses
    them for nothing that is wanted here, and forgets them.
    """
    if _managed(launch) or not _bundled(mpis.OPEN_MPI):
        yield
        return
    import shutil
    import tempfile

    before = os.environ.get("TMPDIR")
    folder = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="apgas-")
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        del os.environ["TMPDIR"]
        if before is not None:
            os.environ["TMPDIR"] = before


@contextlib.contextmanager
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
    return launch.kind in ("hydra", "openmpi", "pmix")


def _prepare_singleton() -> None:
    """A program started without mpiexec looks its own one up at the first spawn: it must be ours, and not use ssh."""
    if "SLURM_JOB_ID" not in os.environ and not _bundled(mpis.OPEN_MPI):
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
    with contextlib.suppress(OSError):  # no sysfs: nothing is known of others
        return not any(name != "lo" and _is_up(name) for name in os.listdir(_INTERFACES))
    return True


def _is_up(interface: str) -> bool:
    # gone meanwhile
    with contextlib.suppress(OSError, ValueError), open(f"{_INTERFACES}/{interface}/flags", encoding="ascii") as flags:
        return bool(int(flags.read(), 16) & _INTERFACE_UP)
    return False


def _foreign_launcher(launch: Launch, library: str) -> UsageError:
    names = {
        "hydra": "the mpiexec of MPICH, Intel MPI or another relative",
        "openmpi": "the mpiexec of Open MPI",
        "slurm": "srun without PMI support",
        "pmix": "a PMIx launcher",
    }
    culprit = names.get(launch.kind, "an mpiexec that does not fit")
    count = "" if launch.size is None else f" of {launch.size} processes"
    mpiexec = right_mpiexec()
    remedy = f"start it with {mpiexec}" if mpiexec else f"start it with the mpiexec that belongs to {library}"
    return UsageError(
        f"this program was started by {culprit}, but Python's MPI here is {library}\n"
        f"each process{count} would be alone in a world of size 1\n"
        f"{remedy}, or activate the virtual environment first: source {sys.prefix}/bin/activate"
    )


def _bundled(mpi: mpis.Mpi) -> bool:
    """Whether this MPI was installed from PyPI beside this interpreter; asking pip's records would take 30 ms."""
    return os.path.exists(f"{sys.prefix}/lib/{mpi.library}")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
