"""The machine: Python, limits, folders, names."""

from __future__ import annotations

import resource
import shutil
import socket
import sys
import tempfile
from pathlib import Path

from apgas.doctor.check import Check, run, version_of
from apgas.runtime import environment

LOOKUP_DEADLINE_S = 5.0
ENOUGH_OPEN_FILES = 4096
ENOUGH_SHARED_BYTES = 64 << 20
ENOUGH_TEMPORARY_BYTES = 64 << 20


def check_python() -> Check:
    """Python is new enough."""
    have = sys.version.split()[0]
    ok = sys.version_info >= (3, 11)
    return Check("Python", ok, sys.executable, f"{have} in {sys.prefix}", "" if ok else "install Python 3.11 or newer")


def check_numba() -> Check:
    """The compiled kernels can be used."""
    probe = "import numba; print(numba.njit(lambda x: x + 1)(41))"
    done = run([sys.executable, "-c", probe], deadline_s=60.0)
    if not done.failed and done.words == "42":
        return Check("numba", True, "compiled a function", f"numba {version_of('numba')} compiles")
    if "No module named 'numba'" in done.reason:
        return Check(
            "numba", None, "import numba", 'not installed: plain kernels (pip install "malleable-apgas[kernels]")'
        )
    return Check("numba", False, "compiled a function", done.reason, 'pip install --upgrade "malleable-apgas[kernels]"')


def check_open_files() -> Check:
    """Enough files may be open: each spawned process costs one for as long as the job lives."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    reach = (
        environment.WANTED_OPEN_FILES if hard == resource.RLIM_INFINITY else min(environment.WANTED_OPEN_FILES, hard)
    )
    ok = max(soft, reach) >= ENOUGH_OPEN_FILES
    came = f"{soft}, raised to {max(soft, reach)} at start"
    return Check(
        "open files", ok, "limit of open files", came, "" if ok else f"ulimit -Hn {ENOUGH_OPEN_FILES} (as root)"
    )


def check_shared_memory() -> Check:
    """There is room for MPI's shared-memory segments, and none is left over."""
    return _check_room("shared memory", Path("/dev/shm"), ENOUGH_SHARED_BYTES, ("mpich_shm_*", "sm_segment.*"))


def check_temporary_folder() -> Check:
    """The temporary folder can be written and has room."""
    leftovers = ("hydra_hwloc_xmlfile_*", "ompi.*", "prte.*")
    return _check_room("temporary folder", Path(tempfile.gettempdir()), ENOUGH_TEMPORARY_BYTES, leftovers)


def check_host_name() -> Check:
    """This host's name resolves: mpiexec looks it up."""
    name = socket.gethostname()
    # In a process of its own: a lookup without an answer cannot be interrupted.
    probe = "import socket, sys; print(socket.gethostbyname(sys.argv[1]))"
    done = run([sys.executable, "-c", probe, name], deadline_s=LOOKUP_DEADLINE_S)
    if done.failed:
        # Jobs on this machine alone run all the same.
        came = f"{name} does not resolve: jobs over several machines need it (a line '127.0.1.1 {name}' in /etc/hosts)"
        return Check("host name", None, f"looked up {name}", came)
    return Check("host name", True, f"looked up {name}", f"{name} is {done.words}")


def check_slurm() -> Check:
    """Whether Slurm is here; nothing needs it."""
    if shutil.which("sinfo") is None:
        return Check("Slurm", None, "looked for sinfo in PATH", "not here; the embedded scheduler needs none")
    done = run(["sinfo", "--version"])
    if done.failed:
        return Check("Slurm", False, "sinfo --version", done.reason, "ask the operator: sinfo does not answer")
    return Check("Slurm", True, "sinfo --version", done.words)


def _check_room(name: str, folder: Path, enough_bytes: int, leftovers: tuple[str, ...]) -> Check:
    """Whether a folder can be written and has room; says how many old MPI files lie there."""
    tried = f"wrote a file in {folder}"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x" * 4096)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check(name, False, tried, error.strerror or str(error), f"make {folder} writable, or free some of it")
    old = sum(len(list(folder.glob(pattern))) for pattern in leftovers)
    came = f"{free >> 20} MiB free in {folder}" + (f", {old} files of running or dead MPI jobs" if old else "")
    ok = free >= enough_bytes
    words = " ".join(f"{folder}/{pattern}" for pattern in leftovers)
    mend = "" if ok else f"when no MPI job runs: rm -r {words}"
    return Check(name, ok, tried, came, mend)
