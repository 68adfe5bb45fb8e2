"""``malleable nodes``."""

from __future__ import annotations

import typer
from rich.table import Table

from scheduler_bridge.cli.common import JsonOption, StateOption, client, print_json, print_rich


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(nodes)


def nodes(state: StateOption = None, as_json: JsonOption = False) -> None:
    """List the nodes and the job that each one works for.

    Example: malleable nodes --json
    """
    snapshot = client(state).snapshot()
    if as_json:
        print_json(snapshot.nodes)
        return
    names = {job.job: job.name for job in snapshot.jobs}
    busy = sum(1 for node in snapshot.nodes if node.state == "busy")
    table = Table(box=None, pad_edge=False)
    for head in ("NODE", "STATE", "JOB"):
        table.add_column(head, no_wrap=True)
    for node in snapshot.nodes:
        table.add_row(node.name, node.state, "" if node.job is None else f"{node.job} {names.get(node.job, '')}")
    print_rich(table)
    typer.echo(
        f"{busy} of {len(snapshot.nodes)} nodes busy, utilization since start {100 * snapshot.utilization:.0f} %"
    )
