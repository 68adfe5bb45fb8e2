"""Checks what works on this machine, and says how to mend what does not.

Every check tries the real thing, in a process of its own where it could hang, and has a deadline.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from apgas.runtime import environment

DEADLINE_S = 20.0
LOOKUP_DEADLINE_S = 5.0
ENOUGH_OPEN_FILES = 4096
ENOUGH_SHARED_BYTES = 64 << 20
ENOUGH_TEMPORARY_BYTES = 64 << 20

_LIBRARY = "from mpi4py import MPI; print(MPI.Get_library_version().split(chr(10))[0])"
# One write per line: the lines of several processes must not tear each other apart.
_WORLD = "import os; from mpi4py import MPI; os.write(1, b'%d\\n' % MPI.COMM_WORLD.size)"
_NODE = "import os; from mpi4py import MPI; os.write(1, os.environb.get(b'PMI_HOSTNAME', b'unnamed') + b'\\n')"
_CHILD = "from mpi4py import MPI; MPI.Comm.Get_parent().Disconnect()"
_SPAWN = """
import sys, time
from apgas.runtime import environment
environment.prepare()
from mpi4py import MPI
began = time.monotonic()
MPI.COMM_SELF.Spawn(sys.executable, ["-c", {child!r}], maxprocs=1).Disconnect()
print(f"{{1000 * (time.monotonic() - began):.0f}}", flush=True)
"""


@dataclass(frozen=True)
class Check:
    """One line of the checklist.

    Attributes:
        name: what is checked.
        ok: True: works; False: does not; None: absent, and not needed.
        tried: what was done.
        came_back: what was seen.
        mend: the command or step that mends it; empty if there is nothing to mend.
    """

    name: str
    ok: bool | None
    tried: str
    came_back: str
    mend: str = ""


def run_checks() -> list[Check]:
    """Runs every check, one after another; takes a few seconds, at worst a minute or two."""
    return [check() for check in _CHECKS]


def main() -> int:
    """Prints the checklist and returns 0 if everything needed works, else 1."""
    failed = 0
    for check in _CHECKS:
        result = check()
        failed += result.ok is False
        sys.stdout.write(as_text(result) + "\n")
        sys.stdout.flush()
    words = "everything that is needed works" if not failed else f"{failed} of {len(_CHECKS)} checks failed"
    sys.stdout.write(f"\n{words}\n")
    return 1 if failed else 0


def as_text(check: Check) -> str:
    """Returns a check as plain text: one line, or three where there is something to mend."""
    sign = {True: "ok  ", False: "FAIL", None: "-   "}[check.ok]
    lines = [f"{sign}  {check.name:<16}  {check.came_back}"]
    if check.ok is False:
        lines += [f"{'':6}{'tried':<18}{check.tried}", f"{'':6}{'mend':<18}{check.mend}"]
    return "\n".join(lines)


def check_python() -> Check:
    """Python is new enough."""
    have = sys.version.split()[0]
    ok = sys.version_info >= (3, 11)
    return Check("Python", ok, sys.executable, f"{have} in {sys.prefix}", "" if ok else "install Python 3.11 or newer")


def check_library() -> Check:
    """mpi4py loads, and its MPI is one that the runtime knows."""
    tried = "python -c 'from mpi4py import MPI'"
    done = _run([sys.executable, "-c", _LIBRARY])
    if done.failed:
        return Check("MPI library", False, tried, done.reason, 'pip install "malleable-apgas[mpi]"')
    library = done.words or "no name"
    ok = "MPICH" in library
    mend = "" if ok else "pip install mpich, and MPI4PY_MPIABI=mpich if several are installed"
    return Check("MPI library", ok, tried, f"{_flat(library)}, mpi4py {_version('mpi4py')}", mend)


def check_mpiexec() -> Check:
    """The mpiexec that a user would type is the one that belongs to the library."""
    found = shutil.which("mpiexec")
    right = environment.right_mpiexec()
    tried = "looked for mpiexec in PATH"
    if right is None:
        came = f"{found}; the MPI is not from PyPI, so it must be the library's own" if found else "none"
        return Check("mpiexec", found is not None, tried, came, "" if found else 'pip install "malleable-apgas[mpi]"')
    if found is None:
        return Check("mpiexec", None, tried, f"not in PATH; {right} is used (to type it: source {_activate()})")
    ok = Path(found).resolve() == right.resolve()
    came = found if ok else f"{found} belongs to another MPI"
    return Check("mpiexec", ok, tried, came, "" if ok else f"source {_activate()}")


def check_world() -> Check:
    """Two processes started by mpiexec find each other."""
    done = _run([_mpiexec(), "-n", "2", sys.executable, "-c", _WORLD])
    sizes = done.words.split()
    ok = not done.failed and sizes == ["2", "2"]
    came = "a world of 2" if ok else done.reason or f"worlds of {' and '.join(sizes)}: mpiexec belongs to another MPI"
    mend = "" if ok else f"source {_activate()}; if that is right: mpiexec -localhost 127.0.0.1"
    return Check("world of 2", ok, "mpiexec -n 2 python", came, mend)


def check_spawn() -> Check:
    """A plain Python program can start a further process through MPI: what growing needs."""
    done = _run([sys.executable, "-c", _SPAWN.format(child=_CHILD)])
    ok = not done.failed and done.words.isdecimal()
    came = f"a process joined after {done.words} ms" if ok else done.reason or done.words
    mend = (
        "" if ok else "malleable doctor's lines above come first; then: HYDRA_LAUNCHER=fork, or ssh without a password"
    )
    return Check("spawn", ok, "MPI.COMM_SELF.Spawn of one Python", came, mend)


def check_emulated_nodes() -> Check:
    """Several nodes can be emulated on this machine by name."""
    mpiexec = str(environment.right_mpiexec() or _mpiexec())  # what the embedded scheduler starts jobs with
    command = [mpiexec, "-launcher", "fork", "-hosts", "nodeA,nodeB", "-n", "2", sys.executable, "-c", _NODE]
    done = _run(command)
    names = sorted(done.words.split())
    ok = not done.failed and names == ["nodeA", "nodeB"]
    came = "nodeA and nodeB" if ok else done.reason or f"got {names}"
    mend = "" if ok else "needs MPICH's mpiexec (hydra): pip install mpich"
    return Check("emulated nodes", ok, "mpiexec -launcher fork -hosts nodeA,nodeB", came, mend)


def check_numba() -> Check:
    """The compiled kernels can be used."""
    probe = "import numba; print(numba.njit(lambda x: x + 1)(41))"
    done = _run([sys.executable, "-c", probe], deadline_s=60.0)
    if not done.failed and done.words == "42":
        return Check("numba", True, "compiled a function", f"numba {_version('numba')} compiles")
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
    return _check_room("shared memory", Path("/dev/shm"), ENOUGH_SHARED_BYTES, "mpich_shm_*")


def check_temporary_folder() -> Check:
    """The temporary folder can be written and has room."""
    return _check_room("temporary folder", Path(tempfile.gettempdir()), ENOUGH_TEMPORARY_BYTES, "hydra_hwloc_xmlfile_*")


def check_host_name() -> Check:
    """This host's name resolves: mpiexec looks it up."""
    name = socket.gethostname()
    # In a process of its own: a lookup without an answer cannot be interrupted.
    probe = "import socket, sys; print(socket.gethostbyname(sys.argv[1]))"
    done = _run([sys.executable, "-c", probe, name], deadline_s=LOOKUP_DEADLINE_S)
    if done.failed:
        # Jobs on this machine alone run all the same.
        came = f"{name} does not resolve: jobs over several machines need it (a line '127.0.1.1 {name}' in /etc/hosts)"
        return Check("host name", None, f"looked up {name}", came)
    return Check("host name", True, f"looked up {name}", f"{name} is {done.words}")


