"""How experiments of many simulations are run from the command line: progress, time left, interruption."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from scheduler_bridge.cli.errors import CliError

if TYPE_CHECKING:
    from scheduler_bridge.cli.asked import Asked
    from scheduler_bridge.experiments.outcome import Outcome
    from scheduler_bridge.experiments.sweep import Standing, Sweeping, Told

_QUIET_S: Final = 10.0
"""Where nobody watches a bar, a line says this often how far it is."""
_MINUTE_S: Final = 60
_RANKS: Final = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
"""One of them is in the environment of a process that mpiexec has started."""


def real_workloads(asked: Asked) -> Outcome:
    """Run the experiment of the 2025 paper."""
    from scheduler_bridge.experiments.real_workloads.experiment import run

    return swept(asked, lambda how: run(asked.data, how))


def ours(asked: Asked) -> Outcome:
    """Run all policies on all workloads."""
    from scheduler_bridge.experiments.ours.experiment import run

    return swept(asked, lambda how: run(asked.data, how))


def penalty(asked: Asked) -> Outcome:
    """Run the experiment of the 2016 paper."""
    from scheduler_bridge.experiments.penalty.experiment import run

    return swept(asked, run)


def mebf(asked: Asked) -> Outcome:
    """Run the experiment of the MEBF paper."""
    from scheduler_bridge.experiments.mebf.experiment import run

    return swept(asked, run)


def sd_policy(asked: Asked) -> Outcome:
    """Run the experiment of the 2019 paper."""
    from scheduler_bridge.experiments.sd_policy.experiment import run

    return swept(asked, lambda how: run(asked.data, how))


def swept(asked: Asked, run: Callable[[Sweeping], Outcome]) -> Outcome:
    """Run an experiment whose simulations are a sweep, on the places that are asked for.

    One place alone needs neither MPI nor the runtime. Where mpiexec has started this process, the places are those that
    it has started, and a scheduler may send more.

    Raises:
        CliError: A file cannot be read or written, or holds something else; or MPI is missing.
        Exit: It was interrupted.
    """
    from scheduler_bridge.experiments.sweep import Sweeping

    def main() -> Outcome:
        with _told(asked.out) as told:
            return run(Sweeping("full" if asked.scale == "full" else "small", asked.out, told, asked.rows))

    launched = any(name in os.environ for name in _RANKS)
    if launched and asked.places is not None:
        raise CliError(
            f"--places {asked.places} under mpiexec", "the places are those that it starts", "give mpiexec -n instead"
        )
    places = asked.places or len(os.sched_getaffinity(0))
    if places == 1 and not launched:
        return main()
    import apgas

    def on_places() -> Outcome:
        from scheduler_bridge.experiments.simulations import start_places

        if not launched:
            start_places(places)
        return main()

    return apgas.run(on_places)


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
        raise CliError(str(error), "this sweep cannot go on with it", "give another --out") from None
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
        task = bar.add_task("", total=None, left="")

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
    where = f"on {standing.places} places" if standing.places > 1 else ""
    if standing.left_s is None:
        return where
    short = standing.left_s < 2 * _MINUTE_S
    left = f"{standing.left_s:.0f} s" if short else f"{standing.left_s / _MINUTE_S:.0f} min"
    return f"{where}, about {left} left".removeprefix(", ")
