"""What an experiment ends in: tables, figures and remarks, as CSV, PNG and one HTML page."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from scheduler_bridge.atomic_write import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value: TypeAlias = str | int | float | None


@dataclass(frozen=True, slots=True)
class DataTable:
    """A tidy table.

    Attributes:
        name: Of its file, without an ending.
        title: For people.
        columns: Their names, with units.
        rows: As many values as columns.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def csv(self) -> str:
        """The table as CSV; what is not known is empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(["" if value is None else value for value in row] for row in self.rows)
        return text.getvalue()


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure, and what is said of it.

    Attributes:
        figure: As drawn.
        caption: What its marks are, and of how many runs.
        alt: What it shows, for those who do not see it; as little as they need besides the caption and the tables.
    """

    figure: Figure
    caption: str
    alt: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an experiment found.

    Attributes:
        name: Of the experiment.
        title: Of the page.
        verdict: One sentence.
        remarks: What to know: where we differ from the paper, and why.
        tables: The first one is shown on the terminal.
        figures: By name of their file, without an ending.
        passed: Whether what the experiment claims holds.
        provenance: Where the numbers come from: seeds, versions, the machine.
    """

    name: str
    title: str
    verdict: str
    remarks: tuple[str, ...]
    tables: tuple[DataTable, ...]
    figures: Mapping[str, Picture]
    passed: bool
    provenance: Mapping[str, str] = field(default_factory=dict)


def shown(value: Value) -> str:
    """A value for people."""
    match value:
        case None:
            return "-"
        case float():
            return f"{value:,.1f}"
        case _:
            return str(value)


def write_outcome(outcome: Outcome, folder: Path, *, reproduce: str) -> list[Path]:
    """Write the tables as CSV, the figures as PNG, and ``report.html`` with all of them.

    Args:
        outcome: What was found.
        folder: Made if it is not there.
        reproduce: The command that leads here.

    Returns:
        The files.

    Raises:
        OSError: They cannot be written.
    """
    from scheduler_bridge.experiments.page import render
    from scheduler_bridge.report.sheet import png

    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for table in outcome.tables:
        written.append(folder / f"{table.name}.csv")
        write_whole(written[-1], table.csv().encode())
    for name, picture in outcome.figures.items():
        written.append(folder / f"{name}.png")
        write_whole(written[-1], png(picture.figure))
    written.append(folder / "report.html")
    write_whole(written[-1], render(outcome, reproduce).encode())
    return written
