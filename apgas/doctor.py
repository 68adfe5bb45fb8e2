"""Checks what works on this machine, and says how to mend what does not.

Every check tries the real thing, in a process of its own where it could hang, and has a deadline.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from apgas.provenance import version
from apgas.runtime import environment
from apgas.runtime.probe import Done, Probe, one_line

__all__ = ["CHECKS", "Check", "as_text", "main", "run_checks"]

DEADLINE_S = 20.0


@dataclass(frozen=True)
class Check:
    """One line of the checklist.

    Attributes:
        name: what is checked.
        ok: True: works; False: does not; None: absent, and not needed.
        tried: what was done.
        came_back: what was seen.
        mend: the command or step that mends it where it does not work.
    """

    name: str
    ok: bool | None
    tried: str
    came_back: str
    mend: str = ""


def as_text(check: Check) -> str:
    """Returns a check as plain text: one line, or three where there is something to mend."""
    sign = {True: "ok  ", False: "FAIL", None: "-   "}[check.ok]
    lines = [f"{sign}  {check.name:<16}  {check.came_back}"]
    if check.ok is False:
        lines += [f"{'':6}{'tried':<18}{check.tried}", f"{'':6}{'mend':<18}{check.mend}"]
    return "\n".join(lines)


def run_probe(command: list[str], deadline_s: float = DEADLINE_S) -> Done:
    """Runs a probe to its end or its deadline; a checkout that is not installed can be examined, too."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    return Probe(command, {**os.environ, "PYTHONPATH": path}).done(deadline_s)


def version_of(distribution: str) -> str:
    """Returns the version of an installed distribution, in words if it is not."""
    return version(distribution) or "of unknown version"


# The machine: Python, limits, folders, names -------------------------------------------------------------------------

LOOKUP_DEADLINE_S = 5.0
ENOUGH_OPEN_FILES = 4096
ENOUGH_SHARED_BYTES = 64 << 20
ENOUGH_TEMPORARY_BYTES = 64 << 20


def check_python() -> Check:
    """Python is new enough."""
    have = sys.version.split()[0]
    ok = sys.version_info >= (3, 11)
    return Check("Python", ok, sys.executable, f"{have} in {sys.prefix}", "install Python 3.11 or newer")


def check_numba() -> Check:
    """The compiled kernels can be used."""
    probe = "import numba; print(numba.njit(lambda x: x + 1)(41))"
    done = run_probe([sys.executable, "-c", probe], deadline_s=60.0)
    if not done.reason and done.words == "42":
        return Check("numba", True, "compiled a function", f"numba {version_of('numba')} compiles")
    if "No module named 'numba'" in done.reason:
        came = 'not installed: plain kernels (pip install "malleable-apgas[kernels]")'
        return Check("numba", None, "import numba", came)
    return Check("numba", False, "compiled a function", done.reason, 'pip install --upgrade "malleable-apgas[kernels]"')


def check_open_files() -> Check:
    """Enough files may be open: each spawned process costs one for as long as the job lives."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = environment.WANTED_OPEN_FILES
    raised = max(soft, wanted if hard == resource.RLIM_INFINITY else min(wanted, hard))
    came, mend = f"{soft}, raised to {raised} at start", f"ulimit -Hn {ENOUGH_OPEN_FILES} (as root)"
    return Check("open files", raised >= ENOUGH_OPEN_FILES, "limit of open files", came, mend)


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
    done = run_probe([sys.executable, "-c", probe, name], deadline_s=LOOKUP_DEADLINE_S)
    if done.reason:
        # Jobs on this machine alone run all the same.
        came = f"{name} does not resolve: jobs over several machines need it (a line '127.0.1.1 {name}' in /etc/hosts)"
        return Check("host name", None, f"looked up {name}", came)
    return Check("host name", True, f"looked up {name}", f"{name} is {done.words}")


def check_slurm() -> Check:
    """Whether Slurm is here; nothing needs it."""
    if shutil.which("sinfo") is None:
        return Check("Slurm", None, "looked for sinfo in PATH", "not here; the embedded scheduler needs none")
    done = run_probe(["sinfo", "--version"])
    if done.reason:
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
    words = " ".join(f"{folder}/{pattern}" for pattern in leftovers)
    return Check(name, free >= enough_bytes, tried, came, f"when no MPI job runs: rm -r {words}")


# MPI: which libraries are here, what each can do, and the traps between a library and an mpiexec ---------------------

_LOAD = """
from apgas.runtime import environment
with environment.tidied(environment.prepare()):
    from mpi4py import MPI
