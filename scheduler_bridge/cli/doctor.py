"""``malleable doctor``."""

from __future__ import annotations

import importlib

import typer

from scheduler_bridge.cli.errors import CliError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor() -> None:
    """Check what works here (MPI, spawning, hosts, numba, Slurm) and say how to mend what does not.

    Example: malleable doctor
    """
    checks = importlib.import_module("apgas.doctor")
    code = checks.main()
    if code:
        raise CliError("not everything works here", "see the list above", code=1)
