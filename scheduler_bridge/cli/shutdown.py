"""``malleable shutdown``."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler_bridge.cli.common import ReachOption, client


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(shutdown)


def shutdown(
    keep_jobs: Annotated[
        bool, typer.Option("--keep-jobs", help="Leave the jobs to the next serve with this state folder.")
    ] = False,
    state: ReachOption = None,
) -> None:
    """End all jobs and the scheduler, and wait until they have ended.

    Example: malleable shutdown --state /tmp/malleable
    """
    client(state).shutdown(keep_jobs=keep_jobs)
