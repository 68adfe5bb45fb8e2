"""``malleable limits``."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler_bridge.cli.common import JsonOption, ReachOption, client, print_json
from scheduler_bridge.cli.errors import CliError
from scheduler_bridge.live.requests import LimitUsers
from scheduler_bridge.model import wording


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(limits)


def limits(
    user_nodes: Annotated[
        str | None,
        typer.Option("--user-nodes", metavar="N", help="Nodes of one user's jobs together, at most; or none."),
    ] = None,
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what users may have at most, or let another limit hold from now on.

    Example: malleable limits --user-nodes 8
    """
    if user_nodes is not None:
        client(state).manage(LimitUsers(nodes=_count(user_nodes)))
    most = client(state).snapshot().user_nodes
    if as_json:
        print_json({"user_nodes": most})
    else:
        held = "any number of nodes" if most is None else f"{wording.nodes(most)} at most"
        typer.echo(f"the jobs of one user hold {held}")


def _count(text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise CliError(f"--user-nodes {text}: not a number of nodes", "it is 1 to 1000000, or none")
    return int(text)
