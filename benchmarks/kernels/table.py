"""The table at the end: a block per measure, a line per contender and quantity."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from ..harness.figures import ratio_written, written
from ..harness.tables import coloured, print_whole
from .results import Line, Results


def rows(line: Line) -> list[list[str]]:
    """Return the cells of a block: contender, rate, how many times as fast we are, goals, verdicts."""
    unit = line.quantity.unit
    medians, ratios = line.medians, line.ratios
    cells = [
        [
            contender.label,
            written(medians[contender.name], unit),
            ratio_written(ratios[contender.name]) if contender.name in ratios else "",
            "",
            "",
        ]
        for contender in line.measure.contenders
        if contender.name in medians
    ]
    if cells:
        verdicts = line.verdicts
        cells[0][3] = "\n".join(verdict.goal.spoken(line.labels, unit) for verdict in verdicts)
        cells[0][4] = "\n".join(verdict.spoken(unit) for verdict in verdicts)
    return cells


def remarks(results: Results) -> list[str]:
    """Return the lines below the table: how to read it, and who is missing."""
    rounds = "1 round" if results.rounds == 1 else f"{results.rounds} interleaved rounds"
    lines = [f"medians of {rounds}, per CPU-second of one core; ratios: ours over theirs"]
    lines += [measure.rule for measure in results.measures]
    labels = {(each.name, one.name): one.label for each in results.measures for one in each.contenders}
    return lines + [f"{labels[key]} ({key[0]}): {reason}" for key, reason in results.missing.items()]


def show(results: Results, path: Path | None, stream: TextIO | None = None) -> None:
    """Write the table, the remarks, and where the JSON file is, to standard output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream or sys.stdout, highlight=False)
    table = Table(title="What the kernels do", title_justify="left", title_style="bold")
    table.add_column("kernel", style="bold")
    table.add_column("contender")
    table.add_column("rate", justify="right", no_wrap=True)
    table.add_column("ours is", justify="right", no_wrap=True)
    table.add_column("goal", no_wrap=True)
    table.add_column("reached", no_wrap=True)
    for line in results.lines:
        title = f"{line.measure.title(results.quick)}:\n{line.quantity.title}"
        for number, (*cells, verdicts) in enumerate(rows(line)):
            table.add_row(Text(title if number == 0 else ""), *map(Text, cells), coloured(verdicts))
        table.add_section()
    print_whole(console, table, remarks(results), path)
