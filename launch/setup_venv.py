"""Sets up the project's virtual environment; used by the scripts beside it. Needs Python and its standard library only.

It must be readable by older Pythons too: they get a plain refusal, not a syntax error.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
EXTRAS = {"all": "all", "test": "test", "docs": "docs", "openmpi": "openmpi,kernels,bridge", "compiled": "all"}
"""What can be set up, and the extras of the project that it means; each MPI needs an environment of its own.

In `compiled` the scheduler's core and the simulator are machine code, made with a C compiler of the project as it is.
"""
BESIDE = ("docs", "openmpi", "compiled")
"""What is set up beside the usual environment, in a folder with this after its name."""
NEEDED_BYTES = 1_200_000_000  # what a full installation takes, with pip's downloads beside it
PACKAGES = ("apgas", "glb", "benchmarks", "scheduler_bridge")
LEFT_BEHIND = ("__pycache__", "*.so")
"""What Python, Numba and compilers leave beside the code."""
STAMP = "launch-stamp.json"
LOG = "launch-install.log"
HINT_EVERY_S = 15.0


class SetupError(Exception):
    """What failed, why, and what to do: one line each."""

    def __init__(self, what: str, why: str, remedy: str) -> None:
        super().__init__(what, why, remedy)
        self.lines = (what, why, remedy)


def start(kind: str, command: list[str]) -> None:
    """Sets up the environment of a kind (see EXTRAS) and becomes the command, run by the environment's Python."""
    try:
        python = set_up(kind)
    except SetupError as error:
        sys.exit(as_text(error))
    except OSError as error:  # whatever else a file system can think of
        remedy = "mend that, or name another place: MALLEABLE_VENV=/elsewhere/venv"
        sys.exit(as_text(SetupError(f"{venv_folder(kind)} could not be set up", str(error), remedy)))
    except KeyboardInterrupt:
        sys.exit("interrupted; the next start goes on from here")
    keep_bytecode(python)
    folder = python.parent
    found = shutil.which("mpiexec")
    if found and kind != "docs" and Path(found).parent != folder:
        say(f"note: mpiexec in PATH is {found}; {folder / 'mpiexec'} is used here")
    os.environ["PATH"] = os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])
    os.environ["VIRTUAL_ENV"] = str(folder.parent)
    os.environ.pop("PYTHONHOME", None)
    sys.stdout.flush()
    os.execv(python, [str(python), *command])


