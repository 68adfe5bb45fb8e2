"""``malleable report``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from rich.console import RenderableType
from rich.table import Table

from scheduler_bridge.cli import options
from scheduler_bridge.cli.common import CliError, Outcome, StateOption, plain_table, state_folder
from scheduler_bridge.cli.inputs import PICTURES, WORKLOADS, expect_file
from scheduler_bridge.cli.options import option
from scheduler_bridge.cli.policies import LoadOption, load_policies
from scheduler_bridge.cli.results import WindowOption, csv_of, drawn_of, read_window
from scheduler_bridge.daemon import ControlClient, ControlError, read_run, read_runs, runs
from scheduler_bridge.daemon.storage.state import HISTORY
from scheduler_bridge.daemon.storage.store import DATABASE
from scheduler_bridge.policies.penalty import priority
from scheduler_bridge.record import RunRecord, UserUse, decode_record, use_by_user
from scheduler_bridge.report import words


def report(
    html: Path | None = options.file(None, "--html", "Write a page with the picture."),
    png: Path | None = options.file(None, "--png", "Write the picture of the run."),
    window: WindowOption = None,
    swf: Path | None = options.file(None, "--swf", "Write the jobs as a workload for malleable simulate."),
    speedup: str | None = option(
        None,
        "--speedup",
        "With --swf: how malleable jobs scale, such as amdahl:0.99.",
        "LAW",
        show_default="by their rho",
    ),
    users: bool = option(False, "--users", "What each user's jobs used, over all runs; or in the one of --run."),
    csv: bool = option(False, "--csv", "With --users: print CSV."),
    run: int | None = option(None, "--run", "A run as malleable history lists it.", min=1),
    load: LoadOption = None,
    state: StateOption = None,
) -> Outcome:
    """Show what happened to every job so far, or in the last run if the scheduler has ended.

    Example: malleable report --html run.html
    """
    expect_file("--html", html)
    expect_file("--png", png, PICTURES)
    expect_file("--swf", swf, WORKLOADS)
    times = read_window(window)
    if times is not None and html is None and png is None:
        raise CliError(f"--window {window}: nothing is drawn", hint="say where to: --png FILE.png or --html FILE")
    folder = state_folder(state)
    load_policies(load)
    if csv and not users:
        raise CliError("--csv without --users", "only use by users is CSV", "malleable report --users --csv")
    if speedup is not None and swf is None:
        raise CliError("--speedup without --swf", "only a workload says how jobs scale", "malleable report --swf FILE")
    if users:
        if html or png or swf:
            raise CliError("--users with a file to write", "pictures and workloads are of one run", "leave --users out")
        used = use_by_user(read_runs(folder) if run is None else [read_run(folder, run)])
        return Outcome(used, _use(used, as_csv=csv))
    record = read_run(folder, run) if run is not None else _record(folder)
    if html is not None or png is not None:
        drawn_of(record, times).write(png, html)
    if swf is not None:
        _write_swf(record, swf, speedup)
    return Outcome(record, _shown(record, [path for path in (html, png, swf) if path is not None]))


def _shown(record: RunRecord, written: list[Path]) -> Iterator[RenderableType]:
    from scheduler_bridge.report.tables import job_table

    yield job_table(record)
    yield from (f"written: {path}" for path in written)


def _write_swf(record: RunRecord, path: Path, speedup: str | None) -> None:
    from scheduler_bridge.sim import parse_speedup
    from scheduler_bridge.workloads import write_swf
    from scheduler_bridge.workloads.load import Law, workload_of

    law = None if speedup is None else Law(speedup, parse_speedup(speedup))
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
            pass  # no scheduler was here: what the client said is the error
        except (OSError, msgspec.DecodeError) as error:
            raise CliError(f"{folder / HISTORY} cannot be read: {error}", code=1) from None
        raise


# What users used, as ``malleable report --users`` shows it -----------------------------------------------------------


def _use(found: list[UserUse], *, as_csv: bool) -> Iterator[RenderableType]:
    if as_csv:
        yield csv_of(UserUse.__struct_fields__, map(msgspec.structs.astuple, found)).removesuffix("\n")
    else:
        yield _table(found) if found else "no user has submitted a job"


def _table(found: list[UserUse]) -> Table:
    counts = (">JOBS", ">COMPLETED", ">FAILED", ">OPEN")
    table = plain_table("USER", *counts, ">NODE HOURS", ">MEAN WAIT", ">MEAN RUN", ">ACCURACY", ">PRIORITY")
    for use in found:
        table.add_row(
            use.user or "-",
            *(str(count) for count in (use.jobs, use.completed, use.failed, use.open)),
            f"{use.node_s / 3600:.3f}",
            "-" if use.mean_wait_s is None else words.seconds(use.mean_wait_s),
            "-" if use.mean_runtime_s is None else words.seconds(use.mean_runtime_s),
            "-" if use.accuracy is None else words.percent(use.accuracy),
            str(priority(use.accuracy)),
        )
    table.caption = "accuracy: used part of the walltime, last ten jobs; priority: what the policy penalty makes of it"
    table.caption_justify = "left"
    return table


# ``malleable history`` -----------------------------------------------------------------------------------------------


def history(state: StateOption = None) -> Outcome:
    """List the runs in the scheduler's log; `malleable report --run 1` shows one.

    Example: malleable history
    """
    found = runs(state_folder(state))
    table = plain_table(">RUN", ">NODES", ">JOBS", ">LENGTH", "POLICY", "BEGAN", "")
    for run in found:
        table.add_row(
            str(run.run), str(run.nodes), str(run.jobs), words.seconds(run.seconds), run.policy, run.began,
            "" if run.ended else "not ended",
        )  # fmt: skip
    return Outcome(found, [table])
