"""``malleable policies``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from scheduler_bridge.cli import own_policy
from scheduler_bridge.cli.common import JsonOption, print_json, print_rich
from scheduler_bridge.cli.own_policy import LoadOption
from scheduler_bridge.policies import describe, names


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(policies)


def policies(
    name: Annotated[str | None, typer.Argument(help="Describe this policy fully.", show_default=False)] = None,
    load: LoadOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the scheduling policies, their parameters and sources.

    Example: malleable policies malleable
    """
    own_policy.load(load)
    infos = [describe(policy) for policy in ([name] if name is not None else names())]
    if as_json:
        print_json(
            [
                {
                    "name": info.name,
                    "summary": info.summary,
                    "description": info.description,
                    "source": info.source,
                    "parameters": {key: repr(value) for key, value in info.parameters.items()},
                    "pass_interval_s": info.pass_interval_s,
                    "cooldown_s": info.cooldown_s,
                }
                for info in infos
            ]
        )
    elif name is not None:
        typer.echo(infos[0].description)
    else:
        table = Table(box=None, pad_edge=False)
        for head in ("POLICY", "WHAT IT DOES, AND FROM WHERE IT IS"):
            table.add_column(head)
        for info in infos:
            table.add_row(Text(info.name), Text(info.summary))
            if info.parameters:
                parameters = " ".join(f"{key}={value}" for key, value in info.parameters.items())
                table.add_row("", Text(f"  parameters: {parameters}"))
            table.add_row("", Text(f"  source: {info.source}", style="dim"))
        print_rich(table)
