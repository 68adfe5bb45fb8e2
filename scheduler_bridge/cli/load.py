"""``malleable load``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from scheduler_bridge.cli.common import CliError, JsonOption, print_json, print_rich
from scheduler_bridge.live.load import Plan, Report, measure
from scheduler_bridge.live.load.figures import Spread

_FULL = Plan()
_QUICK = Plan(queued=500, connected=50, rate=500, seconds=2)


def load(
    queued: Annotated[int, typer.Option(min=0, help="Jobs that wait.")] = _FULL.queued,
    connected: Annotated[int, typer.Option(min=1, help="Malleable jobs that run and are connected.")] = _FULL.connected,
    rate: Annotated[float, typer.Option(help="Events a second.")] = _FULL.rate,
    requests: Annotated[
        float, typer.Option(min=0, max=1, help="Share of them that asks for nodes, or offers some.")
    ] = _FULL.requests,
    ends: Annotated[
        float, typer.Option(min=0, max=1, help="Share of them by which a job ends; one comes for it.")
    ] = _FULL.ends,
    seconds: Annotated[float, typer.Option(help="How long.")] = _FULL.seconds,
    policy: Annotated[str, typer.Option(help="What decides.")] = _FULL.policy,
    quick: Annotated[bool, typer.Option("--quick", help="Try it in a small way: 500 jobs, 50 connected.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure a scheduler of its own under load; the jobs are connections only, nothing is computed.

    Example: malleable load --quick
    """
    try:
        plan = _QUICK if quick else Plan(queued, connected, rate, requests, ends, seconds, policy)
    except ValueError as error:
        raise CliError(str(error), hint="malleable load --help") from None
    report = measure(plan, lambda text: typer.echo(text, err=True))
    if as_json:
        print_json({**_builtins(report), "goals": report.goals()})
        return
    show(report)


def show(report: Report) -> None:
    """Print a report for people."""
    daemon = report.daemon
    print_rich(_goals(report))
    typer.echo()
    print_rich(_events(report))
    typer.echo()
    print_rich(_spreads(report))
    typer.echo(
        f"\nthe daemon, over {daemon.wall_s:.1f} s: {daemon.cpu_s / daemon.wall_s:.0%} of a core, "
        f"{daemon.memory_bytes / 1e6:.0f} MB, {daemon.open_files} open files; "
        f"{daemon.cpu_s / max(1.0, report.per_s() * daemon.wall_s) * 1e6:.0f} us of CPU time an event\n"
        f"{report.decisions_per_s:.0f} decisions, {report.resizes_per_s:.0f} resizes a second; "
        f"{report.submits_per_s:.0f} jobs a second were queued; policy {report.policy}, {report.nodes} nodes\n"
        f"{report.cores} cores, of which {report.busy_before:.1f} were asked for before this began\n"
        "stand-ins: no processes of jobs; one process speaks for all of them, on the same machine"
    )


def _goals(report: Report) -> Table:
    table = _table("", "GOAL", "REACHED", "")
    for goal in report.goals():
        table.add_row(goal.what, goal.goal, goal.reached, "met" if goal.met else "missed")
    return table


def _events(report: Report) -> Table:
    table = _table("EVENTS", "COUNT", "A SECOND")
    rows = [(kind.what, kind.count, kind.count / report.daemon.wall_s) for kind in report.events]
    for what, count, per_s in rows:
        table.add_row(what, f"{count:,}", f"{per_s:,.0f}")
    handled = sum(kind.count for kind in report.events if kind.handled)
    table.add_row("all but progress: what the core handles", f"{handled:,}", f"{report.per_s(handled=True):,.0f}")
    return table


def _spreads(report: Report) -> Table:
    table = _table("SECONDS OF", "TIMES", "p50 ms", "p99 ms", "MAX ms")
    daemon = report.daemon
    for what, spread in (
        ("a decision", daemon.decision),
        ("a message, and what it led to", daemon.message),
        ("a write to the log", daemon.commit),
        ("a picture of the queue", daemon.picture),
        ("the event loop being late", daemon.stall),
        ("a job's request until its answer", report.answer),
        ("malleable queue", report.queue),
    ):
        table.add_row(*(Text(cell) for cell in (what, str(spread.count), *_milliseconds(spread))))
    return table


def _milliseconds(spread: Spread) -> list[str]:
    return [f"{seconds * 1e3:.2f}" for seconds in (spread.p50_s, spread.p99_s, spread.max_s)]


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for head in others:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def _builtins(report: Report) -> dict[str, object]:
    import msgspec

    return dict(msgspec.to_builtins(report))
