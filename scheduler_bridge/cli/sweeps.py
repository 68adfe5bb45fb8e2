"""How experiments of many simulations are run from the command line: progress, time left, interruption."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from scheduler_bridge.cli.errors import CliError

if TYPE_CHECKING:
    from scheduler_bridge.experiments.outcome import Outcome
    from scheduler_bridge.experiments.sweep import Standing, Told

_QUIET_S: Final = 10.0
"""Where nobody watches a bar, a line says this often how far it is."""
_MINUTE_S: Final = 60


def real_workloads(scale: str, data: Path | None, out: Path | None) -> Outcome:
    """Run the experiment of the 2025 paper."""
    from scheduler_bridge.experiments.real_workloads.experiment import run

    with _told(out) as told:
        return run(data, "full" if scale == "full" else "small", out, told)


def penalty(scale: str, _data: Path | None, out: Path | None) -> Outcome:
    """Run the experiment of the 2016 paper."""
    from scheduler_bridge.experiments.penalty.experiment import run

    with _told(out) as told:
        return run("full" if scale == "full" else "small", out, told)


def mebf(scale: str, _data: Path | None, out: Path | None) -> Outcome:
    """Run the experiment of the MEBF paper."""
    from scheduler_bridge.experiments.mebf.experiment import run

    with _told(out) as told:
        return run("full" if scale == "full" else "small", out, told)


def sd_policy(scale: str, data: Path | None, out: Path | None) -> Outcome:
    """Run the experiment of the 2019 paper."""
    from scheduler_bridge.experiments.sd_policy.experiment import run

    with _told(out) as told:
        return run(data, "full" if scale == "full" else "small", out, told)


@contextmanager
def _told(out: Path | None) -> Iterator[Told]:
    """Show how far a sweep is, and say what went wrong.

    Raises:
        CliError: A file cannot be read or written, or holds something else.
        Exit: It was interrupted.
    """
    from scheduler_bridge.experiments.sweep import SweepFileError
    from scheduler_bridge.workloads import TraceError

    try:
        with _shown() as told:
            yield told
    except KeyboardInterrupt:
        kept = f"; the same command goes on with what is in {out}" if out is not None else ""
        typer.echo(f"interrupted{kept}", err=True)
        raise typer.Exit(130) from None
    except SweepFileError as error:
        raise CliError(str(error), "it is of another version of this experiment", "give another --out") from None
    except TraceError as error:
        raise CliError(str(error), error.why, error.hint) from None
    except OSError as error:
        raise CliError(f"{error.filename or out}: {error.strerror}", hint="look at --data and --out") from None


@contextmanager
def _shown() -> Iterator[Told]:
    if not sys.stderr.isatty():
        yield _Lines().tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), "simulations", TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", left="")

        def tell(standing: Standing) -> None:
            bar.update(task, total=standing.cells, completed=standing.done, left=_left(standing))

        yield tell


class _Lines:
    """Says now and then how far it is."""

    def __init__(self) -> None:
        self._said_s = time.monotonic()

    def tell(self, standing: Standing) -> None:
        if time.monotonic() - self._said_s >= _QUIET_S:
            self._said_s = time.monotonic()
            typer.echo(f"{standing.done} of {standing.cells} simulations, {_left(standing)}", err=True)


def _left(standing: Standing) -> str:
    if standing.left_s is None:
        return ""
    if standing.left_s < 2 * _MINUTE_S:
        return f"about {standing.left_s:.0f} s left"
    return f"about {standing.left_s / _MINUTE_S:.0f} min left"
