"""The table at the end of a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from benchmarks.harness.progress import scaled

if TYPE_CHECKING:
    from pathlib import Path

    from apgas import ResizeRecord
    from benchmarks.harness.measurement import Measurement


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
    change = f"{'+' if record.kind == 'grow' else '-'}{record.n} at {record.at_s:.1f} s"
    if record.outcome != "done":
        return f"{change}: {record.outcome.replace('_', ' ')}, {record.reason}"
    phases = ", ".join(f"{name} {1000 * seconds:.0f}" for name, seconds in record.phases.items())
    return f"{change}: {1000 * record.seconds:.0f} ms ({phases})"
