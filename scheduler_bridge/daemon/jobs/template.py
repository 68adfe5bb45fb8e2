"""Makes of a request what is executed: the command, the jobs of an array, the files of output and result."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler_bridge.daemon.config import EMULATED, DaemonConfig, DaemonError
from scheduler_bridge.daemon.requests import ENV_INDEX, JobRequest, SubmitError, is_resilient
from scheduler_bridge.daemon.storage.state import StateFolder
from scheduler_bridge.printable import lines_of

_logger = logging.getLogger(__name__)

_PLACES_PER_NODE = "APGAS_PLACES_PER_NODE"
_LONG_PATH: Final = 200
_LAUNCHERS = frozenset({"mpiexec", "mpirun", "mpiexec.hydra", "srun", "prun"})
_OWN_LAUNCHERS = frozenset({("-m", "apgas.launch"), ("-m", "apgas.survive")})


def lookup_environment(reach: str) -> dict[str, str]:
    """Variables by which a launcher that reaches nodes so looks their names up.

    MPICH's looks every node up, also one that this machine only emulates and that no name server knows. One that drops
    a question, as some do where many come at once, would cost the glibc's 5 s and a second question for each.
    """
    return {"RES_OPTIONS": "timeout:1 attempts:1"} if reach == EMULATED else {}


def find_mpiexec(configured: Path | None = None) -> Path:
    """Return the launcher: the configured one, or the one installed beside this Python.

    Another MPI's launcher, first in PATH, would start separate worlds of one place each; so PATH is not asked.

    Raises:
        DaemonError: There is none.
    """
    path = configured if configured is not None else Path(sys.prefix) / "bin" / "mpiexec"
    if not os.access(path, os.X_OK):
        install = "install one beside this Python: pip install 'mpich==5.0.*'"
        hint = install if configured is None else "give another --mpiexec, or none"
        raise DaemonError(f"there is no MPI launcher at {path}", hint)
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


def starts_mpiexec(request: JobRequest, config: DaemonConfig) -> bool:
    """Whether mpiexec is to be prepended, and not ``apgas.launch``."""
    return wants_launcher(request) and (config.mpiexec is not None or request.launch == "mpiexec")


def _names_launcher(request: JobRequest) -> bool:
    words = request.command
    return Path(words[0]).name in _LAUNCHERS or not _OWN_LAUNCHERS.isdisjoint(pairwise(words))


def launch_command(
    request: JobRequest,
    nodes: tuple[str, ...],
    launcher: Sequence[str],
    cores: int = 1,
    core_ids: str = "",
    gate: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the words to execute for ``request`` on ``nodes``; place 0 is on the first node.

    ``launcher`` stands before the nodes if it is wanted; the job may use ``cores`` of each, ``core_ids``. ``gate`` are
    those of what stands before the command of a v1 job (``gate_words``).

    If the job's environment says how many places share a node, each node gets as many.
    """
    per_node = int(request.environment.get(_PLACES_PER_NODE) or "1")
    hosts = ",".join(nodes if per_node == 1 else (f"{node}:{per_node}" for node in nodes))
    count = str(len(nodes) * per_node)
    stands_for = {"{hosts}": hosts, "{count}": count, "{cores}": str(max(1, cores // per_node)), "{core_ids}": core_ids}
    if request.protocol == "v1":
        del stands_for["{hosts}"]  # The gate knows what v1 calls them.
    words = tuple(_filled(word, stands_for) for word in request.command)
    if request.protocol == "v1":
        gated = (*gate, "--nodes", ",".join(nodes), "--job-class", request.job_class, "--", *words)
        # A job is one process of the first node for its launcher: it starts the others itself.
        return (*launcher, nodes[0], "-n", "1", *gated) if launcher else gated
    if not wants_launcher(request):
        return words
    return (*launcher, hosts, "-n", count, *words)


def mpiexec_words(request: JobRequest, mpiexec: Path, reach: str) -> tuple[str, ...]:
    """Return the words of mpiexec before the names of the nodes; ``reach`` is as for ``DaemonConfig``."""
    launcher: tuple[str, ...] = (str(mpiexec),)
    if is_resilient(request):
        launcher = (sys.executable, "-m", "apgas.survive", "--mpiexec", str(mpiexec))
    options = ("fork",) if reach == EMULATED else ("ssh", "-launcher-exec", reach)
    return (*launcher, "-launcher", *options, "-hosts")


def gate_words(config: DaemonConfig) -> tuple[str, ...]:
    """Return the words of the gate that stands between the scheduler and a v1 job."""
    emulated = ("--emulated",) if config.reach == EMULATED else ()
    deadline = f"{config.resize_deadline_s:g}"
    return (sys.executable, "-P", "-m", "apgas.malleability.v1.gate", "--deadline", deadline, *emulated)


def own_words(grace_s: float, reach: str, books: Path) -> tuple[str, ...]:
    """Return the same of the launcher that no other user reaches; ``grace_s`` is as for ``Launch``.

    ``books``: where a program keeps what it goes on with when it is started again. The launcher leaves that to us:
    while nodes move, only the scheduler knows which of them are the job's. It starts it when nothing of it is left.
    """
    # -E and -P: the paths of the job, and the folder in which it runs, may hold modules of any name
    launcher = (sys.executable, "-EP", "-m", "apgas.launch", "--launcher", shlex.quote(reach))
    return (*launcher, "--as-is", "--grace", f"{grace_s:g}", "--books", str(books), "--by-caller", "--hosts")


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
    with _looked_at("cwd"):
        if request.cwd and not Path(request.cwd).is_dir():
            raise SubmitError(f"{request.cwd} is not a folder", field="cwd", hint="submit from a folder that exists")
    with _looked_at("command"):
        resolve_program(request.command[0], request.cwd or str(Path.cwd()))
    check_outputs(request)


@contextlib.contextmanager
def _looked_at(field: str) -> Iterator[None]:
    """Refuse the request for a path that the system does not even look at: it is too long, or behind a closed door."""
    try:
        yield
    except OSError as error:
        path = str(error.filename)
        named = path if len(path) <= _LONG_PATH else f"{path[:_LONG_PATH]}... ({len(path):,} characters)"
        raise SubmitError(f"{named}: {error.strerror}", field=field) from None


def _check_places(request: JobRequest) -> None:
    text = request.environment.get(_PLACES_PER_NODE) or "1"
    if not re.fullmatch("0*[1-9][0-9]{0,5}", text):
        raise SubmitError(
            f"{_PLACES_PER_NODE} is {text[:40]!r}", field="environment", hint="give a number of 1 to 999999"
        )


def _check_texts(request: JobRequest) -> None:
    """See that the system can take the request's texts, and that its names fit into one line."""
    for field, text in (("name", request.name), ("user", request.user), ("reservation", request.reservation)):
        if not text.isprintable():
            raise SubmitError(
                f"the {field} {text!r} cannot be printed", field=field, hint=f"give a {field} of one line"
            )
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


# Output, to the state folder or to files that the user names, and results --------------------------------------------
#
# A job may write a JSON object into the file that ``MALLEABLE_RESULT`` names: ``result`` (a number, a text, or an
# object of such), ``verified`` (whether the job has found it right), ``error``. The record takes these.

_JOB, _INDEX = "{job}", "{index}"
ENV_RESULT: Final = "MALLEABLE_RESULT"
_TAKEN: Final = ("result", "verified", "error", "benchmark", "parameters", "seconds")
_MOST_BYTES: Final = 1 << 20
_MOST_KEPT_BYTES: Final = 4096
"""Of a document; the log keeps one for each job, for ever."""


def output_files(request: JobRequest, job_id: int, folder: StateFolder) -> tuple[Path, Path]:
    """Return the files for a job's standard output and standard error; they may be the same."""
    output = _path_of(request, request.output, job_id) if request.output else folder.output(job_id)
    if request.errors:
        return output, _path_of(request, request.errors, job_id)
    return output, output if request.output else folder.errors(job_id)


def result_of(key: str, folder: StateFolder) -> dict[str, Any] | None:
    """Read what an attempt has found out, as far as the record takes it; None: it wrote nothing that can be read.

    What a job has put there may be anything: a pipe must not hold the scheduler up, a link must not lead elsewhere. The
    log says what is not taken.
    """
    found: dict[str, Any] | None = None
    wrong: list[str] = []
    try:
        found = _read_result(folder.result(key))
    except FileNotFoundError:
        return None
    except OSError as error:
        wrong.append(f"it cannot be read: {error.strerror}")
    except RecursionError:
        wrong.append("it is nested too deeply")
    except ValueError as error:
        wrong.append(str(error))
    if found is not None and not isinstance(found.get("verified"), bool | None):
        del found["verified"]
        wrong.append("its verified is none of true, false and null")
    if found is not None and (size := len(msgspec.json.encode(found))) > _MOST_KEPT_BYTES:
        found = {name: found[name] for name in ("verified",) if name in found}
        wrong.append(f"it has {size} bytes, {_MOST_KEPT_BYTES} are kept: all but its verified is left out")
    if wrong:
        what = "the result of job {} (attempt {})".format(*key.split("."))
        _logger.warning("%s is not taken as it is: %s", what, "; ".join(wrong))
    return found


def _read_result(path: Path) -> dict[str, Any]:
    """Return those parts of the JSON object in a file that are taken.

    Raises:
        ValueError: It is none.
    """
    flags = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(path, "rb", opener=lambda name, how: os.open(name, how | flags)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise ValueError(f"the file has more than {_MOST_BYTES} bytes")
    try:
        document = msgspec.json.decode(text)
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    found: dict[str, Any] = lines_of({name: document[name] for name in _TAKEN if name in document})
    return found


def check_outputs(request: JobRequest) -> None:
    """See that a job's output could be written where its user wants it.

    Raises:
        SubmitError: There is no such folder, nothing may be written there, or there is a folder of that name.
    """
    for field, text in (("output", request.output), ("errors", request.errors)):
        if not text:
            continue
        if request.environment.get(ENV_INDEX) and _JOB not in text and _INDEX not in text:
            raise SubmitError(
                f"{text} would be written by every job of the array",
                field=field,
                hint=f"put {_INDEX} (its number) or {_JOB} (its id) into the name",
            )
        with _looked_at(field):
            _check_output(field, _path_of(request, text, 0))


def _check_output(field: str, path: Path) -> None:
    if not path.parent.is_dir():
        raise SubmitError(f"{path.parent} is not a folder", field=field, hint=f"mkdir -p {path.parent}")
    if path.is_dir():
        raise SubmitError(f"{path} is a folder", field=field, hint=f"name a file in it, such as {path / _JOB}.out")
    if path.exists() and not path.is_file() and str(path) != os.devnull:
        raise SubmitError(f"{path} is no regular file", field=field, hint="name a file, for the job would wait at it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise SubmitError(f"{path} may not be written", field=field, hint="name a file that may be")


def _path_of(request: JobRequest, text: str, job_id: int) -> Path:
    """Return a file as seen from the job's folder."""
    name = text.replace(_JOB, str(job_id)).replace(_INDEX, request.environment.get(ENV_INDEX, ""))
    return Path(request.cwd or Path.cwd()) / name
