"""The report that an experiment ends in: tables, figures and remarks, as CSV, PNG and one HTML page."""

from __future__ import annotations

import csv
import io
import itertools
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final, TypeAlias

from apgas.provenance import commit, cpu_model, version
from scheduler_bridge.atomic_write import write_whole
from scheduler_bridge.experiments.sweep import Origin, Row
from scheduler_bridge.report.page import Cell, escape, inline, page, part, scrolling, table

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
class StudyReport:
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
        summary: What a terminal of 80 columns shows instead of the first tables; None: these fit.
    """

    name: str
    title: str
    verdict: str
    remarks: tuple[str, ...]
    tables: tuple[DataTable, ...]
    figures: Mapping[str, Picture]
    passed: bool
    provenance: Mapping[str, str] = field(default_factory=dict)
    summary: DataTable | None = None


def shown(value: Value) -> str:
    """A value for people."""
    match value:
        case None:
            return "-"
        case float():
            return f"{value:,.1f}"
        case _:
            return str(value)


def write_report(report: StudyReport, folder: Path, *, reproduce: str) -> list[Path]:
    """Write the tables as CSV, the figures as PNG, and ``report.html`` with all of them.

    Args:
        report: What was found.
        folder: Made if it is not there.
        reproduce: The command that leads here.

    Returns:
        The files.

    Raises:
        OSError: They cannot be written.
    """
    from scheduler_bridge.report.charts import write_png

    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for data in report.tables:
        written.append(folder / f"{data.name}.csv")
        write_whole(written[-1], data.csv().encode())
    for name, picture in report.figures.items():
        written.append(folder / f"{name}.png")
        write_png(picture.figure, written[-1])
    written.append(folder / "report.html")
    write_whole(written[-1], render(report, reproduce).encode())
    return written


# The page: one HTML file that opens from disk and fetches nothing ----------------------------------------------------
#
# Its fixed parts are in ``page.html``, and those of the page about a run; what a report says is escaped here.

_HERE: Final = "scheduler_bridge.experiments"
_LONG: Final = 30
"""Texts of more characters have a wide column, also on a narrow screen."""


def render(report: StudyReport, reproduce: str) -> str:
    """Write the page.

    Args:
        report: What was found.
        reproduce: The command that leads here.
    """
    body = Template(part("page.html", _HERE)).substitute(
        title=escape(report.title),
        verdict=escape(report.verdict),
        contents=_contents(report.tables),
        figures="\n".join(_figure(name, picture) for name, picture in report.figures.items()),
        remarks=_remarks(report.remarks),
        tables="\n".join(map(_table, report.tables)),
        provenance=_provenance({**report.provenance, **here()}),
        reproduce=escape(reproduce),
    )
    return page(report.title, body, part("page.css", _HERE))


def _contents(tables: Sequence[DataTable]) -> str:
    links = [f'<a href="#{escape(data.name, quote=True)}">{escape(data.title)}</a>' for data in tables]
    links += ['<a href="#provenance">Where this comes from</a>', '<a href="#reproduce">How to reproduce it</a>']
    return " · ".join(links)


def _figure(name: str, picture: Picture) -> str:
    alt = f"{picture.alt} The numbers are in the tables."
    svg = inline(picture.figure, alt, prefix=name)
    box = scrolling(svg, "Picture").replace('class="scroll"', 'class="scroll picture"', 1)
    return f"<figure>{box}<figcaption>{escape(picture.caption)}</figcaption></figure>"


def _remarks(remarks: Sequence[str]) -> str:
    listed = "".join(f"<li>{escape(remark)}</li>" for remark in remarks)
    return f'<h2 id="remarks">What to know</h2><ul class="remarks">{listed}</ul>' if remarks else ""


def _table(data: DataTable) -> str:
    rows = [[_cell(value) for value in row] for row in data.rows]
    built = table(f"table-{data.name}", f"Also in {data.name}.csv.", data.columns, rows, sortable=True)
    return f'<h2 id="{escape(data.name, quote=True)}">{escape(data.title)}</h2>{scrolling(built, data.title)}'


def _cell(value: Value) -> Cell:
    text = shown(value)
    number = value if isinstance(value, (int, float)) else None
    return Cell(text, number, "long" if len(text) > _LONG else "")


def _provenance(facts: Mapping[str, str]) -> str:
    rows = [[Cell(name), Cell(value)] for name, value in facts.items()]
    return scrolling(table("table-provenance", "Seeds, versions, machine.", ("What", "Value"), rows), "Provenance")


# Where the numbers come from -----------------------------------------------------------------------------------------

_PACKAGES: Final = ("numpy", "matplotlib")


def of_rows(rows: Sequence[Row]) -> dict[str, str]:
    """Describe simulations: how many there are, their seeds, with what and where they were run.

    Args:
        rows: Also of several versions and machines: what an earlier run has found is not simulated again.
    """
    origins = [row.origin for row in rows if row.origin is not None]
    facts = {"simulations": f"{len(rows):,}", "seeds": listed(row.cell.seed for row in rows)}
    if origins:
        facts["simulations took"] = f"{sum(origin.seconds for origin in origins):,.1f} s in all"
        facts["simulated with"] = "; ".join(dict.fromkeys(map(_spoken, origins)))
    return facts


def here() -> dict[str, str]:
    """Describe this process, which makes the report: versions, the commit, the machine."""
    known = [f"{name} {found}" for name in _PACKAGES if (found := version(name))]
    ours = _project(version("malleable-apgas") or "", commit(Path(__file__).parent) or "")
    return {
        "reported with": f"{ours}, Python {platform.python_version()}, {', '.join(known)}",
        "reported on": f"{cpu_model()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
    }


def listed(seeds: Iterable[int]) -> str:
    """Numbers in words, neighbours as a range: ``0, 3-5``."""
    ranges: list[str] = []
    for _, group in itertools.groupby(enumerate(sorted(set(seeds))), lambda pair: pair[1] - pair[0]):
        run = [seed for _, seed in group]
        ranges.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(ranges)


def _spoken(origin: Origin) -> str:
    return f"{_project(origin.version, origin.commit)}, Python {origin.python}, on {origin.cpu}"


def _project(number: str, checked_out: str) -> str:
    name = f"malleable-apgas {number}".strip()
    return f"{name}, commit {checked_out[:12]}" if checked_out else f"{name}, outside of a checkout"
