"""``malleable experiment``."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import typer
from rich import box
from rich.table import Table

from scheduler_bridge.cli.common import CliError, JsonOption, LauncherOption, print_json, print_rich
from scheduler_bridge.experiments.rows import Form

if TYPE_CHECKING:
    from scheduler_bridge.experiments.outcome import Outcome
    from scheduler_bridge.experiments.sweep import Standing, Sweeping, Told


# What somebody asks of an experiment on the command line -------------------------------------------------------------

Scale: TypeAlias = Literal["tiny", "small", "full"]

NOT_AGAIN: Final = (None, None, False, False)
"""Nothing is repeated, and it is not only reported."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How an experiment is to be run.

    Attributes:
        scale: How much of it.
        data: The folder with the reference data; None: not given.
        out: Where it keeps what it finds; None: nowhere.
        places: So many processes simulate; None: as many as there are cores, or as mpiexec has started.
        rows: Form of the file of simulations; None: what can be written.
        again: Of real runs: those with a longer lag in seconds, those in which others used more percent of the machine,
            those that failed; and whether to report only.
        hosts: Of real runs: the file of the hosts that are their nodes; None: they are emulated here.
        launcher: How those are reached.
        paced: Whether those are held to small rates of work.
    """

    scale: Scale
    data: Path | None
    out: Path | None
    places: int | None = None
    rows: Form | None = None
    again: tuple[float | None, float | None, bool, bool] = NOT_AGAIN
    hosts: Path | None = None
    launcher: str = "ssh"
    paced: bool = False


# How experiments of many simulations are run from the command line: progress, time left, interruption ----------------

_QUIET_S: Final = 10.0
"""Where nobody watches a bar, a line says this often how far it is."""
_MINUTE_S: Final = 60
_RANKS: Final = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
"""One of them is in the environment of a process that mpiexec has started."""


def real_workloads(asked: Asked) -> Outcome:
    """Run the experiment of the 2025 paper."""
    from scheduler_bridge.experiments.real_workloads.study import run

    return swept(asked, lambda how: run(asked.data, how))


def ours(asked: Asked) -> Outcome:
    """Run all policies on all workloads."""
    from scheduler_bridge.experiments.ours.experiment import run

    return swept(asked, lambda how: run(asked.data, how))


def penalty(asked: Asked) -> Outcome:
    """Run the experiment of the 2016 paper."""
    from scheduler_bridge.experiments.penalty.study import run

    return swept(asked, run)


def mebf(asked: Asked) -> Outcome:
    """Run the experiment of the MEBF paper."""
    from scheduler_bridge.experiments.mebf.study import run

    return swept(asked, run)


def sd_policy(asked: Asked) -> Outcome:
    """Run the experiment of the 2019 paper."""
    from scheduler_bridge.experiments.sd_policy.study import run

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

    try:
        with _shown() as told:
            yield told
    except KeyboardInterrupt:
        kept = f"; the same command goes on with what is in {out}" if out is not None else ""
        typer.echo(f"interrupted{kept}", err=True)
        raise typer.Exit(130) from None
    except SweepFileError as error:
        raise CliError(str(error), "this sweep cannot go on with it", "give another --out") from None
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


ENV_DATA: Final = "MALLEABLE_DATA"
ENV_PLACES: Final = "MALLEABLE_PLACES"
_COLUMNS: Final = 15
"""So many columns of a table are shown; the files have all of them."""


def experiment(
    name: Annotated[str | None, typer.Argument(help="An experiment.", show_default="list them")] = None,
    scale: Annotated[
        Scale, typer.Option("--scale", help="How much of it; tiny, a look, is for real runs alone.")
    ] = "small",
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", envvar=ENV_DATA, help="Folder with the reference data.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write tables, figures and a page; what was interrupted goes on."),
    ] = None,
    places: Annotated[
        int | None,
        typer.Option(
            "--places", min=1, metavar="N", envvar=ENV_PLACES, help="Processes that simulate.", show_default="the cores"
        ),
    ] = None,
    rows: Annotated[
        Form | None,
        typer.Option("--rows", help="Form of the file of simulations.", show_default="parquet where pyarrow is"),
    ] = None,
    repeat_lagged: Annotated[
        float | None,
        typer.Option(
            "--repeat-lagged",
            metavar="SECONDS",
            min=0,
            help="Of real-runs: do those again in which a node fell further behind than this; the better run is kept.",
            show_default="none",
        ),
    ] = None,
    repeat_busy: Annotated[
        float | None,
        typer.Option(
            "--repeat-busy",
            metavar="PERCENT",
            min=0,
            max=100,
            help="Of real-runs: do those again in which others used more of the machine; the better run is kept.",
            show_default="none",
        ),
    ] = None,
    repeat_failed: Annotated[
        bool, typer.Option("--repeat-failed", help="Of real-runs: do those again in which a job failed.")
    ] = False,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Of real-runs: run nothing, report what --out holds.")
    ] = False,
    hosts: Annotated[
        Path | None,
        typer.Option("--hosts", metavar="FILE", help="Of real-runs: on these hosts, at full size, not emulated here."),
    ] = None,
    launcher: LauncherOption = None,
    paced: Annotated[
        bool, typer.Option("--paced", help="With --hosts: small problems, and hosts held to a small rate.")
    ] = False,
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
                typer.echo(f"{known:24} {entry.summary}")
        return
    if name not in EXPERIMENTS:
        raise CliError(
            f"unknown experiment {name!r}", f"there are {', '.join(EXPERIMENTS)}", "malleable experiment describes them"
        )
    chosen = EXPERIMENTS[name]
    runs_again = (repeat_lagged, repeat_busy, repeat_failed, report_only)
    asked = Asked(scale, data, out, places, rows, runs_again, hosts, launcher or "ssh", paced)
    _check(name, chosen, asked, about_hosts=launcher is not None or paced)
    outcome = chosen.run(asked)
    if as_json:
        print_json(_plain(outcome))
    else:
        _show(outcome, chosen.tables)
    if out is not None:
        from scheduler_bridge.experiments.outcome import write_outcome

        for path in write_outcome(outcome, out, reproduce=shlex.join(_command(name, asked))):
            if not as_json:
                typer.echo(f"written: {path}")
    if chosen.must_pass and not outcome.passed:
        raise typer.Exit(1)


def _check(name: str, chosen: Entry, asked: Asked, *, about_hosts: bool) -> None:
    """See that what is asked for is this experiment's, and that its folders are some."""
    if asked.data is not None and not asked.data.is_dir():
        raise CliError(f"--data {asked.data}: there is no such folder", hint="name it, or leave --data out", code=1)
    if asked.out is not None and asked.out.exists() and not asked.out.is_dir():
        raise CliError(f"--out {asked.out}: this is a file", "a folder is to be written", "name another one")
    if asked.scale == "tiny" and not chosen.tiny:
        raise CliError(f"{name} has no scale tiny", "its small one takes a minute", "give --scale small")
    if name != "real-runs" and (asked.again != NOT_AGAIN or asked.hosts is not None):
        raise CliError(f"{name} does not know this option", "it is for real-runs alone", "leave it out")
    if asked.hosts is None and about_hosts:
        raise CliError("--launcher and --paced are about hosts", "none are named", "give --hosts FILE, or leave it out")


