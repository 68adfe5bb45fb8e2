"""``malleable reserve``, with ``list`` and ``cancel``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from scheduler_bridge.cli import clock
from scheduler_bridge.cli.common import Commands, JsonOption, ReachOption, client, print_json, print_rich
from scheduler_bridge.cli.errors import CliError
from scheduler_bridge.cli.numbers import numbers
from scheduler_bridge.live import ReservationStatus, Snapshot
from scheduler_bridge.live.requests import Reserve, Unreserve
from scheduler_bridge.report import words

commands = Commands(context_settings={"help_option_names": ["-h", "--help"]})


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="reserve")


@commands.callback(invoke_without_command=True)
def reserve(
    context: typer.Context,
    nodes: Annotated[int | None, typer.Option("--nodes", min=1, help="How many nodes.")] = None,
    named: Annotated[
        str | None, typer.Option("--node-names", metavar="A,B", help="Just these nodes, separated by commas.")
    ] = None,
    start: Annotated[str, typer.Option(metavar="TIME", help="now, +30m, 18:00 or 2026-12-01T18:00.")] = "now",
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long: 90 (seconds), 45m, 2h.")
    ] = None,
    users: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these users may ask for it.", show_default="everybody")
    ] = None,
    jobs: Annotated[
        str | None, typer.Option(metavar="JOBS", help="Waiting jobs that are to run in it, for example 3,5-7.")
    ] = None,
    name: Annotated[str, typer.Option(help="What jobs ask for.", show_default="a new one")] = "",
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep nodes from a time on; jobs ask for them with submit --reservation NAME.

    Example: malleable reserve --nodes 4 --start 18:00 --for 2h --users anna
    """
    if context.invoked_subcommand is not None:
        return
    if (nodes is None) == (named is None):
        raise CliError("--nodes or --node-names", "a reservation needs one of them", "for example --nodes 4")
    if duration is None:
        raise CliError("--for is missing", "a reservation lasts for some time", "for example --for 2h")
    now = clock.here()
    begins = clock.moment("--start", start, now)
    lasts_s = clock.seconds("--for", duration)
    if lasts_s <= 0:
        raise CliError(f"--for {duration}", "a reservation lasts for some time", "for example --for 2h")
    kept = client(state).reserve(
        Reserve(
            in_s=(begins - now).total_seconds(),
            duration_s=lasts_s,
            nodes=nodes,
            named=_names(named),
            name=name,
            users=_names(users),
            jobs=numbers("--jobs", jobs) or (),
        )
    )
    if as_json:
        print_json(kept)
        return
    who = " and ".join(filter(None, (", ".join(kept.users), "the jobs named" if jobs else ""))) or "everybody"
    typer.echo(
        f"{kept.name}: {words.plural(len(kept.nodes), 'node')} ({words.some(kept.nodes)}) "
        f"from {clock.shown(begins, now)} for {words.seconds(lasts_s)}, for {who}"
    )
    typer.echo(f"jobs ask for it with: malleable submit --reservation {kept.name} ...")


@commands.command("list")
def list_(state: ReachOption = None, as_json: JsonOption = False) -> None:
    """List the reservations that are not over.

    Example: malleable reserve list
    """
    snapshot = client(state).snapshot()
    if as_json:
        print_json(snapshot.reservations)
    elif snapshot.reservations:
        print_rich(table(snapshot))
    else:
        typer.echo("nothing is reserved")


@commands.command()
def cancel(
    name: Annotated[str, typer.Argument(help="Name of the reservation.")],
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep the nodes no longer; jobs that wait for them wait on as others do, and those that run go on.

    Example: malleable reserve cancel r1
    """
    text = client(state).manage(Unreserve(name=name))
    if as_json:
        print_json({"reservation": name, "done": text})
    else:
        typer.echo(text)


def table(snapshot: Snapshot) -> Table:
    """Return the reservations as a table, in the user's time."""
    found = Table(box=None, pad_edge=False)
    for head in ("RESERVATION", "STATE", "FROM", "TO", "NODES", "USERS", "JOBS"):
        found.add_column(head, no_wrap=True)
    now = clock.here()
    for kept in snapshot.reservations:
        found.add_row(
            kept.name,
            "now" if kept.started else "to come",
            clock.local(kept.start_s, snapshot.now_s, now),
            clock.local(kept.end_s, snapshot.now_s, now),
            f"{len(kept.nodes)}: {words.some(kept.nodes)}",
            ", ".join(kept.users) or "everybody",
            words.some([str(job) for job in kept.jobs]) or "-",
        )
    return found


def line(kept: ReservationStatus, snapshot: Snapshot) -> str:
    """Say in one line what is reserved when."""
    now = clock.here()
    until = clock.local(kept.end_s, snapshot.now_s, now)
    if kept.started:
        return f"{kept.name} until {until}"
    return f"{kept.name} from {clock.local(kept.start_s, snapshot.now_s, now)} to {until}"


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
