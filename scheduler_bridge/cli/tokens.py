"""``malleable tokens``: ``add``, ``remove``, ``list``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from scheduler_bridge.cli.common import JsonOption, StateOption, print_json, print_rich, state_folder
from scheduler_bridge.live.access import Tokens

commands = typer.Typer(
    help="Say who may come in at a door of TCP (serve --door).",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
UserArgument = Annotated[str, typer.Argument(metavar="NAME", help="Of the user, as jobs are kept for it.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="tokens")


@commands.command()
def add(
    user: UserArgument,
    operator: Annotated[bool, typer.Option("--operator", help="May do everything, not only with own jobs.")] = False,
    state: StateOption = None,
) -> None:
    """Make a token for a user and print it; it is shown this once, and an earlier one is void.

    Example: malleable tokens add anna > anna.token
    """
    typer.echo(Tokens(state_folder(state)).add(user, operator=operator))


@commands.command()
def remove(user: UserArgument, state: StateOption = None) -> None:
    """Make a user's token void.

    Example: malleable tokens remove anna
    """
    Tokens(state_folder(state)).remove(user)


@commands.command("list")
def list_(state: StateOption = None, as_json: JsonOption = False) -> None:
    """Show who has a token.

    Example: malleable tokens list
    """
    holders = Tokens(state_folder(state)).holders()
    if as_json:
        print_json([{"user": user, "operator": holder.operator} for user, holder in holders.items()])
        return
    table = Table("USER", "MAY", box=None, pad_edge=False)
    for user, holder in sorted(holders.items()):
        table.add_row(user, "everything" if holder.operator else "what concerns own jobs")
    print_rich(table)