def _command(name: str, asked: Asked) -> list[str]:
    """What leads to the same outcome."""
    words = ["malleable", "experiment", name, "--scale", asked.scale, "--out", str(asked.out)]
    words += [] if asked.data is None else ["--data", str(asked.data)]
    words += [] if asked.rows is None else ["--rows", asked.rows]
    if asked.hosts is not None:
        words += ["--hosts", str(asked.hosts), "--launcher", asked.launcher, *(["--paced"] if asked.paced else [])]
    return words


def _real(asked: Asked) -> Any:
    from scheduler_bridge.backends.hosts import HostsConfig, Rules, launcher_of
    from scheduler_bridge.cli.real_runs import run
    from scheduler_bridge.experiments.real_runs.keeping import HERE, Site
    from scheduler_bridge.experiments.real_runs.runner import Again

    if asked.out is None:
        raise CliError(
            "real-runs needs a folder for the records of its runs", "it takes long, and goes on there", "give --out DIR"
        )
    lagged_s, busy, failed, report_only = asked.again
    again = Again(lagged_s, failed, None if busy is None else busy / 100)
    site = HERE
    if asked.hosts is not None:
        site = Site(HostsConfig(asked.hosts.absolute(), launcher_of(asked.launcher), Rules()), asked.paced)
    return run(asked.out, asked.scale, asked.data, again, site, report_only=report_only)


