"""``malleable queue``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from scheduler_bridge.cli import reserve
from scheduler_bridge.cli import watch as watching
from scheduler_bridge.cli.common import JsonOption, StateOption, client, print_json, print_rich
from scheduler_bridge.cli.errors import CliError
from scheduler_bridge.live import JobStatus, Snapshot
from scheduler_bridge.report import words

_OPEN = ("held", "waiting", "starting", "running", "ending")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(queue)


def queue(
    everything: Annotated[bool, typer.Option("--all", help="Ended jobs too (JSON always has them).")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it as it changes, until Ctrl-C.")] = False,
    state: StateOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the jobs that wait and run, with the reason why a job waits.

    Example: malleable queue --all
    """
    if watch:
        if as_json:
            raise CliError("--watch and --json exclude each other", hint="ask again and again with --json")
        watching.watch(client(state), _table, lambda job: everything or job.state in _OPEN)
    snapshot = client(state).snapshot()
    if as_json:
        print_json(snapshot.jobs)
        return
    jobs = [job for job in snapshot.jobs if everything or job.state in _OPEN]
    if jobs:
        print_rich(_table(jobs, snapshot))
    else:
        typer.echo("no job waits or runs")
    for kept in snapshot.reservations:
        typer.echo(f"reserved: {words.plural(len(kept.nodes), 'node')} for {reserve.line(kept, snapshot)}")


def _table(jobs: list[JobStatus], snapshot: Snapshot) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("JOB", justify="right", no_wrap=True)
    for head in ("NAME", "CLASS", "STATE"):
        table.add_column(head, no_wrap=True)
    for head in ("NODES", "ACCEPTS", "WAIT s", "RUN s", "GROWS", "SHRINKS"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("REMARK")
    for job in jobs:
        table.add_row(*(Text(cell) for cell in _row(job, snapshot.now_s)))
    return table


def _row(job: JobStatus, now_s: float) -> list[str]:
    started_s = job.start_s if job.start_s is not None else (job.end_s if job.end_s is not None else now_s)
    run_s = None if job.start_s is None else (job.end_s if job.end_s is not None else now_s) - job.start_s
    bounds = str(job.min_nodes) if job.min_nodes == job.max_nodes else f"{job.min_nodes}-{job.max_nodes}"
    return [
        str(job.job),
        job.name,
        job.job_class,
        job.state if job.resizing is None else f"{job.state} ({job.resizing})",
        str(len(job.nodes)),
        bounds,
        f"{started_s - job.submit_s:.1f}",
        "-" if run_s is None else f"{run_s:.1f}",
        str(job.grows),
        str(job.shrinks),
        _remark(job, now_s),
    ]


def _remark(job: JobStatus, now_s: float) -> str:
    if job.state != "running" or job.progress is None:
        reason = " ".join(job.reason.split())
        if job.state == "waiting" and job.expected_start_s is not None:
            return f"{reason}; expected to start within {words.seconds(max(0.0, job.expected_start_s - now_s))}"
        return reason
    if job.progress_total:
        share = words.percent(job.progress / job.progress_total)
        return f"{share} of {words.large(job.progress_total)} {job.progress_unit}"
    return f"{words.large(job.progress)} {job.progress_unit}"
