"""The table at the end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, TextIO

from ...harness.goals import written
from ...harness.progress import scaled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .engine import Job, Machine
    from .sweep import Point, Sweep

_WIDEST: Final = 400
_FINISH: Final = {
    "home": "reports go to place 0, as in the runtime",
    "tree": "reports go up a tree, which the runtime does not have",
    "none": "no reports: the stealing alone",
}


def conditions(machine: Machine, base: Job) -> str:
    """Return what the figures depend on, in one line."""
    return (
        f"{base.work_s:g} s of work per place, calls of {1e3 * machine.call_s:g} ms, latency "
        f"{1e6 * machine.latency_s:g} µs, {1e6 * machine.message_s:g} µs of CPU per message and end"
    )


def graph_name(job: Job) -> str:
    """Name the lifeline graph of a job."""
    return "ring" if job.lifelines == "ring" else f"{job.lifelines} {job.radix}"


def row(name: str, point: Point) -> list[str]:
    """Return the cells of a run."""
    return [
        name,
        f"{100 * point.efficiency:.1f} %",
        f"{100 * point.balance:.1f} %",
        f"{point.steals:.1f}",
        f"{point.messages:.0f}",
        scaled(point.home_messages),
        "-" if point.spread_s is None else written(point.spread_s, "s"),
        written(point.end_s, "s"),
    ]


def show(sweep: Sweep, points: Mapping[Job, Point], machine: Machine, base: Job, stream: TextIO | None = None) -> None:
    """Write the table to standard output."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    console = Console(file=stream or sys.stdout, highlight=False, soft_wrap=True)
    table = Table(title="SIMULATED: the balancer on many places", title_justify="left", title_style="bold")
    table.add_column("places", no_wrap=True)
    for name in ("efficiency", "to last task", "steals/place", "messages/place", "at place 0", "spread", "end"):
        table.add_column(name, justify="right", no_wrap=True)
    for finish in dict.fromkeys(job.finish for job in sweep.sizes):
        _section(table, _FINISH[finish], [(f"{j.places:,}", points[j]) for j in sweep.sizes if j.finish == finish])
    at = sweep.steals[0].places
    _section(table, f"{at:,} places, w =", [(str(job.random_steals), points[job]) for job in sweep.steals])
    _section(table, f"{at:,} places, lifelines", [(graph_name(job), points[job]) for job in sweep.graphs])
    # a line that is too long for the terminal is better than one that is cut
    console.width = max(Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum, 80)
    console.print(table)
    console.print(f"simulated: {conditions(machine, base)}; w = {base.random_steals}, {graph_name(base)} unless said")
    console.print("spread: until 99 % of the places have had work; end: from the last task to the result on place 0")


def _section(table: object, title: str, rows: Sequence[tuple[str, Point]]) -> None:
    from rich.table import Table

    assert isinstance(table, Table)
    table.add_section()
    table.add_row(title, style="dim")
    for name, point in rows:
        table.add_row(*row(name, point))
