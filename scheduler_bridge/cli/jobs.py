"""What users do with their jobs: submit, explain, hold, release, prioritise, cancel and resize them."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from scheduler_bridge.cli import options
from scheduler_bridge.cli.common import (
    CliError,
    GrowOption,
    Outcome,
    ReachOption,
    ShrinkOption,
    client,
    culprit,
    direction,
)
from scheduler_bridge.cli.inputs import line_of, read_numbers, read_toml
from scheduler_bridge.cli.options import SAID, option
from scheduler_bridge.cli.results import explained
from scheduler_bridge.daemon import ControlClient, ControlError, Door, JobRequest, RefusedError, SubmitError
from scheduler_bridge.daemon.jobs.template import resolve_program
from scheduler_bridge.daemon.requests import ENV_INDEX, Hold, Prioritise
from scheduler_bridge.model.job import JOB_FILE_KEYS

JobArgument = Annotated[int, typer.Argument(min=0, help="Id of the job, as submit printed it.")]
JobsArgument = Annotated[
    str, typer.Argument(metavar="JOBS", help="Ids of jobs, as submit printed them: 3, or several like 3,5-7.")
]


# ``malleable submit`` -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SubmitOptions:
    """What a request says, by its names for it."""

    name: str | None = option(None, "--name", "Name of the job.", show_default="the program's")
    job_class: str | None = option(
        None, "--class", metavar="rigid|malleable", show_default="malleable with --min or --max, else rigid"
    )
    nodes: int | None = option(None, "--nodes", "Nodes (malleable: wanted).", show_default="1")
    min_nodes: int | None = option(None, "--min", "Fewest nodes (malleable).")
    max_nodes: int | None = option(None, "--max", "Most nodes (malleable).")
    walltime_s: float | None = options.seconds(
        None, "--walltime", "Until it is ended.", max=31_536_000, show_default="3600"
    )
    environment: list[str] = option([], "--env", "Set a variable.", "NAME=VALUE")
    launch: str | None = option(None, "--launch", "Start with mpiexec?", "auto|mpiexec|direct")
    hold: bool = option(False, "--hold", "Keep it back until malleable release.")
    priority: int | None = option(None, "--priority", "Higher ones are considered first.", show_default="0")
    after_ok: str | None = option(None, "--after-ok", "Start after these completed, for example 3,5-7.", "JOBS")
    after_any: str | None = option(None, "--after-any", "Start after these ended, however they did.", "JOBS")
    requeue: bool = option(False, "--requeue", "Run it again if a node takes it along.")
    grace_s: float | None = options.seconds(None, "--grace", "Between TERM and KILL.", max=3600, show_default="2")
    reservation: str | None = option(None, "--reservation", "Run on nodes of this reservation, in its time.", "NAME")
    resilient: bool = option(False, "--resilient", "It goes on if a node is lost.")
    cwd: str | None = options.folder(None, "--cwd", "Folder in which it runs.", show_default="this one")
    output: str | None = options.file(None, "--output", "For its output; {job} is its id, {index} its array number.")
    errors: str | None = options.file(None, "--errors", "For its errors.", show_default="that of its output")
    user: str | None = option(None, "--user", "Whose it is, for limits.", "NAME", show_default="you")

    def given(self) -> dict[str, Any]:
        """What is asked for, of which options give some in words."""
        said = asdict(self).items()
        values = {name: value for name, value in said if value is not None and value is not False and value != []}
        if "environment" in values:
            values["environment"] = _variables(values["environment"])
        for name in ("after_ok", "after_any"):
            if name in values:
                values[name] = read_numbers(_option(name), values[name])
        return values


def submit(
    command: Annotated[list[str], typer.Argument(metavar="JOB.toml | -- COMMAND...", help="Job file, or command.")],
    job: SubmitOptions,
    array: str | None = option(None, "--array", f"One job each, with its number in {ENV_INDEX}.", "0-9"),
    state: ReachOption = None,
) -> Outcome:
    """Submit a job, given as a command after -- or as a TOML file, and print its id.

    Example: malleable submit --min 1 --max 4 -- python -m apgas.benchmarks.pi
    """
    given = job.given()
    if len(command) == 1 and command[0].endswith(".toml"):
        if given or array is not None:
            raise CliError("a job file and options", "the job file says it all", f"edit {command[0]}")
        submitted, wanted = _submit_file(Path(command[0]), state)
    else:
        values = {"name": _program(command), "user": _own_name(state), **given, "command": command}
        request = _request(values, str(Path.cwd()), _option)
        wanted = read_numbers("--array", array)
        submitted = _submitted(client(state), request, wanted)
    return Outcome({"job": submitted[0]} if wanted is None else {"jobs": submitted}, map(str, submitted))


def _request(values: dict[str, Any], cwd: str, place: Callable[[str], str]) -> JobRequest:
    """Return the request of these fields, of which ``place`` says where one was given.

    Raises:
        SubmitError: The values contradict each other, or the command is no program.
    """
    values = {**values, "cwd": str(Path(cwd) / str(values.get("cwd", "")))}
    if "min_nodes" in values or "max_nodes" in values:
        values.setdefault("job_class", "malleable")
    try:
        request = msgspec.convert(values, JobRequest)
    except msgspec.ValidationError as error:
        field, what = culprit(error)
        raise CliError(f"{place(field)}: {what}", hint="see: malleable submit --help") from None
    request.bounds()
    program = resolve_program(request.command[0], request.cwd)
    return msgspec.structs.replace(request, command=(program, *request.command[1:]))


def _submit_file(path: Path, state: Path | None) -> tuple[list[int], tuple[int, ...] | None]:
    """Submit what a job file says; return the ids, and the numbers if it is an array."""
    file = JobFile.read(path)
    request, wanted = file.request(user=_own_name(state), cwd=str(Path.cwd())), file.array()
    try:
        return _submitted(client(state), request, wanted), wanted
    except SubmitError as error:
        raise file.error(error.field, str(error), error.why, error.hint) from None


def _submitted(scheduler: ControlClient, request: JobRequest, array: tuple[int, ...] | None) -> list[int]:
    return [scheduler.submit(request)] if array is None else scheduler.submit_array(request, array)


def _option(field: str) -> str:
    """The option that a field is given by, or the field where there is none."""
    # typer keeps a name there, until it makes an option of it
    names: dict[str, str] = {each.name: each.metadata[SAID].default for each in fields(SubmitOptions)}
    return names.get(field, field)


def _variables(words: list[str]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise CliError(f"--env {word}", "a variable is given as NAME=VALUE", "for example --env OMP_NUM_THREADS=1")
        variables[name] = value
    return variables


def _own_name(state: Path | None) -> str:
    """The name of the user, as the system knows it and no variable says; at a door the scheduler knows it."""
    if state is not None and Door.is_meant(str(state)):
        return ""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # No such user in the container.
        return ""


def _program(command: Sequence[str]) -> str:
    """What people call the job: the module or script that an interpreter runs, else the program."""
    words = [Path(word).name for word in command]
    if words[0].startswith("python") and len(words) > 1:
        if words[1] == "-m" and len(words) > 2:
            return words[2].rpartition(".")[2] or words[2]
        if words[1].endswith(".py"):
            return words[1].removesuffix(".py")
    return words[0] or "job"  # what has no name is no program, which is said of the command


# Job files: TOML, with errors that name the line ----------------------------------------------------------------------

_FIELDS: Final = {"class": "job_class", "env": "environment"}
"""Keys of the file that are named otherwise in a request."""


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file that was read."""

    path: Path
    text: str
    values: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> JobFile:
        """Read ``path``."""
        text, values = read_toml(path, "a job file", "give a job file, or a command after --")
        file = cls(path, text, values)
        for key in values:
            if key not in JOB_FILE_KEYS:
                raise file.error(
                    key, f"unknown key {key!r}", f"a job file has {', '.join(JOB_FILE_KEYS)}", "remove or rename it"
                )
        if "command" not in values:
            hint = 'add: command = ["python", "hello.py"]'
            raise file.error("command", "command is missing", "a job needs it", hint)
        return file

    def request(self, *, user: str, cwd: str) -> JobRequest:
        """Return the request; relative folders are seen from ``cwd``."""
        values = {_FIELDS.get(key, key): value for key, value in self.values.items() if key != "array"}
        try:
            return _request({"name": self.path.stem, "user": user, **values}, cwd, self._place)
        except SubmitError as error:
            raise self.error(error.field, str(error), error.why, error.hint) from None

    def array(self) -> tuple[int, ...] | None:
        """Return the numbers of the jobs if the file is one of an array."""
        wanted = self.values.get("array")
        if wanted is None:
            return None
        if not isinstance(wanted, str):
            raise self.error("array", "array: numbers are given as text", "it may hold spans", 'for example: "0-9"')
        try:
            return read_numbers("array", wanted)
        except CliError as error:
            raise self.error("array", str(error), error.why, error.hint) from None

    def error(self, field: str, what: str, why: str = "", hint: str = "") -> CliError:
        """Return an error about ``field`` (a key of the file or a field of the request), with its line."""
        return CliError(f"{self._line(_key_of(field))}: {what}", why, hint)

    def _place(self, field: str) -> str:
        key = _key_of(field)
        return f"{self._line(key)}: {key}"

    def _line(self, key: str) -> str:
        return f"{self.path}:{line_of(self.text, key)}"