def _shared(asked: Asked) -> Any:
    from scheduler_bridge.cli.real_runs import run_shared

    if asked.out is None:
        raise CliError(
            "sd-real needs a folder for the records of its runs", "it takes long, and goes on there", "give --out DIR"
        )
    if asked.scale == "full":
        raise CliError("sd-real has no scale full", "it has tiny and small", "give --scale small")
    return run_shared(asked.out, asked.scale)


def _replayed(asked: Asked) -> Any:
    from scheduler_bridge.experiments.published_runs import BadReferenceError
    from scheduler_bridge.experiments.published_runs.experiment import run

    if asked.data is None:
        raise CliError(
            "real-runs-simulated needs the reference data", f"neither --data nor {ENV_DATA} is given", "give --data DIR"
        )
    try:
        return run(
            asked.data,
            "full" if asked.scale == "full" else "small",
            lambda what: typer.echo(f"simulating {what}", err=True),
        )
    except BadReferenceError as error:
        raise CliError(str(error), "the published data have this file", "give --data DIR") from None


def _show(outcome: Any, tables: int) -> None:
    from scheduler_bridge.experiments.outcome import shown

    for data in outcome.tables[:tables]:
        table = Table(title=data.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=0)
        for index, column in enumerate(data.columns[:_COLUMNS]):
            table.add_column(column, justify="right" if index else "left", min_width=5, overflow="fold")
        for row in data.rows:
            table.add_row(*(shown(value) for value in row[:_COLUMNS]))
        print_rich(table)
    for remark in outcome.remarks:
        typer.echo(f"- {remark}")
    typer.echo(f"\n{outcome.verdict}")


def _plain(outcome: Any) -> dict[str, Any]:
    return {
        "experiment": outcome.name,
        "verdict": outcome.verdict,
        "passed": outcome.passed,
        "remarks": outcome.remarks,
        "tables": {
            table.name: [dict(zip(_unique(table.columns), row, strict=True)) for row in table.rows]
            for table in outcome.tables
        },
    }


def _unique(columns: tuple[str, ...]) -> list[str]:
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


@dataclass(frozen=True, slots=True)
class Entry:
    """An experiment.

    Attributes:
        summary: What it does, in one line.
        run: Runs what is asked for.
        tiny: Whether it has the scale tiny.
        must_pass: Whether the command fails where its outcome has not passed.
        tables: So many of its tables are shown.
    """

    summary: str
    run: Callable[[Asked], Any]
    tiny: bool = False
    must_pass: bool = False
    tables: int = 3


EXPERIMENTS: Final[Mapping[str, Entry]] = {
    "real-runs": Entry(
        "the 2024 paper's batches as real jobs, on 32 nodes that this machine emulates",
        _real,
        tiny=True,
        must_pass=True,
        tables=6,
    ),
    "real-runs-simulated": Entry("the 2024 paper's 240 real runs on 32 nodes, replayed in the simulator", _replayed),
    "real-workloads": Entry(
        "the 2025 paper's supercomputers, simulated with more and more malleable jobs", real_workloads
    ),
    "mebf": Entry("the MEBF paper's workloads: resizing by scalability, with overheads", mebf, tables=1),
    "sd-policy": Entry(
        "the 2019 paper's workloads: jobs that would wait share nodes with running ones", sd_policy, tables=2
    ),
    "sd-real": Entry(
        "SD-Policy on real jobs that share nodes, which this machine emulates", _shared, tiny=True, must_pass=True
    ),
    "ours": Entry("all policies on all workloads, and a policy of our own: which one for which", ours),
    "penalty": Entry("the 2016 paper's six scenarios: users who estimate well come first", penalty, tables=2),
}
"""By name."""
