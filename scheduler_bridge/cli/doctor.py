"""``malleable doctor``."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from scheduler_bridge.backends.hosts import examine, launcher_of, read_hosts
from scheduler_bridge.backends.slurm import ReadingError, Slurm, SlurmError
from scheduler_bridge.cli.common import CliError, LauncherOption
from scheduler_bridge.core import COMPILED
from scheduler_bridge.daemon import listener


def doctor(
    hosts: Annotated[
        Path | None, typer.Option("--hosts", metavar="FILE", help="Look at the hosts that FILE names, instead.")
    ] = None,
    launcher: LauncherOption = None,
) -> None:
    """Check what works here (MPI, spawning, hosts, numba, Slurm) and say how to mend what does not.

    Example: malleable doctor
    """
    checks = importlib.import_module("apgas.doctor")
    if hosts is not None:
        findings = examine(read_hosts(hosts), launcher_of(launcher or "ssh"), Path.cwd())
        for found in findings:
            sys.stdout.write(
                checks.as_text(checks.Check(found.host, found.ok, found.tried, found.came, found.mend)) + "\n"
            )
        failed = sum(not found.ok for found in findings)
        if failed:
            raise CliError(f"{failed} of {len(findings)} hosts cannot run jobs", "see the list above", code=1)
        return
    further = [_form_of_core, _open_files, *([_limits_of_slurm] if shutil.which("scontrol") else [])]
    if checks.main(lambda found=found: checks.Check(*found()) for found in further):
        raise CliError("not everything works here", "see the list above", code=1)


def _form_of_core() -> tuple[str, bool | None, str, str, str]:
    """Whether the scheduler's core and the simulator are machine code."""
    if COMPILED:
        return ("scheduler's core", True, "import", "machine code", "")
    came = "Python; simulations are twice as fast compiled (python3 launch/setup_venv.py compiled)"
    return ("scheduler's core", None, "import", came, "")


def _open_files() -> tuple[str, bool, str, str, str]:
    """Whether a scheduler may open as many files as its jobs' connections need."""
    soft, hard = listener.file_limits()
    came = f"{soft:.0f} may be open; malleable serve raises that to {hard:.0f}"
    mend = f"as root: ulimit -Hn {listener.ENOUGH_FILES}"
    return ("daemon's files", hard >= listener.ENOUGH_FILES, "getrlimit", came, mend)


def _limits_of_slurm() -> tuple[str, bool, str, str, str]:
    """What the installed Slurm lets malleable jobs do, as a line of the checklist."""
    tried = "scontrol --version, scontrol show config"
    try:
        return ("Slurm's limits", True, tried, "; ".join(Slurm().limits().sentences()), "")
    except (SlurmError, ReadingError) as error:
        return ("Slurm's limits", False, tried, str(error), "ask the operator: scontrol ping")
