"""``malleable policy``."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler_bridge import policies
from scheduler_bridge.cli.common import JsonOption, ReachOption, client, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(policy)


def policy(
    name: Annotated[str | None, typer.Argument(help="Let this policy decide.", show_default=False)] = None,
    parameters: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the policy.")
    ] = None,
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say which policy decides, or let another one decide from now on.

    Example: malleable policy easy
    """
    if name is None:
        decides = client(state).snapshot().policy
    else:
        client(state).use(name, policies.parse(name, parameters or []))
        decides = name
    if as_json:
        print_json({"policy": decides})
    else:
        typer.echo(decides)