"""
_LIBRARY = """
levels = {MPI.THREAD_SINGLE: "single", MPI.THREAD_FUNNELED: "funneled", MPI.THREAD_SERIALIZED: "serialized"}
print(MPI.Get_library_version().splitlines()[0])
print(levels.get(MPI.Query_thread(), "multiple"))
with open("/proc/self/maps") as maps:
    print(*sorted({line.split(maxsplit=5)[-1].strip() for line in maps if "/libmpi" in line})[:1])
"""
_SPAWN = """
import sys, time
from apgas.runtime import environment
kind = environment.named_in(MPI.Get_library_version())
info = MPI.Info.Create()
for hint, value in (kind.spawning if kind else {}).items():
    info.Set(hint, value)
began = time.monotonic()
MPI.COMM_SELF.Spawn(sys.executable, ["-c", sys.argv[1]], maxprocs=1, info=info).Disconnect()
print(f"{1000 * (time.monotonic() - began):.0f}", flush=True)
"""
_CHILD = "from mpi4py import MPI; MPI.Comm.Get_parent().Disconnect()"
# One write per line: the lines of several processes must not tear each other apart.
_WORLD = "import os; from mpi4py import MPI; os.write(1, b'%d\\n' % MPI.COMM_WORLD.size)"
_NODE = "import apgas; apgas.run(lambda: print(*(place.node for place in apgas.places())))"
_INSTALL = 'pip install "malleable-apgas[mpi]"'
_AS_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
_NUMBER = re.compile(r"\d+\.\d+(\.\d+)?")


@dataclass(frozen=True)
class Library:
    """The MPI that mpi4py loads.

    Attributes:
        said: what it says of itself, in one line.
        threads: what it lets threads do.
        file: where it lies.
        problem: why it could not be loaded; empty if it could.
    """

    said: str = ""
    threads: str = ""
    file: str = ""
    problem: str = ""

    @property
    def kind(self) -> environment.Mpi | None:
        """Which one it is, if it is known."""
        return environment.named_in(self.said)


def library() -> Library:
    """Returns the MPI that mpi4py loads here."""
    done = run_probe([sys.executable, "-c", _LOAD + _LIBRARY])
    if done.reason:
        return Library(problem=done.reason)
    said, threads, file, *_ = [*done.words.splitlines(), "", "", ""]
    return Library(one_line(said.split(", package")[0].replace(" Version:", "")), threads, file)


def check_library() -> Check:
    """mpi4py loads, its MPI is one that the runtime knows, and threads may spawn."""
    tried = "python -c 'from mpi4py import MPI'"
    found = library()
    if found.problem:
        return Check("MPI library", False, tried, found.problem, _INSTALL)
    came = f"{found.said}, mpi4py {version_of('mpi4py')}, threads: {found.threads}"
    if found.kind is None:
        mend = "pip install mpich, and MPI4PY_MPIABI=mpich if several are installed"
        return Check("MPI library", False, tried, came, mend)
    if found.threads != "multiple":
        return Check("MPI library", False, tried, came, f"threads must be allowed to spawn: {_INSTALL}")
    return Check("MPI library", True if found.kind.resizes else None, tried, f"{came}; {found.kind.abilities()}")


def check_binding() -> Check:
    """The MPI that mpi4py loads is the one that was installed beside this Python."""
    installed = [mpi for mpi in environment.KNOWN if _installed(mpi)]
    names = " and ".join(mpi.name for mpi in installed)
    tried = "looked which libmpi was loaded"
    if len(installed) > 1:
        came = f"{names} are both installed in {sys.prefix} and have overwritten each other's mpiexec"
        mend = f"an environment for each: pip uninstall {installed[-1].distribution}"
        return Check("mpi4py's choice", False, tried, came, mend)
    found = library()
    if not installed or found.problem:
        return Check("mpi4py's choice", None, tried, found.file or "no MPI from PyPI in this environment")
    if found.kind is installed[0] and Path(found.file).is_relative_to(Path(sys.prefix).resolve()):
        return Check("mpi4py's choice", True, tried, found.file)
    chosen = [name for name in ("MPI4PY_LIBMPI", "MPI4PY_MPIABI", "LD_LIBRARY_PATH") if name in os.environ]
    came = f"mpi4py loads {found.file} ({found.said}), not the {names} beside this Python"
    mend = f"unset {' '.join(chosen)}" if chosen else "pip install --force-reinstall --only-binary :all: mpi4py"
    return Check("mpi4py's choice", False, tried, came, mend)


def check_mpiexec() -> Check:
    """The mpiexec that a user would type is the one that belongs to the library."""
    found = shutil.which("mpiexec")
    right = environment.right_mpiexec()
    tried = "looked for mpiexec in PATH"
    if right is None:
        return _check_unbundled_mpiexec(found, tried)
    if found is None:
        return Check("mpiexec", None, tried, f"not in PATH; {right} is used (to type it: source {_activate()})")
    if Path(found).resolve() == right.resolve():
        return Check("mpiexec", True, tried, found)
    whose = identified(found)
    came = f"{found} belongs to {whose[0].name if whose else 'another MPI'}: its places would each be alone"
    return Check("mpiexec", False, tried, came, f"source {_activate()}")


def _check_unbundled_mpiexec(found: str | None, tried: str) -> Check:
    if found is None:
        return Check("mpiexec", False, tried, "none", _INSTALL)
    whose, loaded = identified(found), library().kind
    if whose is None or loaded is None:
        return Check("mpiexec", True, tried, f"{found}; the MPI is not from PyPI, so it must be the library's own")
    if whose[0] is loaded:
        return Check("mpiexec", True, tried, f"{found} ({whose[0].name}, as the library)")
    came = f"{found} belongs to {whose[0].name}, but Python's MPI is {loaded.name}: its places would each be alone"
    return Check("mpiexec", False, tried, came, f"put the mpiexec of {loaded.name} first in PATH, or {_INSTALL}")


def check_other_mpis() -> Check:
    """Which further MPIs are in PATH, and what each could do for a Python whose mpi4py uses it."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found: dict[Path, Path] = {}
    for path in (Path(folder, "mpiexec") for folder in folders if folder):
        if os.access(path, os.X_OK):
            found.setdefault(path.resolve(), path)
    if right := environment.right_mpiexec():
        found.pop(right.resolve(), None)
    said = []
    for path in found.values():
        whose = identified(str(path))
        said.append(f"{path}: {f'{whose[0].name} {whose[1]}, {whose[0].abilities()}' if whose else 'not known'}")
    return Check("other MPIs", None, "asked every mpiexec in PATH", " | ".join(said) or "none in PATH")


