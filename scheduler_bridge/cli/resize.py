"""``malleable resize``."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler_bridge.cli.common import JsonOption, ReachOption, client, print_json
from scheduler_bridge.cli.errors import CliError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(resize)


def resize(
    job: Annotated[int, typer.Argument(min=0, help="Id of the job, as submit printed it.")],
    grow: Annotated[int | None, typer.Option("--grow", min=1, metavar="N", help="Nodes to add.")] = None,
    shrink: Annotated[int | None, typer.Option("--shrink", min=1, metavar="N", help="Nodes to release.")] = None,
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a running malleable job grow or shrink within its bounds, as far as nodes are free.

    Example: malleable resize 3 --shrink 1
    """
    if (grow is None) == (shrink is None):
        raise CliError("resize needs a direction", "a job either grows or shrinks", "give --grow 1 or --shrink 1")
    text = client(state).resize(job, grow if grow is not None else -(shrink or 0))
    if as_json:
        print_json({"job": job, "told": text})
    else:
        typer.echo(text)
