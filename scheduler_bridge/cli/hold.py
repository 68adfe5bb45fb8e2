"""``malleable hold``, ``malleable release`` and ``malleable priority``."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler_bridge.cli.common import JsonOption, ReachOption, client, print_json
from scheduler_bridge.live.requests import Hold, Prioritise

JobArgument = Annotated[int, typer.Argument(min=0, help="Id of the job, as submit printed it.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (hold, release, priority):
        app.command()(command)


def hold(
    job: JobArgument,
    as_user: Annotated[
        bool, typer.Option("--as-user", help="Let its user release it, too; else only operators can, if one holds it.")
    ] = False,
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep a waiting job from starting until it is released.

    Example: malleable hold 3
    """
    _told(client(state).manage(Hold(job=job, as_user=as_user)), job, as_json=as_json)


def release(job: JobArgument, state: ReachOption = None, as_json: JsonOption = False) -> None:
    """Let a held job start again, when it is its turn. What an operator holds only operators release.

    Example: malleable release 3
    """
    _told(client(state).manage(Hold(job=job, held=False)), job, as_json=as_json)


def priority(
    job: JobArgument,
    value: Annotated[int, typer.Argument(min=-1_000_000, max=1_000_000, help="Higher ones come first; 0 is usual.")],
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a waiting job considered before those with a lower priority.

    Example: malleable priority 3 10
    """
    _told(client(state).manage(Prioritise(job=job, priority=value)), job, as_json=as_json)


def _told(text: str, job: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"job": job, "done": text})
    else:
        typer.echo(text)
