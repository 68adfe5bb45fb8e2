"""The table at the end of a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, TextIO

from .progress import scaled

if TYPE_CHECKING:
    from pathlib import Path

    from apgas import ResizeRecord

    from .measurement import Measurement


WIDTH: Final = 130
"""A table of statistics is not cut, even if the terminal is narrower."""


def headline(measurement: Measurement) -> str:
    """Return the result in one line."""
    parameters = ", ".join(f"{name} {value}" for name, value in measurement.parameters.items())
    return f"{measurement.benchmark} ({parameters}): {spoken(measurement.result)} {measurement.noun}".rstrip()


def spoken(value: object) -> str:
    """Write a result for people: digits of whole numbers in groups."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {spoken(part)}" for name, part in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def show(measurement: Measurement, path: Path | None, stream: TextIO | None = None) -> None:
    """Write the table, and where the JSON result is, to standard output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream or sys.stdout, highlight=False, soft_wrap=True)
    table = Table(show_header=False, title=headline(measurement), title_justify="left", title_style="bold")
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows(measurement):
        table.add_row(name, Text(text))
    console.print(table)
    if path is not None:
        console.print(Text(f"result file: {path}"))


def show_statistics(measurement: Measurement, stream: TextIO | None = None) -> None:
    """Write what each place did in the last computation, and a sentence on it, to standard output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from glb import statistics

    if measurement.total is None:
        return
    console = Console(file=stream or sys.stdout, highlight=False, soft_wrap=True)
    table = Table(title="What the places did", title_justify="left", title_style="bold")
    for head in statistics.HEADS:
        table.add_column(head, justify="right", no_wrap=True)
    *places, total = statistics.rows(measurement.counts, measurement.total)
    for cells in places:
        table.add_row(*map(Text, cells))
    table.add_section()
    table.add_row(*map(Text, total), style="bold")
    console.width = max(console.width, WIDTH)
    console.print(table)
    console.print(Text(statistics.finding(measurement.counts, measurement.total)))


def rows(measurement: Measurement) -> list[tuple[str, str]]:
    """Return the lines of the table: name and text."""
    runs = measurement.runs_s
    seconds = f"{measurement.seconds:.3f} s"
    if len(runs) > 1:
        seconds += f" (median of {len(runs)}: {min(runs):.3f} to {max(runs):.3f} s)"
    rule = f" ({measurement.rule})" if measurement.rule else ""
    lines = [
        ("verified", _verdict(measurement)),
        ("places", f"{measurement.places_start} -> {measurement.places_end}, {measurement.workers} worker(s) each"),
        ("seconds", seconds),
        ("rate", f"{scaled(measurement.rate)} {measurement.unit}/s{rule}"),
        ("steals", f"{measurement.steals:,}"),
    ]
    return lines + [("resize", _resize(record)) for record in measurement.resizes] + list(measurement.notes)


def _verdict(measurement: Measurement) -> str:
    match measurement.verified:
        case True:
            return f"yes, against {measurement.checked_against}"
        case False:
            return f"NO: {measurement.checked_against}"
        case None:
            return measurement.checked_against


def _resize(record: ResizeRecord) -> str:
    sign = {"grow": "+", "shrink": "-", "workers": "workers="}[record.kind]
    change = f"{sign}{record.n} at {record.at_s:.1f} s"
    if record.outcome != "done":
        return f"{change}: {record.outcome.replace('_', ' ')}, {record.reason}"
    if not record.phases:
        return f"{change}: {1000 * record.seconds:.0f} ms"
    phases = ", ".join(f"{name} {1000 * seconds:.0f}" for name, seconds in record.phases.items())
    return f"{change}: {1000 * record.seconds:.0f} ms ({phases})"