def check_world() -> Check:
    """Two processes started by mpiexec find each other."""
    mpiexec = shutil.which("mpiexec") or str(environment.right_mpiexec() or "mpiexec")  # as a user would type it
    whose = identified(mpiexec)
    openmpi = whose is not None and whose[0] is environment.OPEN_MPI
    if openmpi and os.geteuid() == 0 and not all(name in os.environ for name in _AS_ROOT):
        came = "the mpiexec of Open MPI refuses to start as root"
        mend = f"start as another user, or: export {' '.join(f'{name}=1' for name in _AS_ROOT)}"
        return Check("world of 2", False, "mpiexec -n 2 python", came, mend)
    options = ["--map-by", ":OVERSUBSCRIBE"] if openmpi else []
    done = run_probe([mpiexec, *options, "-n", "2", sys.executable, "-c", _WORLD])
    sizes = done.words.split()
    ok = not done.reason and sizes == ["2", "2"]
    came = "a world of 2" if ok else done.reason or f"worlds of {' and '.join(sizes)}: mpiexec belongs to another MPI"
    mend = f"source {_activate()}; if that is right: mpiexec -localhost 127.0.0.1"
    return Check("world of 2", ok, "mpiexec -n 2 python", came, mend)


def check_spawn() -> Check:
    """A plain Python program can start a further process through MPI: what growing needs."""
    tried = "MPI.COMM_SELF.Spawn of one Python"
    kind = library().kind
    if kind is not None and not kind.resizes:
        return Check("spawn", None, tried, f"not tried: under {kind.name} jobs are rigid")
    done = run_probe([sys.executable, "-c", _LOAD + _SPAWN, _CHILD])
    ok = not done.reason and done.words.isdecimal()
    came = f"a process joined after {done.words} ms" if ok else done.reason or done.words
    mend = "malleable doctor's lines above come first; then: HYDRA_LAUNCHER=fork, or ssh without a password"
    return Check("spawn", ok, tried, came, mend)


