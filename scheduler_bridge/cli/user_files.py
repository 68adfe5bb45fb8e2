"""Files of users: job files and configurations, TOML with errors that name the line."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from scheduler_bridge.cli.common import CliError, culprit, numbers
from scheduler_bridge.daemon import JobRequest, SubmitError
from scheduler_bridge.daemon.jobs.template import resolve_program
from scheduler_bridge.model.job import JOB_FILE_KEYS

# TOML files of users, with errors that name the line -----------------------------------------------------------------

_SYNTAX_AT: Final = re.compile(r"\(at line (\d+), column \d+\)")


def read_toml(path: Path, what: str, instead: str) -> tuple[str, dict[str, Any]]:
    """Return the text of ``path`` and its values.

    Args:
        path: The file.
        what: What it is, for errors: "a job file".
        instead: What to do if it cannot be read.

    Raises:
        CliError: It cannot be read or is not TOML.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise CliError(f"{path}: {reason}", hint=instead) from None
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _SYNTAX_AT.search(str(error))
        line = found[1] if found else str(len(text.splitlines()))
        wrong = _SYNTAX_AT.sub("", str(error)).strip()
        raise CliError(f"{path}:{line}: {wrong}", f"{what} is TOML", "for example: nodes = 2") from None


def line_of(text: str, key: str) -> int:
    """Return the line on which ``key`` is set, 1 if it is not found."""
    form = re.compile(rf"\s*\[?[\"']?{re.escape(key)}[\"']?\s*[=.\]]") if key else None
    for number, line in enumerate(text.splitlines(), start=1):
        if form is not None and form.match(line):
            return number
    return 1


# The configuration of a scheduler: TOML, with errors that name the line ----------------------------------------------

NodeName = Annotated[str, Meta(min_length=1, max_length=255)]


