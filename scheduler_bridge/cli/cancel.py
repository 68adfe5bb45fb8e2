"""``malleable cancel``."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler_bridge.cli.common import JsonOption, ReachOption, client, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(cancel)


def cancel(
    job: Annotated[int, typer.Argument(min=0, help="Id of the job, as submit printed it.")],
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a job, whether it waits or runs.

    Example: malleable cancel 3
    """
    client(state).cancel(job)
    if as_json:
        print_json({"job": job, "cancelled": True})