def _key_of(field: str) -> str:
    return next((key for key, name in _FIELDS.items() if name == field), field)


# ``malleable explain`` -----------------------------------------------------------------------------------------------


def explain(job: JobArgument, state: ReachOption = None) -> Outcome:
    """Say why a job waits, why it was resized and for whom, and what was decided about it before.

    Example: malleable explain 3
    """
    explanation = client(state).explain(job)
    return Outcome(explanation, explained(explanation))


# ``malleable hold``, ``malleable release`` and ``malleable priority`` ------------------------------------------------


def _each(command: str, jobs: str, act: Callable[[int], dict[str, Any]], *, last_first: bool) -> Outcome:
    """Have something done to each of some jobs; its outcome is what ``act`` returns of them.

    Args:
        command: That asks for it.
        jobs: Their numbers.
        act: What is done.
        last_first: Begin with the last job, so that none starts, or is cancelled, because one before it is gone.

    Raises:
        ControlError: It was not done to any of them, for reasons that the text says; or there is no scheduler.
    """
    done: list[dict[str, Any]] = []
    refused: dict[int, RefusedError] = {}
    for job in sorted(set(read_numbers(f"malleable {command}", jobs) or ()), reverse=last_first):
        try:
            done.append({"job": job, **act(job)})
        except RefusedError as error:
            refused[job] = error
    done.sort(key=itemgetter("job"))
    reasons = [refused[job] for job in sorted(refused)]
    failure = ControlError("\n".join(map(str, reasons)), reasons[0].hint) if reasons else None
    if failure is not None and not done:
        raise failure
    texts = [each["done"] for each in done if "done" in each]
    return Outcome(done[0] if jobs.isdecimal() else done, texts, failure)


