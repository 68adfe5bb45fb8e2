"""The table at the end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from ..harness.figures import ratio_written, written
from ..harness.goals import OURS
from ..harness.tables import coloured, print_whole
from .catalogue import LABELS, PEERS
from .results import Line, Results


def columns(results: Results) -> list[str]:
    """Return the peers that have a figure somewhere, in the order of the catalogue."""
    return [name for name in PEERS if any(line.rounds.get(name) for line in results.lines)]


def row(line: Line, peers: list[str]) -> list[str]:
    """Return the cells of a line: what, ours, floor, each of ``peers``, goals, verdicts."""
    unit = line.quantity.unit
    floor = "" if line.floor is None else _cell(line, line.floor, f" {LABELS[line.floor]}")
    verdicts = line.verdicts
    return [
        line.quantity.title,
        written(line.medians[OURS], unit) if OURS in line.medians else "-",
        floor,
        *(_cell(line, name) for name in peers),
        "\n".join(verdict.goal.spoken(LABELS, unit) for verdict in verdicts),
        "\n".join(verdict.spoken(unit) for verdict in verdicts),
    ]


def _cell(line: Line, name: str, suffix: str = "") -> str:
    if name not in line.medians:
        return "-" if name in line.rounds else ""
    text = written(line.medians[name], line.quantity.unit) + suffix
    return f"{text}\n({ratio_written(line.ratios[name])})" if name in line.ratios else text


def remarks(results: Results) -> list[str]:
    """Return the lines below the table: who is missing, what failed, how to read it."""
    rounds = "1 round" if results.rounds == 1 else f"{results.rounds} interleaved rounds"
    lines = [f"medians of {rounds}; in brackets: ours over theirs", *results.notes]
    lines += [f"{LABELS[name]}: {reason}" for name, reason in results.missing.items()]
    failed: dict[tuple[str, str], list[str]] = {}
    for (measure, name), reason in results.failures.items():
        failed.setdefault((name, reason), []).append(measure)
    return lines + [
        f"{LABELS[name]} FAILED in {', '.join(measures)}: {reason}" for (name, reason), measures in failed.items()
    ]


def show(results: Results, path: Path | None, stream: TextIO | None = None) -> None:
    """Write the table, the remarks, and where the JSON file is, to standard output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream or sys.stdout, highlight=False)
    peers = columns(results)
    table = Table(title="What the runtime costs", title_justify="left", title_style="bold", show_lines=True)
    table.add_column("what", style="bold")
    for name in ("ours", "floor", *(LABELS[peer] for peer in peers)):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("goal", no_wrap=True)
    table.add_column("reached", no_wrap=True)
    for line in results.lines:
        *cells, verdicts = row(line, peers)
        table.add_row(*map(Text, cells), coloured(verdicts))
    print_whole(console, table, remarks(results), path)
