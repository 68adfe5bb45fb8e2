"""``malleable shutdown``."""

from __future__ import annotations

import typer

from scheduler_bridge.cli.common import ReachOption, client


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(shutdown)


def shutdown(state: ReachOption = None) -> None:
    """End all jobs and the scheduler, and wait until they have ended.

    Example: malleable shutdown --state /tmp/malleable
    """
    client(state).shutdown()
