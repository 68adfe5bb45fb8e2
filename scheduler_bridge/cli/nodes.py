"""``malleable nodes``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from scheduler_bridge.cli import reserve
from scheduler_bridge.cli.common import JsonOption, ReachOption, client, print_json, print_rich
from scheduler_bridge.live.requests import ChangeNode, NodeChange


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(nodes)


def nodes(
    drain: Annotated[
        list[str] | None, typer.Option("--drain", metavar="NODE", help="Give it no further jobs; its job goes on.")
    ] = None,
    resume: Annotated[
        list[str] | None, typer.Option("--resume", metavar="NODE", help="Put it back into service.")
    ] = None,
    add: Annotated[list[str] | None, typer.Option("--add", metavar="NODE", help="Put a new one into service.")] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="NODE", help="Let it leave the cluster, when its jobs have left it."),
    ] = None,
    down: Annotated[
        list[str] | None, typer.Option("--down", metavar="NODE", help="Take it out of service; its job is lost.")
    ] = None,
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the nodes and the job that each one works for; before that, add, resume, drain, take down or remove some.

    Example: malleable nodes --drain node1
    """
    wishes: list[tuple[NodeChange, list[str] | None]] = [
        ("add", add),
        ("resume", resume),
        ("drain", drain),
        ("down", down),
        ("remove", remove),
    ]
    for to, names_of in wishes:
        for name in names_of or []:
            client(state).manage(ChangeNode(node=name, to=to))
    snapshot = client(state).snapshot()
    if as_json:
        print_json(snapshot.nodes)
        return
    names = {job.job: job.name for job in snapshot.jobs}
    busy = sum(1 for node in snapshot.nodes if node.state == "busy")
    table = Table(box=None, pad_edge=False)
    why = ("WHY",) if any(node.reason for node in snapshot.nodes) else ()
    kept: dict[str, list[str]] = {}
    for reservation in snapshot.reservations:
        for name in reservation.nodes:
            kept.setdefault(name, []).append(reserve.line(reservation, snapshot))
    reserved = ("RESERVED",) if kept else ()
    for head in ("NODE", "STATE", "JOB", *reserved, *why):
        table.add_column(head, no_wrap=True)
    for node in snapshot.nodes:
        job = "" if node.job is None else f"{node.job} {names.get(node.job, '')}"
        more = [", ".join(kept.get(node.name, ()))] if reserved else []
        table.add_row(node.name, node.state, job, *more, *([node.reason] if why else []))
    print_rich(table)
    typer.echo(
        f"{busy} of {len(snapshot.nodes)} nodes busy, utilization since start {100 * snapshot.utilization:.0f} %"
    )
