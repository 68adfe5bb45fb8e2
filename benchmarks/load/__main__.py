"""Measure the scheduler under load: ``python -m benchmarks.load``."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Final

from apgas.errors import extras_named

with extras_named():
    import msgspec
    import typer

    from scheduler_bridge.daemon.config import DaemonError

    from ..compare import command_line
    from ..compare.display import Sheet, show_sheets
    from ..harness.errors import show_error
    from .measure import Load, Measurement, measure

_QUICK: Final = Load(queued=500, connected=50, rate=500, seconds=2)


def _command(
    load: Load,
    quick: Annotated[bool, typer.Option("--quick", help="Try it in a small way: 500 jobs, 50 connected.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Measure a scheduler of its own under load; the jobs are connections only, nothing is computed.

    Example: python -m benchmarks.load --quick
    """
    try:
        with command_line.interruptible():
            report = measure(_QUICK if quick else load, lambda text: typer.echo(text, err=True))
    except (DaemonError, RuntimeError, TimeoutError) as error:
        show_error("the scheduler cannot be measured", str(error), getattr(error, "hint", ""))
        return 1
    if json:
        figures = {**msgspec.to_builtins(report), "goals": report.goals()}
        typer.echo(msgspec.json.format(msgspec.json.encode(figures), indent=1).decode())
    else:
        show_measurement(report)
    return 0


main = partial(command_line.main, f"python -m {__package__}", _command)


def show_measurement(report: Measurement) -> None:
    """Print a report for people: goals, events, spreads of times."""
    daemon = report.daemon
    goals = [[goal.what, goal.goal, goal.reached, "met" if goal.met else "MISSED"] for goal in report.goals()]
    events = [[kind.what, f"{kind.count:,}", f"{kind.count / daemon.wall_s:,.0f}"] for kind in report.events]
    handled = sum(kind.count for kind in report.events if kind.handled)
    events.append(["all but progress: what the core handles", f"{handled:,}", f"{report.per_s(handled=True):,.0f}"])
    spreads = [
        [what, str(spread.count), *(f"{seconds * 1e3:.2f}" for seconds in (spread.p50_s, spread.p99_s, spread.max_s))]
        for what, spread in (
            ("a decision", daemon.decision),
            ("a message, and what it led to", daemon.message),
            ("a write to the log", daemon.commit),
            ("a picture of the queue", daemon.picture),
            ("the event loop being late", daemon.stall),
            ("a job's request until its answer", report.answer),
            ("malleable queue", report.queue),
        )
    ]
    show_sheets(
        "A scheduler under load",
        [
            Sheet(("", "GOAL", "REACHED", ""), "lrrl", [goals]),
            Sheet(("EVENTS", "COUNT", "A SECOND"), "lrr", [events]),
            Sheet(("SECONDS OF", "TIMES", "p50 ms", "p99 ms", "MAX ms"), "lrrrr", [spreads]),
        ],
        [
            (
                f"the daemon, over {daemon.wall_s:.1f} s: {daemon.cpu_s / daemon.wall_s:.0%} of a core, "
                f"{daemon.memory_bytes / 1e6:.0f} MB, {daemon.open_files} open files; "
                f"{daemon.cpu_s / max(1.0, report.per_s() * daemon.wall_s) * 1e6:.0f} us of CPU time an event"
            ),
            (
                f"{report.decisions_per_s:.0f} decisions, {report.resizes_per_s:.0f} resizes a second; "
                f"{report.submits_per_s:.0f} jobs a second were queued; policy {report.policy}, {report.nodes} nodes"
            ),
            f"{report.cores} cores, of which {report.busy_before:.1f} were asked for before this began",
            "stand-ins: no processes of jobs; one process speaks for all of them, on the same machine",
        ],
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
