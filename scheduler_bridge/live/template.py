"""From a job's command to the command that is executed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from scheduler_bridge.live.config import EMULATED, DaemonError
from scheduler_bridge.live.outputs import check_outputs
from scheduler_bridge.live.requests import JobRequest, SubmitError

ENV_RESILIENT: Final = "APGAS_RESILIENT"
_PLACES_PER_NODE = "APGAS_PLACES_PER_NODE"
_LAUNCHERS = frozenset({"mpiexec", "mpirun", "mpiexec.hydra", "srun", "prun"})


def of_names(reach: Sequence[str]) -> dict[str, str]:
    """Variables by which a launcher that reaches nodes so looks their names up.

    MPICH's looks every node up, also one that this machine only emulates and that no name server knows. One that drops
    a question, as some do where many come at once, would cost the glibc's 5 s and a second question for each.
    """
    return {"RES_OPTIONS": "timeout:1 attempts:1"} if tuple(reach) == EMULATED else {}


def find_mpiexec(configured: Path | None = None) -> Path:
    """Return the launcher: the configured one, or the one installed beside this Python.

    Another MPI's launcher, first in PATH, would start separate worlds of one place each; so PATH is not asked.

    Raises:
        DaemonError: There is none.
    """
    path = configured if configured is not None else Path(sys.prefix) / "bin" / "mpiexec"
    if not os.access(path, os.X_OK):
        raise DaemonError(
            f"there is no MPI launcher at {path}", "install one beside this Python: pip install 'mpich==5.0.*'"
        )
    return path


def wants_launcher(request: JobRequest) -> bool:
    """Whether the command is to be prepended with the MPI launcher."""
    if request.protocol == "v1":
        return False
    if request.launch != "auto":
        return request.launch == "mpiexec"
    if _names_launcher(request):
        return False
    return not any("{hosts}" in word or "{count}" in word for word in request.command)


def starts_launcher(request: JobRequest) -> bool:
    """Whether the process that will be started is an MPI launcher."""
    return wants_launcher(request) or (request.protocol != "v1" and _names_launcher(request))


def is_resilient(request: JobRequest) -> bool:
    """Whether the job's program goes on when a node is lost."""
    return request.resilient or request.environment.get(ENV_RESILIENT) == "1"


def _names_launcher(request: JobRequest) -> bool:
    return Path(request.command[0]).name in _LAUNCHERS


def launch_command(
    request: JobRequest,
    nodes: tuple[str, ...],
    mpiexec: Path,
    reach: tuple[str, ...] = EMULATED,
    cores: int = 1,
    core_ids: str = "",
) -> tuple[str, ...]:
    """Return the words to execute for ``request`` on ``nodes``; place 0 is on the first node.

    ``reach`` tells the launcher how to reach them; the job may use ``cores`` of each, ``core_ids``.

    If the job's environment says how many places share a node, each node gets so many.
    """
    per_node = int(request.environment.get(_PLACES_PER_NODE) or "1")
    hosts = ",".join(nodes if per_node == 1 else (f"{node}:{per_node}" for node in nodes))
    count = str(len(nodes) * per_node)
    stands_for = {"{hosts}": hosts, "{count}": count, "{cores}": str(max(1, cores // per_node)), "{core_ids}": core_ids}
    words = tuple(_filled(word, stands_for) for word in request.command)
    if request.protocol == "v1":
        return (sys.executable, "-P", "-m", "apgas.malleability.v1.gate", "--nodes", ",".join(nodes), "--", *words)
    if not wants_launcher(request):
        return words
    launcher: tuple[str, ...] = (str(mpiexec),)
    if is_resilient(request):
        launcher = (sys.executable, "-m", "apgas.survive", "--mpiexec", str(mpiexec))
    return (*launcher, *reach, "-hosts", hosts, "-n", count, *words)


def _filled(word: str, stands_for: Mapping[str, str]) -> str:
    for placeholder, text in stands_for.items():
        word = word.replace(placeholder, text)
    return word


def check_command(request: JobRequest) -> None:
    """See that the command could be executed.

    Raises:
        SubmitError: The folder or the program does not exist, or may not be executed, or a text is one that no program
            can be given.
    """
    _check_texts(request)
    _check_places(request)
    if request.cwd and not Path(request.cwd).is_dir():
        raise SubmitError(f"{request.cwd} is not a folder", field="cwd", hint="submit from a folder that exists")
    resolve_program(request.command[0], request.cwd or str(Path.cwd()))
    check_outputs(request)


def _check_places(request: JobRequest) -> None:
    text = request.environment.get(_PLACES_PER_NODE) or "1"
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise SubmitError(f"{_PLACES_PER_NODE} is {text!r}", field="environment", hint="give a number of at least 1")


def _check_texts(request: JobRequest) -> None:
    """See that the system can take the request's texts, and that its name fits into one line."""
    if not request.name.isprintable():
        raise SubmitError(f"the name {request.name!r} cannot be printed", field="name", hint="give a name of one line")
    variables = (*request.environment, *request.environment.values())
    for field, texts in (
        ("command", request.command),
        ("cwd", (request.cwd,)),
        ("output", (request.output,)),
        ("errors", (request.errors,)),
        ("environment", variables),
    ):
        for text in texts:
            if "\0" in text:
                raise SubmitError(f"{text!r} holds a NUL character", field=field, why="the system takes none there")
    for name in request.environment:
        if not name or "=" in name:
            raise SubmitError(f"{name!r} is not the name of a variable", field="environment", hint="leave out the '='")


def resolve_program(program: str, cwd: str) -> str:
    """Return the absolute path of ``program`` as seen from ``cwd`` and PATH; links are kept (a venv's Python is one).

    Raises:
        SubmitError: It does not exist or may not be executed.
    """
    if os.sep not in program:
        found = shutil.which(program)
        if found is not None:
            return str(Path(found).absolute())
        beside = Path(sys.executable).parent / program
        if beside.is_file() and os.access(beside, os.X_OK):
            return str(beside)
        raise SubmitError(
            f"{program or repr(program)} is not a program in PATH",
            field="command",
            why="the command is executed as it is, without a shell",
            hint=f"give its path, for example ./{program or 'hello.py'}",
        )
    path = Path(cwd) / program
    if not path.is_file():
        raise SubmitError(f"{path} does not exist" if not path.exists() else f"{path} is not a file", field="command")
    if not os.access(path, os.X_OK):
        raise SubmitError(
            f"{path} is not executable",
            field="command",
            why="the command is executed as it is, without a shell",
            hint=f"chmod +x {path}, or name its interpreter first",
        )
    return str(path)