def check_emulated_nodes() -> Check:
    """Several nodes can be emulated on this machine by name."""
    tried = "python -m apgas.launch --launcher fork --hosts nodeA,nodeB"  # what the embedded scheduler starts jobs with
    launcher = [sys.executable, "-m", "apgas.launch", "--launcher", "fork", "--hosts", "nodeA,nodeB"]
    done = run_probe([*launcher, sys.executable, "-c", _NODE])
    names = sorted(done.words.split())
    ok = not done.reason and names == ["nodeA", "nodeB"]
    came = "nodeA and nodeB" if ok else done.reason or f"got {names}"
    return Check("emulated nodes", ok, tried, came, "malleable doctor's lines above come first")


def identified(mpiexec: str) -> tuple[environment.Mpi, str] | None:
    """Returns whose an mpiexec is, and its version; None if it does not say."""
    words = run_probe([mpiexec, "--version"]).words
    mpi = environment.named_in(words)
    number = _NUMBER.search(words)
    return None if mpi is None else (mpi, number.group() if number else "of unknown version")


def _installed(mpi: environment.Mpi) -> bool:
    return version(mpi.distribution) is not None


def _activate() -> str:
    return shlex.quote(f"{sys.prefix}/bin/activate")


# The checklist -------------------------------------------------------------------------------------------------------

CHECKS: tuple[Callable[[], Check], ...] = (
    check_python,
    check_library,
    check_binding,
    check_mpiexec,
    check_other_mpis,
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
"""All checks, in the order of the list: what fails first may be why the next ones do."""


def run_checks() -> list[Check]:
    """Runs every check, one after another; takes a few seconds, at worst a minute or two."""
    return [check() for check in CHECKS]


def main(further: Iterable[Callable[[], Check]] = ()) -> int:
    """Prints the checklist and its verdict.

    Args:
        further: Checks of those that build upon this package; they come last.

    Returns:
        0 if everything needed works, else 1.
    """
    results: list[Check] = []
    for check in chain(CHECKS, further):
        results.append(check())
        sys.stdout.write(as_text(results[-1]) + "\n")
        sys.stdout.flush()
    failed = sum(result.ok is False for result in results)
    words = "everything that is needed works" if not failed else f"{failed} of {len(results)} checks failed"
    sys.stdout.write(f"\n{words}\n")
    return 1 if failed else 0
