"""``malleable queue``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group

from scheduler_bridge.cli import reserve
from scheduler_bridge.cli import watch as watching
from scheduler_bridge.cli.common import JsonOption, ReachOption, client, print_json, print_rich, terminal_width
from scheduler_bridge.cli.errors import CliError
from scheduler_bridge.cli.queue_lines import clock_line, queue_lines
from scheduler_bridge.report import words

_OPEN = ("held", "waiting", "starting", "running", "ending")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(queue)


def queue(
    everything: Annotated[bool, typer.Option("--all", help="Ended jobs too (JSON always has them).")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it as it changes, until Ctrl-C.")] = False,
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the jobs that wait and run, with the reason why a job waits.

    Example: malleable queue --all
    """
    if watch:
        if as_json:
            raise CliError("--watch and --json exclude each other", hint="ask again and again with --json")
        watching.watch(client(state), lambda job: everything or job.state in _OPEN)
    snapshot = client(state).snapshot()
    if as_json:
        print_json(snapshot.jobs)
        return
    jobs = [job for job in snapshot.jobs if everything or job.state in _OPEN]
    if jobs:
        width = terminal_width()
        print_rich(Group(*queue_lines(jobs, snapshot.now_s, width).all()))
        if width is not None and (line := clock_line(jobs, snapshot.now_s)):
            typer.echo(line)
    else:
        typer.echo("no job waits or runs")
    for kept in snapshot.reservations:
        typer.echo(f"reserved: {words.plural(len(kept.nodes), 'node')} for {reserve.line(kept, snapshot)}")
