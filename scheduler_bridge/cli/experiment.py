"""``malleable experiment``: its options, the experiments, and how far one is."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias

import typer

from apgas.errors import interruptible
from scheduler_bridge.cli import options
from scheduler_bridge.cli.common import CliError, JsonOption, LauncherOption, now_and_then, print_json, print_rich, say
from scheduler_bridge.cli.options import option
from scheduler_bridge.experiments.sweep import Form

if TYPE_CHECKING:
    from scheduler_bridge.experiments.study_report import StudyReport
    from scheduler_bridge.experiments.sweep import Reporter, Standing

ENV_DATA: Final = "MALLEABLE_DATA"
ENV_PLACES: Final = "MALLEABLE_PLACES"
_COLUMNS: Final = 15
"""Columns of a table that are shown; the files have all of them."""

Scale: TypeAlias = Literal["tiny", "small", "full"]


@dataclass(frozen=True, kw_only=True)
class RealRunsOptions:
    """How real runs are done, and which of them again although they are there."""

    PANEL: ClassVar = "Only for real-runs"

    repeat_lagged: float | None = options.seconds(
        None, "--repeat-lagged", "Do runs again in which a node fell further behind than this; the better run is kept."
    )
    repeat_busy: float | None = option(
        None,
        "--repeat-busy",
        "Do runs again in which others used more of the machine; the better run is kept.",
        "PERCENT",
        min=0,
        max=100,
    )
    repeat_failed: bool = option(False, "--repeat-failed", "Do runs again in which a job failed.")
    published: bool = option(
        False, "--published", "The very batches of the paper, instead of such drawn; needs --data."
    )
    second: float | None = option(
        None, "--second", "How long a second of the paper lasts, if emulated.", "SECONDS", min=0.001, max=1
    )
    hosts: Path | None = options.file(None, "--hosts", "On these hosts, at full size, not emulated here.")
    launcher: LauncherOption = None
    paced: bool = option(False, "--paced", "With --hosts: small problems, and hosts held to a small rate.")


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """How an experiment is run."""

    scale: Scale = option("small", "--scale", "How much of it; tiny, a look, is for real runs alone.")
    data: Path | None = options.folder(None, "--data", "Folder with the reference data.", envvar=ENV_DATA)
    out: Path | None = options.folder(None, "--out", "Write tables, figures and a page; what was interrupted goes on.")
    places: int | None = options.count(
        None, "--places", "Processes that simulate.", envvar=ENV_PLACES, show_default="the cores"
    )
    rows: Form | None = option(
        None, "--rows", "Form of the file of simulations.", show_default="parquet where pyarrow is"
    )
    report_only: bool = option(False, "--report-only", "Run nothing, report what --out holds.")
    real: RealRunsOptions

    def check(self, name: str, chosen: Entry) -> None:
        """See that what is asked for is this experiment's, and that its folders are some."""
        if self.data is not None and not self.data.is_dir():
            raise CliError(f"--data {self.data}: there is no such folder", hint="name it, or leave --data out", code=1)
        if self.out is not None and self.out.exists() and not self.out.is_dir():
            raise CliError(f"--out {self.out}: this is a file", "a folder is to be written", "name another one")
        if self.report_only and self.out is not None and not self.out.exists():
            why = "--report-only shows what an earlier run has left there"
            raise CliError(f"--out {self.out}: there is no such folder", why, "run it first, without --report-only", 1)
        if self.scale == "tiny" and not chosen.tiny:
            raise CliError(f"{name} has no scale tiny", "its small one takes a minute", "give --scale small")
        if self.report_only and not chosen.keeps:
            raise CliError(f"{name} has no --report-only", "it reports what it has just run", "leave it out")
        if name != "real-runs" and self.real != RealRunsOptions():
            raise CliError(f"{name} does not know this option", "it is for real-runs alone", "leave it out")
        if self.real.hosts is None and (self.real.launcher is not None or self.real.paced):
            hint = "give --hosts FILE, or leave it out"
            raise CliError("--launcher and --paced are about hosts", "none are named", hint)
        if self.real.published and self.data is None:
            raise CliError("--published takes the batches from the reference data", "none is given", "give --data DIR")

    def folder_for(self, name: str) -> Path:
        """The folder that real runs need."""
        if self.out is None:
            what = f"{name} needs a folder for the records of its runs"
            raise CliError(what, "it takes long, and goes on there", "give --out DIR")
        return self.out

    def command(self, name: str) -> list[str]:
        """What leads to the same outcome."""
        words = ["malleable", "experiment", name, "--scale", self.scale, "--out", str(self.out)]
        words += [] if self.data is None else ["--data", str(self.data)]
        words += [] if self.rows is None else ["--rows", self.rows]
        words += ["--report-only"] if self.report_only else []
        words += ["--published"] if self.real.published else []
        words += [] if self.real.second is None else ["--second", f"{self.real.second:g}"]
        if self.real.hosts is not None:
            words += ["--hosts", str(self.real.hosts), "--launcher", self.real.launcher or "ssh"]
            words += ["--paced"] if self.real.paced else []
        return words


