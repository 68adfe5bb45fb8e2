"""``malleable report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from scheduler_bridge.cli import pictures
from scheduler_bridge.cli.common import JsonOption, StateOption, print_json, print_rich, state_folder
from scheduler_bridge.cli.errors import CliError
from scheduler_bridge.cli.targets import PICTURES, WORKLOADS, expect_file
from scheduler_bridge.cli.users import show_users
from scheduler_bridge.live import ControlClient, ControlError, read_run, read_runs
from scheduler_bridge.live.state import HISTORY
from scheduler_bridge.live.store import DATABASE
from scheduler_bridge.record import RunRecord, decode_record


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(report)


def report(
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page with the picture.")] = None,
    png: Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Write the picture of the run.")] = None,
    window: pictures.WindowOption = None,
    swf: Annotated[
        Path | None, typer.Option("--swf", metavar="FILE", help="Write the jobs as a workload for malleable simulate.")
    ] = None,
    speedup: Annotated[
        str | None,
        typer.Option(
            "--speedup",
            metavar="LAW",
            help="With --swf: how malleable jobs scale, such as amdahl:0.99.",
            show_default="by their rho",
        ),
    ] = None,
    users: Annotated[
        bool, typer.Option("--users", help="What each user's jobs used, over all runs; or in the one of --run.")
    ] = False,
    csv: Annotated[bool, typer.Option("--csv", help="With --users: print CSV.")] = False,
    run: Annotated[int | None, typer.Option("--run", min=1, help="A run as malleable history lists it.")] = None,
    state: StateOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what happened to every job so far, or in the last run if the scheduler has ended.

    Example: malleable report --html run.html
    """
    for option, path, endings in (("--html", html, ()), ("--png", png, PICTURES), ("--swf", swf, WORKLOADS)):
        expect_file(option, path, endings)
    times = pictures.times(window)
    if times is not None and html is None and png is None:
        raise CliError(f"--window {window}: nothing is drawn", hint="say where to: --png FILE.png or --html FILE")
    folder = state_folder(state)
    if csv and not users:
        raise CliError("--csv without --users", "only what users used is told as CSV", "malleable report --users --csv")
    if speedup is not None and swf is None:
        raise CliError("--speedup without --swf", "only a workload says how jobs scale", "malleable report --swf FILE")
    if users:
        if html or png or swf:
            raise CliError("--users with a file to write", "pictures and workloads are of one run", "leave --users out")
        show_users(read_runs(folder) if run is None else [read_run(folder, run)], as_csv=csv, as_json=as_json)
        return
    record = read_run(folder, run) if run is not None else _record(folder)
    if html is not None or png is not None:
        pictures.drawn(record, times).write(png, html)
    if swf is not None:
        _write_swf(record, swf, speedup)
    if as_json:
        print_json(record)
        return
    from scheduler_bridge.report.tables import job_table

    print_rich(job_table(record))
    for path in (html, png, swf):
        if path is not None:
            typer.echo(f"written: {path}")


def _write_swf(record: RunRecord, path: Path, speedup: str | None) -> None:
    from scheduler_bridge.sim import UnknownModelError, parse_speedup
    from scheduler_bridge.workloads import write_swf
    from scheduler_bridge.workloads.history import Law, workload_of

    try:
        law = None if speedup is None else Law(speedup, parse_speedup(speedup))
    except UnknownModelError as error:
        raise CliError(str(error)) from None
    write_swf(workload_of(record, law=law), path)


def _record(folder: Path) -> RunRecord:
    try:
        return ControlClient(folder).record()
    except ControlError:
        if (folder / DATABASE).exists():
            return read_run(folder)
        try:  # What runs inside a Slurm job keeps no log.
            return decode_record((folder / HISTORY).read_bytes())
        except FileNotFoundError:
            pass  # no scheduler was here: what the client said is told
        except (OSError, msgspec.DecodeError) as error:
            raise CliError(f"{folder / HISTORY} cannot be read: {error}", code=1) from None
        raise
