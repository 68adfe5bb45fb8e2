"""``malleable experiment real-runs`` and ``sd-real``: progress, time left, and endings."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from scheduler_bridge.cli.common import CliError
from scheduler_bridge.daemon import DaemonError
from scheduler_bridge.daemon.trial import CalibrationError
from scheduler_bridge.experiments.outcome import Outcome
from scheduler_bridge.experiments.published_runs import BadReferenceError
from scheduler_bridge.experiments.real_runs.experiment import report
from scheduler_bridge.experiments.real_runs.experiment import run as run_experiment
from scheduler_bridge.experiments.real_runs.keeping import Site
from scheduler_bridge.experiments.real_runs.plan import PLANS, RunKey, Scale
from scheduler_bridge.experiments.real_runs.runner import Again
from scheduler_bridge.experiments.sd_real.experiment import run as run_shared_experiment
from scheduler_bridge.experiments.sd_real.plan import PLANS as SHARED_PLANS
from scheduler_bridge.experiments.sd_real.plan import Scale as SharedScale
from scheduler_bridge.record import RunRecord, makespan_s


class _Progress:
    """Shows the runs go on; one line for each that is there."""

    def __init__(self, runs: int, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=runs, left="")
        self._known = 0
        self._made: list[float] = []
        self._began_s = time.monotonic()

    def goes_on(self, key: RunKey, ended: int, jobs: int) -> None:
        self._progress.update(self._task, description=f"{key.spoken}: {ended} of {jobs} jobs")

    def done(self, key: RunKey, record: RunRecord) -> None:
        self._known += 1
        took_s = time.monotonic() - self._began_s
        self._began_s = time.monotonic()
        if took_s >= 1.0:  # else it was kept from before
            self._made.append(took_s)
        left = self._progress.tasks[0].total or 0
        left_s = (left - self._known) * sum(self._made) / len(self._made) if self._made else 0.0
        self._progress.update(self._task, advance=1, left=f"{left_s / 60:.0f} min left" if left_s else "")
        cpu = record.provenance["cpu"]
        said = f"{key.spoken}: {makespan_s(record):.1f} s, CPU {100 * cpu['share']:.0f} %"
        others = "" if cpu["others_share"] is None else f" (others {100 * cpu['others_share']:.0f} %)"
        self._progress.console.print(f"{said}{others}, worst lag {cpu['worst_lag_s']:.2f} s")


def run(folder: Path, scale: Scale, data: Path | None, again: Again, site: Site, *, report_only: bool) -> Outcome:
    """Carry the experiment out, or go on with it, or only report what is there.

    Raises:
        CliError: It cannot be done here.
        Exit: It was interrupted; what was run is kept.
    """
    try:
        if report_only:
            return report(folder, scale, data, site)
        with _followed(folder, len(PLANS[scale].at(site).runs())) as (tell, watcher):
            return run_experiment(folder, scale, data, tell=tell, watcher=watcher, again=again, site=site)
    except BadReferenceError as error:
        raise CliError(str(error), "the published data have this file", "give --data DIR, or none") from None
    except CalibrationError as error:
        raise CliError("there is nothing to report", str(error), "run it first, without --report-only") from None


def run_shared(folder: Path, scale: SharedScale) -> Outcome:
    """Carry out, or go on with, the experiment in which jobs share nodes.

    Raises:
        CliError: It cannot be done here.
        Exit: It was interrupted; what was run is kept.
    """
    with _followed(folder, len(SHARED_PLANS[scale].runs())) as (tell, watcher):
        return run_shared_experiment(folder, scale, tell=tell, watcher=watcher)


@contextmanager
def _followed(folder: Path, runs: int) -> Iterator[tuple[Callable[[str], None], _Progress]]:
    """Show real runs go on, and say what went wrong.

    Raises:
        CliError: They cannot be done here.
        Exit: They were interrupted.
    """
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=Console(stderr=True, highlight=False),
    )
    try:
        with _interruptible(), progress:
            yield progress.console.print, _Progress(runs, progress)
    except KeyboardInterrupt:
        typer.echo(f"interrupted; the same command goes on with what is in {folder}", err=True)
        raise typer.Exit(130) from None
    except (CalibrationError, DaemonError) as error:
        hint = getattr(error, "hint", "") or "try: malleable doctor"
        raise CliError("the experiment cannot run", str(error), hint) from None
    except OSError as error:
        raise CliError(f"--out {folder}", f"cannot write there: {error.strerror}", "give another --out") from None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let TERM end the runs as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends its jobs now, and must not be disturbed
    raise KeyboardInterrupt
