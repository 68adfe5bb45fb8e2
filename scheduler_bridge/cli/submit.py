"""``malleable submit``."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from scheduler_bridge.cli.common import CliError, JsonOption, ReachOption, client, culprit, numbers, print_json
from scheduler_bridge.cli.user_files import JobFile
from scheduler_bridge.daemon import ControlClient, Door, JobRequest, SubmitError
from scheduler_bridge.daemon.jobs.template import ENV_INDEX, resolve_program

_OPTIONS = {
    "name": "--name",
    "job_class": "--class",
    "nodes": "--nodes",
    "min_nodes": "--min",
    "max_nodes": "--max",
    "walltime_s": "--walltime",
    "environment": "--env",
    "launch": "--launch",
    "priority": "--priority",
    "grace_s": "--grace",
    "reservation": "--reservation",
    "cwd": "--cwd",
    "output": "--output",
    "errors": "--errors",
    "user": "--user",
}
"""Where the fields of a request come from."""


def submit(
    command: Annotated[list[str], typer.Argument(metavar="JOB.toml | -- COMMAND...", help="Job file, or command.")],
    name: Annotated[str | None, typer.Option("--name", help="Name of the job.", show_default="the program's")] = None,
    job_class: Annotated[
        str | None,
        typer.Option("--class", metavar="rigid|malleable", show_default="malleable with --min or --max, else rigid"),
    ] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", help="Nodes (malleable: wanted).", show_default="1")] = None,
    min_nodes: Annotated[int | None, typer.Option("--min", help="Fewest nodes (malleable).")] = None,
    max_nodes: Annotated[int | None, typer.Option("--max", help="Most nodes (malleable).")] = None,
    walltime_s: Annotated[
        float | None, typer.Option("--walltime", metavar="S", help="Seconds until it is ended.", show_default="3600")
    ] = None,
    env: Annotated[list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="Set a variable.")] = None,
    launch: Annotated[
        str | None, typer.Option("--launch", metavar="auto|mpiexec|direct", help="Start with mpiexec?")
    ] = None,
    hold: Annotated[bool, typer.Option("--hold", help="Keep it back until malleable release.")] = False,
    priority: Annotated[
        int | None, typer.Option("--priority", help="Higher ones are considered first.", show_default="0")
    ] = None,
    after_ok: Annotated[
        str | None, typer.Option("--after-ok", metavar="JOBS", help="Start after these completed, for example 3,5-7.")
    ] = None,
    after_any: Annotated[
        str | None, typer.Option("--after-any", metavar="JOBS", help="Start after these ended, however they did.")
    ] = None,
    requeue: Annotated[bool, typer.Option("--requeue", help="Run it again if a node takes it along.")] = False,
    grace_s: Annotated[
        float | None, typer.Option("--grace", metavar="S", help="Seconds between TERM and KILL.", show_default="2")
    ] = None,
    reservation: Annotated[
        str | None, typer.Option("--reservation", metavar="NAME", help="Run on nodes of this reservation, in its time.")
    ] = None,
    resilient: Annotated[bool, typer.Option("--resilient", help="It goes on if a node is lost.")] = False,
    cwd: Annotated[
        Path | None, typer.Option("--cwd", metavar="DIR", help="Folder in which it runs.", show_default="this one")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="FILE", help="For its output; {job} is its id, {index} its array number."),
    ] = None,
    errors: Annotated[
        str | None, typer.Option("--errors", metavar="FILE", help="For its errors.", show_default="that of its output")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="Whose it is, for limits.", show_default="you")
    ] = None,
    array: Annotated[
        str | None, typer.Option("--array", metavar="0-9", help=f"One job each, with its number in {ENV_INDEX}.")
    ] = None,
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """Submit a job, given as a command after -- or as a TOML file, and print its id.

    Example: malleable submit --min 1 --max 4 -- python -m apgas.benchmarks.pi
    """
    options: dict[str, object] = {
        "name": name,
        "job_class": job_class or ("malleable" if min_nodes is not None or max_nodes is not None else None),
        "nodes": nodes,
        "min_nodes": min_nodes,
        "max_nodes": max_nodes,
        "walltime_s": walltime_s,
        "environment": _variables(env or []) or None,
        "launch": launch,
        "hold": hold or None,
        "priority": priority,
        "after_ok": numbers("--after-ok", after_ok),
        "after_any": numbers("--after-any", after_any),
        "requeue": requeue or None,
        "grace_s": grace_s,
        "reservation": reservation,
        "resilient": resilient or None,
        "cwd": None if cwd is None else str(Path.cwd() / cwd),
        "output": output,
        "errors": errors,
        "user": user,
    }
    given = {key: value for key, value in options.items() if value is not None}
    if len(command) == 1 and command[0].endswith(".toml"):
        if given or array is not None:
            raise CliError("a job file and options", "the job file says it all", f"edit {command[0]}")
        submitted, wanted = _submit_file(Path(command[0]), state)
    else:
        request, wanted = _request(command, given, _own_name(state)), numbers("--array", array)
        submitted = _submitted(client(state), request, wanted)
    if as_json:
        print_json({"job": submitted[0]} if wanted is None else {"jobs": submitted})
    else:
        typer.echo("\n".join(str(job_id) for job_id in submitted))


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


def _request(command: list[str], given: dict[str, object], user: str) -> JobRequest:
    cwd = str(Path.cwd() / str(given.get("cwd", "")))
    words = (resolve_program(command[0], cwd), *command[1:])
    values = {"name": _program(command), "user": user, **given, "command": words, "cwd": cwd}
    try:
        request = msgspec.convert(values, JobRequest)
    except msgspec.ValidationError as error:
        field, what = culprit(error)
        raise CliError(f"{_OPTIONS.get(field, field)}: {what}", hint="see: malleable submit --help") from None
    request.bounds()
    return request


def _variables(words: list[str]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise CliError(f"--env {word}", "a variable is given as NAME=VALUE", "for example --env OMP_NUM_THREADS=1")
        variables[name] = value
    return variables


def _own_name(state: Path | None) -> str:
    """The name of whoever runs this, as the system knows it and no variable says; at a door the scheduler knows."""
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
    return words[0]