def experiment(
    asked: StudyOptions,
    name: Annotated[str | None, typer.Argument(help="An experiment.", show_default="list them")] = None,
    as_json: JsonOption = False,
) -> None:
    """Repeat an experiment of the papers and compare with what they print.

    Example: malleable experiment real-runs-simulated --scale full --data reference-data --out report
    """
    if name is None:
        if as_json:
            print_json({known: entry.summary for known, entry in EXPERIMENTS.items()})
        else:
            for known, entry in EXPERIMENTS.items():
                say(f"{known:24} {entry.summary}")
        return
    if name not in EXPERIMENTS:
        raise CliError(
            f"unknown experiment {name!r}", f"there are {', '.join(EXPERIMENTS)}", "malleable experiment describes them"
        )
    chosen = EXPERIMENTS[name]
    asked.check(name, chosen)
    report = chosen.run(asked)
    show_report(report, chosen.tables, asked.out, asked.command(name), as_json=as_json)
    if chosen.must_pass and not report.passed:
        raise typer.Exit(1)


def show_report(report: StudyReport, tables: int, out: Path | None, command: list[str], *, as_json: bool) -> None:
    """Print a report, with this number of its ``tables``, and write it to ``out``; ``command`` leads to the same."""
    if as_json:
        print_json(_plain(report))
    else:
        _show(report, tables)
    if out is not None:
        from scheduler_bridge.experiments.study_report import write_report

        for path in write_report(report, out, reproduce=shlex.join(command)):
            if not as_json:
                say(f"written: {path}")


def _show(report: StudyReport, tables: int) -> None:
    from rich import box
    from rich.table import Table

    from scheduler_bridge.experiments.study_report import shown

    for data in report.tables[:tables] if report.summary is None else (report.summary,):
        table = Table(title=data.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=0)
        for index, column in enumerate(data.columns[:_COLUMNS]):
            table.add_column(column, justify="right" if index else "left", min_width=5, overflow="fold")
        for row in data.rows:
            table.add_row(*(shown(value) for value in row[:_COLUMNS]))
        print_rich(table)
    for remark in report.remarks:
        say(f"- {remark}")
    say(f"\n{report.verdict}")


def _plain(report: StudyReport) -> dict[str, Any]:
    return {
        "experiment": report.name,
        "verdict": report.verdict,
        "passed": report.passed,
        "remarks": report.remarks,
        "tables": {
            table.name: [dict(zip(_unique(table.columns), row, strict=True)) for row in table.rows]
            for table in report.tables
        },
    }


def _unique(columns: Sequence[str]) -> list[str]:
    """Column names of which none is there twice: a plain one gets the last one with a unit before it."""
    names: list[str] = []
    base = ""
    for column in columns:
        if column in ("simulated", "error %", "change %"):
            names.append(f"{base} {column}")
        else:
            base = column.removesuffix(" measured")
            names.append(column)
    return names


