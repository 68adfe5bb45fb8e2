"""``malleable doctor``."""

from __future__ import annotations

import importlib
import shutil
import sys

import typer

from scheduler_bridge.backends.slurm import ReadingError, Slurm, SlurmError
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
    if shutil.which("scontrol") is not None:
        limits = _limits_of_slurm()
        sys.stdout.write(f"\n{checks.as_text(checks.Check(*limits))}\n")
        code = code or int(limits[1] is False)
    if code:
        raise CliError("not everything works here", "see the list above", code=1)


def _limits_of_slurm() -> tuple[str, bool, str, str, str]:
    """What the installed Slurm lets malleable jobs do, as a line of the checklist."""
    tried = "scontrol --version, scontrol show config"
    try:
        return ("Slurm's limits", True, tried, "; ".join(Slurm().limits().sentences()), "")
    except (SlurmError, ReadingError) as error:
        return ("Slurm's limits", False, tried, str(error), "ask the operator: scontrol ping")