def set_up(kind: str) -> Path:
    """Creates or reuses the environment of a kind, installs the project into it, and returns the path of its Python.

    Raises:
        SetupError: something is missing; its lines say what, why, and what to do.
    """
    use_new_enough_python()
    venv, extra, compiled = venv_folder(kind), EXTRAS[kind], kind == "compiled"
    if compiled:
        need_compiler()
    # Two starts at once (demo and test) share the environment; the folder itself is the lock, so no file stays.
    lock = os.open(Path(__file__).parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        python = venv / "bin" / "python"
        if is_ready(venv, extra, compiled):
            return python
        began = time.monotonic()
        create(venv)
        install(venv, extra, compiled)
        (venv / STAMP).write_text(json.dumps({"extra": extra, "key": key(venv, compiled)}), encoding="utf-8")
        say(f"ready after {time.monotonic() - began:.0f} s")
        return python
    finally:
        os.close(lock)


def venv_folder(kind: str) -> Path:
    """The environment's folder: .venv beside this script's folder, unless MALLEABLE_VENV names another.

    Some kinds stand beside it, with the kind after its name.
    """
    named = os.environ.get("MALLEABLE_VENV")
    folder = Path(named).expanduser().absolute() if named else ROOT / ".venv"
    return folder.with_name(f"{folder.name}-{kind}") if kind in BESIDE else folder


def use_new_enough_python() -> None:
    """Goes on under a newer Python of this machine if the one that started is too old."""
    if sys.version_info[:2] >= OLDEST:
        return
    have = "{}.{}.{}".format(*sys.version_info[:3])
    for minor in range(20, OLDEST[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        # A version manager may offer a name that it cannot run.
        if found and not subprocess.call([found, "-c", ""], stderr=subprocess.DEVNULL):
            say(f"python3 is {have}; going on with {found}")
            sys.stdout.flush()
            os.execv(found, [found, *sys.argv])
    raise SetupError(
        f"Python {OLDEST[0]}.{OLDEST[1]} or newer is needed",
        f"{sys.executable} is {have}, and there is no newer one in PATH",
        f"install Python {OLDEST[0]}.{OLDEST[1]} or newer, or name it: /path/to/python3 {sys.argv[0]}",
    )


def need_compiler() -> None:
    """Refuses to compile where nothing can."""
    if not shutil.which(os.environ.get("CC", "cc").split()[0]):
        raise SetupError(
            "no C compiler is found",
            "to compile the scheduler's core takes one, and Python's header files",
            "install them, on Debian or Ubuntu: apt install gcc python3-dev; or name a compiler: CC=/path/to/gcc",
        )


def key(venv: Path, compiled: bool = False) -> str:
    """A short text that changes when the installation must be renewed; a compiled one whenever the code changes."""
    import tomllib

    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    # What the environment was made with counts, not which Python looks at it now.
    made_with = (venv / "pyvenv.cfg").read_text(encoding="utf-8")
    parts = [project["build-system"], project["project"], project["tool"].get("hatch"), made_with, str(ROOT)]
    found = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    if compiled:
        for package in PACKAGES:
            for path in sorted((ROOT / package).rglob("*")):
                if path.is_file() and path.suffix != ".so" and "__pycache__" not in path.parts:
                    found.update(path.read_bytes())
    return found.hexdigest()


def is_ready(venv: Path, extra: str, compiled: bool) -> bool:
    """Whether an earlier start finished the same installation, or a larger one."""
    try:
        stamp = json.loads((venv / STAMP).read_text(encoding="utf-8"))
        enough = stamp.get("extra") in (extra, "test")  # test contains all
        return enough and stamp.get("key") == key(venv, compiled) and (venv / "bin" / "python").exists()
    except (OSError, ValueError):
        return False


def create(venv: Path) -> None:
    """Makes the environment, unless a usable one is there."""
    if not venv.exists() or not any(venv.iterdir()):
        say(f"creating {shown(venv)} with Python {sys.version.split()[0]}")
    elif is_usable(venv):
        say(f"updating {shown(venv)}")
        return
    elif not (venv / "pyvenv.cfg").exists():
        raise SetupError(f"{venv} is not a virtual environment", "it holds other files", "name another folder")
    else:
        say(f"{shown(venv)} does not work with this Python; creating it anew")
    for module in ("venv", "ensurepip"):
        if find_spec(module) is None:
            raise SetupError(
                f"Python's {module} module is missing",
                f"{sys.executable} was installed without it, as some Linux distributions do",
                f"install it, on Debian or Ubuntu: apt install python{sys.version_info[0]}.{sys.version_info[1]}-venv",
            )
    check_folder(venv)
    result = run([sys.executable, "-m", "venv", "--clear", str(venv)])
    if result.returncode:
        raise SetupError(
            f"{shown(venv)} could not be created",
            last_line(result.stdout),
            "mend that, or name another place: MALLEABLE_VENV=/elsewhere/venv",
        )


def is_usable(venv: Path) -> bool:
    """Whether the environment's Python runs, is new enough, and has pip."""
    probe = f"import sys, pip; sys.exit(sys.version_info[:2] < {OLDEST!r})"
    try:
        return run([str(venv / "bin" / "python"), "-c", probe]).returncode == 0
    except OSError:
        return False


def check_folder(venv: Path) -> None:
    """Refuses a folder that cannot be written, or a disk without room, before pip spends minutes on it."""
    try:
        venv.mkdir(parents=True, exist_ok=True)
        probe = venv / STAMP
        probe.touch()
        probe.unlink()
        free = shutil.disk_usage(venv).free
    except OSError as error:
        raise SetupError(
            f"{venv} cannot be written",
            error.strerror or str(error),
            "make the folder writable, or name another place: MALLEABLE_VENV=/elsewhere/venv",
        ) from error
    if free < NEEDED_BYTES:
        raise SetupError(
            f"too little room for {venv}",
            f"{free / 1e9:.1f} GB are free, about {NEEDED_BYTES / 1e9:.1f} GB are needed",
            "free some, or name another place: MALLEABLE_VENV=/elsewhere/venv",
        )


def install(venv: Path, extra: str, compiled: bool) -> None:
    """Installs the project into the environment, with one of its extras: what it needs from wheels only.

    Editable, unless it is compiled: then the environment holds the code as it is now.
    """
    say(f"installing malleable-apgas[{extra}] and what it needs (up to a minute or two, the first time)")
    (venv / STAMP).unlink(missing_ok=True)
    if not compiled:
        pip_install(venv, ["--editable", f"{ROOT}[{extra}]"])
        return
    with tempfile.TemporaryDirectory(prefix="malleable-build-") as folder:  # modules are compiled where they are
        for name in PACKAGES:
            shutil.copytree(ROOT / name, Path(folder) / name, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
        for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, folder)
        pip_install(venv, [f"{folder}[{extra}]"], HATCH_BUILD_HOOKS_ENABLE="1")


def pip_install(venv: Path, what: list[str], **variables: str) -> None:
    """Runs pip with these arguments and variables of the environment.

    Raises:
        SetupError: pip fails; why is in its output, which is kept.
    """
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    command += ["--only-binary", ":all:", *what]
    environment = {**os.environ, **variables}
    log = venv / LOG
    with log.open("w+", encoding="utf-8", errors="replace") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
        )
        try:
            wait_with_hints(process)
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
        if process.returncode == 0:
            return
        out.seek(0)
        text = out.read()
    why, remedy = explain_failure(text)
    raise SetupError("pip could not install the project", why, f"{remedy} (all of pip's output: {shown(venv / LOG)})")


def keep_bytecode(python: Path) -> None:
    """Compiles what has changed of the project, as pip does with all that it does not install editable.

    Every process of a job would do that anew, a third of its start, where Python is set to write no bytecode
    (PYTHONDONTWRITEBYTECODE) or other people's processes may not write here. If it cannot be kept, all works as well.
    """
    folders = [str(ROOT / package) for package in PACKAGES]
    run([str(python), "-m", "compileall", "-q", *folders])


def wait_with_hints(process: subprocess.Popen[bytes]) -> None:
    """Waits for a process and says now and then that it still runs."""
    began = time.monotonic()
    while True:
        try:
            process.wait(HINT_EVERY_S)
        except subprocess.TimeoutExpired:
            say(f"  still installing, {time.monotonic() - began:.0f} s")
        else:
            return


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a short command and keeps what it says."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def shown(path: Path) -> str:
    """A path as short as it can be said."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def as_text(error: SetupError) -> str:
    """Three lines: what failed, why, what to do."""
    what, why, remedy = error.lines
    return f"{red('error')}: {what}\n  why: {why}\n  do:  {remedy}"


def red(text: str) -> str:
    """Red on a terminal that wants colours."""
    return f"\x1b[31m{text}\x1b[0m" if sys.stderr.isatty() and "NO_COLOR" not in os.environ else text


def say(text: str) -> None:
    """One line of progress; on stderr, so that a command's output can be piped."""
    print(text, file=sys.stderr, flush=True)


# Why pip failed, and what to do ---------------------------------------------------------------------------------------


class Failure(NamedTuple):
    """A kind of failure, known by what pip writes about it; `{what}` is the package that the pattern captured."""

    pattern: str
    why: str
    remedy: str


# The first that matches is shown.
FAILURES = (
    Failure(
        r"No space left on device|Errno 28",
        "the disk is full",
        "free about 1.2 GB, or name another place: MALLEABLE_VENV=/elsewhere/venv",
    ),
    Failure(
        r"Read-only file system|Permission denied|Errno 13|Errno 30",
        "the environment, or pip's cache or temporary folder, cannot be written",
        "make it writable, or name another place: MALLEABLE_VENV=/elsewhere/venv",
    ),
    Failure(
        r"SSLError|CERTIFICATE_VERIFY_FAILED",
        "the package index's certificate is not trusted",
        "point pip at your site's certificate: PIP_CERT=/path/ca.pem",
    ),
    Failure(
        r"name resolution|Name or service not known|NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError"
        r"|Network is unreachable|Connection refused|Cannot connect to proxy|Max retries exceeded"
        # Every index has this one, for every system: with few retries pip says no more about a dead network.
        r"|requirement hatchling\S* \(from versions: none\)",
        "the package index cannot be reached",
        "check the network and the proxy (HTTPS_PROXY), or point pip at a mirror (PIP_INDEX_URL), and start again",
    ),
    Failure(
        r"(?:No matching distribution found for|satisfies the requirement) (?P<what>[^\s(]+)",
        "the package index has no ready-made {what} for this system and this Python",
        "use Linux on x86-64 or ARM64 and Python 3.11 to 3.14; a local index must carry that package",
    ),
)


def explain_failure(output: str) -> tuple[str, str]:
    """Returns why pip failed and what to do about it, one line each."""
    for failure in FAILURES:
        match = re.search(failure.pattern, output)
        if match:
            return failure.why.replace("{what}", match.groupdict().get("what") or ""), failure.remedy
    return last_line(output), "read pip's output"


def last_line(output: str) -> str:
    """The last line that says something, preferably the first error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors[:1] or lines[-1:] or ["it gave no reason"])[0]


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in EXTRAS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(EXTRAS)}")
    start(sys.argv[1], ["-c", ""])