@contextmanager
def _goes_on(out: Path | None) -> Iterator[None]:
    """Say what an interrupted experiment goes on with, and which file cannot be read or written."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"; the same command goes on with what is in {out}" if out is not None else ""
        say(f"interrupted{kept}", err=True)
        raise typer.Exit(130) from None
    except OSError as error:
        raise CliError(f"{error.filename or out}: {error.strerror}", hint="look at the files that are given") from None


# Experiments of many simulations --------------------------------------------------------------------------------------

_MINUTE_S: Final = 60
_RANKS: Final = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
"""One of them is in the environment of a process that mpiexec has started."""


def _sweep(folder: str) -> Callable[[StudyOptions], StudyReport]:
    """Return what runs the sweep of a study, of which this is the folder, on the places that are asked for."""

    def run(asked: StudyOptions) -> StudyReport:
        def simulate(reporter: Reporter) -> StudyReport:
            from scheduler_bridge.experiments.sweep import Sweeping

            study = importlib.import_module(f"scheduler_bridge.experiments.{folder}.study")
            scale: Literal["small", "full"] = "full" if asked.scale == "full" else "small"
            how = Sweeping(scale, asked.out, reporter, asked.rows, report_only=asked.report_only)
            report: StudyReport = study.run(asked.data, how)
            return report

        return on_places(simulate, "--places", 1 if asked.report_only else asked.places, asked.out)

    return run


def on_places(
    simulate: Callable[[Reporter], StudyReport], option: str, places: int | None, out: Path | None
) -> StudyReport:
    """Run a sweep on ``places``, if ``option`` gave their number, and show how far it is; it keeps rows in ``out``.

    One place alone needs neither MPI nor the runtime. Where mpiexec has started this process, the places are those that
    it has started, and a scheduler may send more.
    """

    def shown() -> StudyReport:
        from scheduler_bridge.experiments.sweep import SweepFileError

        try:
            with _goes_on(out), _shown("simulations") as (_, reporter):
                return simulate(reporter)
        except SweepFileError as error:
            raise CliError(str(error), "this sweep cannot go on with it", "give another --out") from None

    launched = any(name in os.environ for name in _RANKS)
    if launched and places is not None:
        what, why = f"{option} {places} under mpiexec", "the places are those that it starts"
        raise CliError(what, why, "give mpiexec -n instead")
    count = places or len(os.sched_getaffinity(0))
    if count == 1 and not launched:
        return shown()
    import apgas

    def main() -> StudyReport:
        from scheduler_bridge.experiments.simulations import start_places

        if not launched:
            start_places(count)
        return shown()

    return apgas.run(main)


@contextmanager
def _shown(what: str) -> Iterator[tuple[Callable[[str], None], Reporter]]:
    """Show how far an experiment is: a bar on a terminal, a line now and then elsewhere. The first one prints lines."""
    if not sys.stderr.isatty():
        yield partial(say, err=True), now_and_then(lambda now: f"{now.done} of {now.cells} {what}{_further(now)}")
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from scheduler_bridge.cli.terminal import Terminal

    further = TextColumn("{task.fields[further]}", markup=False)
    columns = (BarColumn(), MofNCompleteColumn(), what, TimeElapsedColumn(), further)
    with Progress(*columns, console=Terminal(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, further="")
        yield (
            bar.console.print,
            lambda now: bar.update(task, total=now.cells, completed=now.done, further=_further(now)[2:]),
        )


def _further(standing: Standing) -> str:
    """Where it goes on, how long that takes, and what is under way: each after a comma."""
    parts = [f"on {standing.places} places"] if standing.places > 1 else []
    if standing.left_s is not None:
        short = standing.left_s < 2 * _MINUTE_S
        left = f"{standing.left_s:.0f} s" if short else f"{standing.left_s / _MINUTE_S:.0f} min"
        parts.append(f"about {left} left")
    return "".join(f", {part}" for part in (*parts, standing.now) if part)


def _replayed_runs(asked: StudyOptions) -> StudyReport:
    from scheduler_bridge.experiments.published_runs.study import run

    if asked.data is None:
        raise CliError(
            "real-runs-simulated needs the reference data", f"neither --data nor {ENV_DATA} is given", "give --data DIR"
        )
    scale: Literal["small", "full"] = "full" if asked.scale == "full" else "small"
    return run(asked.data, scale, lambda what: say(f"simulating {what}", err=True))


# Experiments of real jobs ---------------------------------------------------------------------------------------------


def _real_runs(asked: StudyOptions) -> StudyReport:
    from scheduler_bridge.backends.hosts import HostsConfig, Rules, launcher_of
    from scheduler_bridge.daemon.trial import CalibrationError
    from scheduler_bridge.experiments.real_runs.campaign import HERE, Site
    from scheduler_bridge.experiments.real_runs.runner import Again
    from scheduler_bridge.experiments.real_runs.study import planned, report, run

    real, folder, site = asked.real, asked.folder_for("real-runs"), HERE
    if real.hosts is not None:
        site = Site(HostsConfig(real.hosts.absolute(), launcher_of(real.launcher or "ssh"), Rules()), real.paced)
    campaign, reference = planned(asked.scale, asked.data, published=real.published, second_s=real.second, site=site)
    if asked.report_only:
        try:
            return report(folder, campaign, reference, site)
        except CalibrationError as error:
            hint = "run it first, without --report-only"
            raise CliError("there is nothing to report", str(error), hint) from None
    again = Again(real.repeat_lagged, real.repeat_failed, real.repeat_busy and real.repeat_busy / 100)
    with _followed(folder) as (announce, reporter):
        return run(folder, campaign, reference, site, announce=announce, reporter=reporter, again=again)


def _sd_real(asked: StudyOptions) -> StudyReport:
    from scheduler_bridge.experiments.sd_real.study import run

    folder = asked.folder_for("sd-real")
    if asked.scale == "full":
        raise CliError("sd-real has no scale full", "it has tiny and small", "give --scale small")
    with _followed(folder) as (announce, reporter):
        return run(folder, asked.scale, announce=announce, reporter=reporter)


@contextmanager
def _followed(folder: Path) -> Iterator[tuple[Callable[[str], None], Reporter]]:
    """Show real runs go on, and say what went wrong; what was run is kept."""
    from scheduler_bridge.daemon import DaemonError
    from scheduler_bridge.daemon.trial import CalibrationError

    try:
        with _goes_on(folder), interruptible(KeyboardInterrupt), _shown("runs") as shown:
            yield shown
    except (CalibrationError, DaemonError) as error:
        hint = getattr(error, "hint", "") or "try: malleable doctor"
        raise CliError("the experiment cannot run", str(error), hint) from None


# The experiments ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """An experiment.

    Attributes:
        summary: What it does, in one line.
        run: Runs what is asked for.
        tiny: Whether it has the scale tiny.
        must_pass: Whether the command fails where its outcome has not passed.
        keeps: Whether it keeps what it ran, so that this can be reported again.
        tables: How many of its tables are shown.
    """

    summary: str
    run: Callable[[StudyOptions], StudyReport]
    tiny: bool = False
    keeps: bool = True
    must_pass: bool = False
    tables: int = 3


EXPERIMENTS: Final[Mapping[str, Entry]] = {
    "real-runs": Entry(
        "the 2024 paper's batches as real jobs, on 32 nodes that this machine emulates",
        _real_runs,
        tiny=True,
        must_pass=True,
        tables=6,
    ),
    "real-runs-simulated": Entry(
        "the 2024 paper's 240 real runs on 32 nodes, replayed in the simulator", _replayed_runs, keeps=False
    ),
    "real-workloads": Entry(
        "the 2025 paper's supercomputers, simulated with more and more malleable jobs", _sweep("real_workloads")
    ),
    "mebf": Entry("the MEBF paper's workloads: resizing by scalability, with overheads", _sweep("mebf"), tables=1),
    "sd-policy": Entry(
        "the 2019 paper's workloads: jobs that would wait share nodes with running ones", _sweep("sd_policy"), tables=2
    ),
    "sd-real": Entry(
        "SD-Policy on real jobs that share nodes, which this machine emulates",
        _sd_real,
        tiny=True,
        keeps=False,
        must_pass=True,
    ),
    "ours": Entry("all policies on all workloads, and a policy of our own: which one for which", _sweep("ours")),
    "penalty": Entry("the 2016 paper's six scenarios: users who estimate well come first", _sweep("penalty"), tables=2),
}
"""By name."""