def check_slurm() -> Check:
    """Whether Slurm is here; nothing needs it."""
    if shutil.which("sinfo") is None:
        return Check("Slurm", None, "looked for sinfo in PATH", "not here; the embedded scheduler needs none")
    done = _run(["sinfo", "--version"])
    if done.failed:
        return Check("Slurm", False, "sinfo --version", done.reason, "ask the operator: sinfo does not answer")
    return Check("Slurm", True, "sinfo --version", done.words)


_CHECKS: tuple[Callable[[], Check], ...] = (
    check_python,
    check_library,
    check_mpiexec,
    check_world,
    check_spawn,
    check_emulated_nodes,
    check_numba,
    check_open_files,
    check_shared_memory,
    check_temporary_folder,
    check_host_name,
    check_slurm,
)


@dataclass(frozen=True)
class _Done:
    words: str
    reason: str  # empty: it ended well

    @property
    def failed(self) -> bool:
        return bool(self.reason)


def _run(command: list[str], deadline_s: float = DEADLINE_S) -> _Done:
    """Runs a probe to its end or its deadline; at the deadline everything it started is killed."""
    source = str(Path(__file__).parents[1])  # a checkout that is not installed can be examined too
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))}
    try:
        process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return _Done("", f"{command[0]}: {error.strerror}")
    with process:
        try:
            out, err = process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return _Done("", f"no answer within {deadline_s:.0f} s")
    if process.returncode:
        return _Done(out.strip(), _last_line(err) or _last_line(out) or f"exit code {process.returncode}")
    return _Done(out.strip(), "")


def _check_room(name: str, folder: Path, enough_bytes: int, leftovers: str) -> Check:
    """Whether a folder can be written and has room; says how many old MPI files lie there."""
    tried = f"wrote a file in {folder}"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x" * 4096)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check(name, False, tried, error.strerror or str(error), f"make {folder} writable, or free some of it")
    old = len(list(folder.glob(leftovers)))
    came = f"{free >> 20} MiB free in {folder}" + (f", {old} files of running or dead MPI jobs" if old else "")
    ok = free >= enough_bytes
    return Check(name, ok, tried, came, "" if ok else f"rm {folder}/{leftovers} (when no MPI job runs)")


def _mpiexec() -> str:
    """The mpiexec that a user would type, else the right one."""
    return shutil.which("mpiexec") or str(environment.right_mpiexec() or "mpiexec")


def _activate() -> str:
    return shlex.quote(f"{sys.prefix}/bin/activate")


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "of unknown version"


def _last_line(text: str) -> str:
    lines = [_flat(line) for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _flat(text: str) -> str:
    """One line, single spaces."""
    return " ".join(text.split())