def hold(
    jobs: JobsArgument,
    as_user: bool = option(
        False, "--as-user", "Let its user release it, too; else only operators can, if one holds it."
    ),
    state: ReachOption = None,
) -> Outcome:
    """Keep waiting jobs from starting until they are released.

    Example: malleable hold 3
    """
    manage = client(state).manage
    return _each("hold", jobs, lambda job: {"done": manage(Hold(job=job, as_user=as_user))}, last_first=True)


def release(jobs: JobsArgument, state: ReachOption = None) -> Outcome:
    """Let held jobs start again, when it is their turn. What an operator holds only operators release.

    Example: malleable release 3
    """
    manage = client(state).manage
    return _each("release", jobs, lambda job: {"done": manage(Hold(job=job, held=False))}, last_first=False)


def priority(
    job: JobArgument,
    value: Annotated[int, typer.Argument(min=-1_000_000, max=1_000_000, help="Higher ones come first; 0 is usual.")],
    state: ReachOption = None,
) -> Outcome:
    """Have a waiting job considered before those with a lower priority.

    Example: malleable priority 3 10
    """
    text = client(state).manage(Prioritise(job=job, priority=value))
    return Outcome({"job": job, "done": text}, [text])


# ``malleable cancel`` ------------------------------------------------------------------------------------------------


def cancel(jobs: JobsArgument, state: ReachOption = None) -> Outcome:
    """End jobs, whether they wait or run.

    Example: malleable cancel 3,5-7
    """
    scheduler = client(state)

    def end(job: int) -> dict[str, Any]:
        scheduler.cancel(job)
        return {"cancelled": True}

    return _each("cancel", jobs, end, last_first=True)


# ``malleable resize`` ------------------------------------------------------------------------------------------------


def resize(
    job: JobArgument,
    grow: GrowOption = None,
    shrink: ShrinkOption = None,
    state: ReachOption = None,
) -> Outcome:
    """Have a running malleable job grow or shrink within its bounds, as far as nodes are free.

    Example: malleable resize 3 --shrink 1
    """
    text = client(state).resize(job, direction(grow, shrink))
    return Outcome({"job": job, "order": text}, [text])