class Web(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the live page is served."""

    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    host: str = "127.0.0.1"


class V1(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where lines of protocol v1's administrators are taken, and the folder of the job scripts that they may name."""

    scripts: str
    port: Annotated[int, Meta(ge=0, le=65535)] = 8081
    host: str = "127.0.0.1"


class Health(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How hosts are looked at; see ``scheduler_bridge.backends.hosts.Rules``."""

    every_s: Annotated[float, Meta(gt=0)] = 15.0
    deadline_s: Annotated[float, Meta(gt=0)] = 10.0
    failures: Annotated[int, Meta(ge=1)] = 3


class ServeFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"parameters": "set"}):
    """What a configuration may say; what it leaves out is as without it.

    Attributes:
        nodes: How many emulated nodes, or their names.
        hosts: The file of hosts whose nodes they are, instead; as seen from this file.
        launcher: How hosts are reached.
        health: How they are looked at (``[health]``).
        policy: Name of the policy.
        parameters: Its parameters (``[set]``).
        cores: Cores of each node, for policies that let jobs share nodes.
        bind_cores: Whether jobs compute on their cores of a node only.
        state: The state folder; as seen from the file.
        host: Address at which jobs reach the scheduler.
        resize_deadline_s: Seconds for a job to carry an order out.
        grace_s: Seconds between TERM and KILL when a job is ended.
        mpiexec: The MPI launcher.
        user_jobs: How many jobs of one user wait and run at most; further ones are kept back.
        user_nodes: How many nodes the jobs of one user hold together at most; further jobs wait.
        pass_interval_s: Decide at least this often, besides at events; 0: at events only.
        cooldown_s: A job takes no order for this long after a resize.
        walltime_grace_s: A job is ended this long after its walltime.
        doors: Where users come in who are not the scheduler's own: unix:PATH.
        web: Where the live page is served (``[web]``).
        v1: Protocol v1's lines for administrators (``[v1]``).
    """

    nodes: Annotated[int, Meta(ge=1, le=100_000)] | tuple[NodeName, ...] | None = None
    hosts: str | None = None
    launcher: str | None = None
    health: Health = Health()
    policy: str | None = None
    parameters: dict[str, Any] = {}
    cores: Annotated[int, Meta(ge=1, le=1024)] | None = None
    bind_cores: bool = False
    state: str | None = None
    host: str | None = None
    resize_deadline_s: Annotated[float, Meta(gt=0)] | None = None
    grace_s: Annotated[float, Meta(ge=0)] | None = None
    mpiexec: str | None = None
    user_jobs: Annotated[int, Meta(ge=1)] | None = None
    user_nodes: Annotated[int, Meta(ge=1)] | None = None
    pass_interval_s: Annotated[float, Meta(ge=0)] | None = None
    cooldown_s: Annotated[float, Meta(ge=0)] | None = None
    walltime_grace_s: Annotated[float, Meta(ge=0)] | None = None
    doors: tuple[str, ...] = ()
    web: Web | None = None
    v1: V1 | None = None


def read_config(path: Path) -> ServeFile:
    """Read a configuration.

    Raises:
        CliError: It cannot be read, or says something that it may not; the text names the line.
    """
    text, values = read_toml(path, "a configuration", "give a configuration, or --nodes 4")
    known = {field.encode_name for field in msgspec.structs.fields(ServeFile)}
    for key in values:
        if key not in known:
            raise CliError(
                f"{path}:{line_of(text, key)}: unknown key {key!r}", f"a configuration has {', '.join(sorted(known))}"
            )
    try:
        return msgspec.convert(values, ServeFile)
    except msgspec.ValidationError as error:
        field, what = culprit(error)
        raise CliError(f"{path}:{line_of(text, field)}: {field}: {what}", hint="see: malleable serve --help") from None


# Job files: TOML, with errors that name the line ---------------------------------------------------------------------

_FIELDS: Final = {"class": "job_class", "env": "environment"}
"""Keys of the file that are named otherwise in a request."""
_ASIDE: Final = ("array",)
"""Keys that are not part of the request for one job."""
_REQUIRED: Final = ("command",)


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file that was read."""

    path: Path
    text: str
    values: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> JobFile:
        """Read ``path``.

        Raises:
            CliError: It cannot be read, is not TOML, or has an unknown or lacks a required key.
        """
        text, values = read_toml(path, "a job file", "give a job file, or a command after --")
        file = cls(path, text, values)
        for key in values:
            if key not in JOB_FILE_KEYS:
                raise file.error(
                    key, f"unknown key {key!r}", f"a job file has {', '.join(JOB_FILE_KEYS)}", "remove or rename it"
                )
        for key in _REQUIRED:
            if key not in values:
                raise file.error(key, f"{key} is missing", "a job needs it", 'add: command = ["python", "hello.py"]')
        return file

    def request(self, *, user: str, cwd: str) -> JobRequest:
        """Return the request; relative folders are seen from ``cwd``.

        Raises:
            CliError: A value is wrong; the text names its line.
        """
        values = {_FIELDS.get(key, key): value for key, value in self.values.items() if key not in _ASIDE}
        if "job_class" not in values and ("min_nodes" in values or "max_nodes" in values):
            values["job_class"] = "malleable"
        values["cwd"] = str(Path(cwd) / str(values.get("cwd", "")))
        values.setdefault("user", user)
        values.setdefault("name", self.path.stem)
        try:
            request = msgspec.convert(values, JobRequest)
        except msgspec.ValidationError as error:
            field, what = culprit(error)
            raise self.error(field, f"{_key_of(field)}: {what}", hint="see: malleable submit --help") from None
        try:
            request.bounds()
            program = resolve_program(request.command[0], request.cwd)
        except SubmitError as error:
            raise self.error(error.field, str(error), error.why, error.hint) from None
        return msgspec.structs.replace(request, command=(program, *request.command[1:]))

    def array(self) -> tuple[int, ...] | None:
        """Return the numbers of the jobs if the file is one of an array.

        Raises:
            CliError: They are no numbers.
        """
        wanted = self.values.get("array")
        if wanted is None:
            return None
        if not isinstance(wanted, str):
            raise self.error("array", "array: numbers are given as text", "it may hold spans", 'for example: "0-9"')
        try:
            return numbers("array", wanted)
        except CliError as error:
            raise self.error("array", str(error), error.why, error.hint) from None

    def error(self, field: str, what: str, why: str = "", hint: str = "") -> CliError:
        """Return an error about ``field`` (a key of the file or a field of the request), with its line."""
        return CliError(f"{self.path}:{line_of(self.text, _key_of(field))}: {what}", why, hint)


def _key_of(field: str) -> str:
    return next((key for key, name in _FIELDS.items() if name == field), field)
