"""MPI: which libraries are here, what each can do, and the traps between a library and an mpiexec."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from apgas.doctor.check import Check, flat, run, version_of
from apgas.runtime import environment

_LOAD = """
from apgas.runtime import environment
with environment.tidied(environment.prepare()):
    from mpi4py import MPI
"""
_LIBRARY = (
    _LOAD
    + """
levels = {MPI.THREAD_SINGLE: "single", MPI.THREAD_FUNNELED: "funneled", MPI.THREAD_SERIALIZED: "serialized"}
print(MPI.Get_library_version().splitlines()[0])
print(levels.get(MPI.Query_thread(), "multiple"))
with open("/proc/self/maps") as maps:
    print(*sorted({line.split(maxsplit=5)[-1].strip() for line in maps if "/libmpi" in line})[:1])
"""
)
_SPAWN = (
    _LOAD
    + """
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
)
_CHILD = "from mpi4py import MPI; MPI.Comm.Get_parent().Disconnect()"
# One write per line: the lines of several processes must not tear each other apart.
_WORLD = "import os; from mpi4py import MPI; os.write(1, b'%d\\n' % MPI.COMM_WORLD.size)"
_NODE = "import os; from mpi4py import MPI; os.write(1, os.environb.get(b'PMI_HOSTNAME', b'unnamed') + b'\\n')"
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
    done = run([sys.executable, "-c", _LIBRARY])
    if done.failed:
        return Library(problem=done.reason)
    said, threads, file, *_ = [*done.words.splitlines(), "", "", ""]
    return Library(flat(said.split(", package")[0].replace(" Version:", "")), threads, file)


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
    ok = found.kind is installed[0] and Path(found.file).is_relative_to(Path(sys.prefix).resolve())
    if ok:
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
    paths = [Path(folder) / "mpiexec" for folder in folders if folder]
    right = environment.right_mpiexec()
    ours = {right.resolve()} if right else set()
    seen: dict[Path, str] = {}
    for path in paths:
        real = path.resolve()
        if real in ours or real in seen or not os.access(path, os.X_OK):
            continue
        whose = identified(str(path))
        seen[real] = f"{path}: {f'{whose[0].name} {whose[1]}, {whose[0].abilities()}' if whose else 'not known'}"
    return Check("other MPIs", None, "asked every mpiexec in PATH", " | ".join(seen.values()) or "none in PATH")


def check_world() -> Check:
    """Two processes started by mpiexec find each other."""
    mpiexec = _mpiexec()
    whose = identified(mpiexec)
    openmpi = whose is not None and whose[0] is environment.OPEN_MPI
    if openmpi and os.geteuid() == 0 and not all(name in os.environ for name in _AS_ROOT):
        came = "the mpiexec of Open MPI refuses to start as root"
        mend = f"start as another user, or: export {' '.join(f'{name}=1' for name in _AS_ROOT)}"
        return Check("world of 2", False, "mpiexec -n 2 python", came, mend)
    options = ["--map-by", ":OVERSUBSCRIBE"] if openmpi else []
    done = run([mpiexec, *options, "-n", "2", sys.executable, "-c", _WORLD])
    sizes = done.words.split()
    ok = not done.failed and sizes == ["2", "2"]
    came = "a world of 2" if ok else done.reason or f"worlds of {' and '.join(sizes)}: mpiexec belongs to another MPI"
    mend = "" if ok else f"source {_activate()}; if that is right: mpiexec -localhost 127.0.0.1"
    return Check("world of 2", ok, "mpiexec -n 2 python", came, mend)


def check_spawn() -> Check:
    """A plain Python program can start a further process through MPI: what growing needs."""
    tried = "MPI.COMM_SELF.Spawn of one Python"
    kind = library().kind
    if kind is not None and not kind.resizes:
        return Check("spawn", None, tried, f"not tried: under {kind.name} jobs are rigid")
    done = run([sys.executable, "-c", _SPAWN, _CHILD])
    ok = not done.failed and done.words.isdecimal()
    came = f"a process joined after {done.words} ms" if ok else done.reason or done.words
    mend = (
        "" if ok else "malleable doctor's lines above come first; then: HYDRA_LAUNCHER=fork, or ssh without a password"
    )
    return Check("spawn", ok, tried, came, mend)


def check_emulated_nodes() -> Check:
    """Several nodes can be emulated on this machine by name."""
    mpiexec = str(environment.right_mpiexec() or _mpiexec())  # what the embedded scheduler starts jobs with
    tried = "mpiexec -launcher fork -hosts nodeA,nodeB"
    whose = identified(mpiexec)
    if whose is not None and whose[0] is not environment.MPICH:
        return Check("emulated nodes", None, tried, f"{whose[0].name} has none; the embedded scheduler needs MPICH")
    done = run([mpiexec, "-launcher", "fork", "-hosts", "nodeA,nodeB", "-n", "2", sys.executable, "-c", _NODE])
    names = sorted(done.words.split())
    ok = not done.failed and names == ["nodeA", "nodeB"]
    came = "nodeA and nodeB" if ok else done.reason or f"got {names}"
    mend = "" if ok else "needs MPICH's mpiexec (hydra): pip install mpich"
    return Check("emulated nodes", ok, tried, came, mend)


def identified(mpiexec: str) -> tuple[environment.Mpi, str] | None:
    """Returns whose an mpiexec is, and its version; None if it does not say."""
    words = run([mpiexec, "--version"]).words
    mpi = environment.named_in(words)
    number = _NUMBER.search(words)
    return None if mpi is None else (mpi, number.group() if number else "of unknown version")


def _installed(mpi: environment.Mpi) -> bool:
    try:
        version(mpi.distribution)
    except PackageNotFoundError:
        return False
    return True


def _mpiexec() -> str:
    """The mpiexec that a user would type, else the right one."""
    return shutil.which("mpiexec") or str(environment.right_mpiexec() or "mpiexec")


def _activate() -> str:
    return shlex.quote(f"{sys.prefix}/bin/activate")
