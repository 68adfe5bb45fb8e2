"""``malleable submit``."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from scheduler_bridge.cli.common import JsonOption, StateOption, client, print_json
from scheduler_bridge.cli.errors import CliError, culprit
from scheduler_bridge.cli.jobfile import JobFile
from scheduler_bridge.live import JobRequest, SubmitError
from scheduler_bridge.live.template import resolve_program

_OPTIONS = {
    "name": "--name",
    "job_class": "--class",
    "nodes": "--nodes",
    "min_nodes": "--min",
    "max_nodes": "--max",
    "walltime_s": "--walltime",
    "environment": "--env",
    "launch": "--launch",
}
"""Where the fields of a request come from."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(submit)


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
    state: StateOption = None,
    as_json: JsonOption = False,
) -> None:
    """Submit a job, given as a command after -- or as a TOML file, and print its id.

    Example: malleable submit --min 1 --max 4 -- python -m benchmarks.pi
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
    }
    given = {key: value for key, value in options.items() if value is not None}
    if len(command) == 1 and command[0].endswith(".toml"):
        if given:
            raise CliError("a job file and options", "the job file says it all", f"edit {command[0]}")
        job_id = _submit_file(Path(command[0]), state)
    else:
        job_id = client(state).submit(_request(command, given))
    if as_json:
        print_json({"job": job_id})
    else:
        typer.echo(job_id)


def _submit_file(path: Path, state: Path | None) -> int:
    file = JobFile.read(path)
    request = file.request(user=_user(), cwd=str(Path.cwd()))
    try:
        return client(state).submit(request)
    except SubmitError as error:
        raise file.error(error.field, str(error), error.why, error.hint) from None


def _request(command: list[str], given: dict[str, object]) -> JobRequest:
    cwd = str(Path.cwd())
    words = (resolve_program(command[0], cwd), *command[1:])
    values = {"name": _program(command), **given, "command": words, "cwd": cwd, "user": _user()}
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


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # No such user in the container.
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
