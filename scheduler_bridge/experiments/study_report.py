"""The results that an experiment ends in, as CSV, PNG and one HTML page, and a note of where they come from."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from apgas.provenance import commit, cpu_model, unchanged, version
from scheduler_bridge.atomic_write import write_whole
from scheduler_bridge.experiments.sweep import Origin, Row
from scheduler_bridge.report.looks import runs_of
from scheduler_bridge.report.page import Cell, escape, inline, page, part, scrolling, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Value: TypeAlias = str | int | float | None


@dataclass(frozen=True, slots=True)
class DataTable:
    """A tidy table; its name is that of its file, without an ending, and columns are named with units."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]

    def csv(self) -> str:
        """The table as CSV; what is not known is empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
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
        data: The files of reference data that were read.
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
    data: tuple[Path, ...] = ()


def there(data: Path | None, names: Iterable[str]) -> tuple[Path, ...]:
    """Those files of the reference data that are there; ``data``: their folder, None: none is given."""
    return () if data is None else tuple(path for name in names if (path := data / name).exists())


def shown(value: Value) -> str:
    """A value for people."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


NOTE: Final = "results.json"
"""The file beside the results that says where they come from."""


def write_report(report: StudyReport, folder: Path, *, reproduce: str) -> list[Path]:
    """Write the tables as CSV, the figures as PNG, ``report.html`` with all of them, and ``results.json``.

    Args:
        report: What was found.
        folder: Made if it is not there.
        reproduce: The command that leads here.

    Returns:
        The files.

    Raises:
        OSError: They cannot be written, or the reference data cannot be read.
    """
    from scheduler_bridge.report.charts import png

    folder.mkdir(parents=True, exist_ok=True)
    note = origin_of(report, reproduce)
    written = {f"{data.name}.csv": data.csv().encode() for data in report.tables}
    written |= {f"{name}.png": png(picture.figure) for name, picture in report.figures.items()}
    written["report.html"] = render(report, note).encode()
    note["files"] = sorted(written)
    written[NOTE] = f"{json.dumps(note, indent=2, ensure_ascii=False)}\n".encode()
    for name, content in written.items():
        write_whole(folder / name, content)
    return [folder / name for name in written]


# The page: one HTML file that opens from disk and fetches nothing ----------------------------------------------------
#
# Its fixed parts are in ``page.html``, and those of the page about a run; what a report says is escaped here.

_HERE: Final = "scheduler_bridge.experiments"
_LONG: Final = 30
"""Texts of more characters have a wide column, also on a narrow screen."""


def render(report: StudyReport, note: Mapping[str, Any]) -> str:
    """Write the page; ``note`` says where all of it comes from, see ``origin_of``."""
    links = [f'<a href="#{escape(data.name, quote=True)}">{escape(data.title)}</a>' for data in report.tables]
    links += ['<a href="#provenance">Where this comes from</a>', '<a href="#reproduce">How to reproduce it</a>']
    body = Template(part("page.html", _HERE)).substitute(
        title=escape(report.title),
        verdict=escape(report.verdict),
        contents=" · ".join(links),
        figures="\n".join(_figure(name, picture) for name, picture in report.figures.items()),
        remarks=_remarks(report.remarks),
        tables="\n".join(map(_table, report.tables)),
        provenance=_provenance(note["from"]),
        reproduce=escape(note["command"]),
    )
    return page(report.title, body, part("page.css", _HERE))


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


def _provenance(facts: Mapping[str, Any]) -> str:
    rows = [[Cell(name), Cell(_in_words(value))] for name, value in facts.items()]
    return scrolling(table("table-provenance", "Seeds, versions, machine.", ("What", "Value"), rows), "Provenance")


# Where the numbers come from -----------------------------------------------------------------------------------------

_PACKAGES: Final = ("malleable-apgas", "numpy", "matplotlib")


def of_rows(rows: Sequence[Row]) -> dict[str, str]:
    """Describe simulations: how many there are, their seeds, with what and where they were run.

    That may be several versions and machines: what an earlier run has found is not simulated again.
    """
    origins = [row.origin for row in rows if row.origin is not None]
    facts = {"simulations": f"{len(rows):,}", "seeds": listed(row.cell.seed for row in rows)}
    if origins:
        facts["simulations took"] = f"{sum(origin.seconds for origin in origins):,.1f} s in all"
        facts["simulated with"] = "; ".join(dict.fromkeys(map(_spoken, origins)))
    return facts


def origin_of(report: StudyReport, command: str) -> dict[str, Any]:
    """Say where results come from, for ``results.json`` and the page.

    Args:
        report: What was found, in this process or by simulations and runs that were kept.
        command: That leads here.

    Returns:
        The experiment, the command, the verdict, remarks, how many claims have which, and ``from``: what the study says
        of its simulations or runs, the digests of the reference data, and this process: day, commit, versions, machine.

    Raises:
        OSError: The reference data cannot be read.
    """
    claims = [data for data in report.tables if data.name == "claims"]
    words = Counter(str(row[data.columns.index("verdict")]) for data in claims for row in data.rows)
    return {
        "experiment": report.name,
        "command": command,
        "verdict": report.verdict,
        "remarks": list(report.remarks),
        "claims": dict(words),
        "from": {
            **report.provenance,
            "data": {path.name: f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in report.data},
            **here(),
        },
    }


def here() -> dict[str, Any]:
    """Describe this process, which makes the report: the day, the commit, versions, the machine.

    ``unchanged`` says whether the code is that of the commit, and is null outside of a checkout.
    """
    folder = Path(__file__).parent
    packages = {name: found for name in _PACKAGES if (found := version(name))}
    return {
        "reported on": datetime.now(UTC).date().isoformat(),
        "commit": commit(folder),
        "unchanged": unchanged(folder),
        "versions": {"python": platform.python_version(), **packages},
        "machine": f"{cpu_model()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
    }


def _in_words(value: object) -> str:
    match value:
        case Mapping():
            return ", ".join(f"{name} {found}" for name, found in value.items()) or "none"
        case bool():
            return "yes" if value else "no"
        case None:
            return "outside of a checkout"
        case _:
            return str(value)


def listed(seeds: Iterable[int]) -> str:
    """Numbers in words, neighbours as a range: ``0, 3-5``."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs_of(set(seeds)))


def _spoken(origin: Origin) -> str:
    project = f"malleable-apgas {origin.version}".strip()
    where = f"commit {origin.commit[:12]}" if origin.commit else "outside of a checkout"
    return f"{project}, {where}, Python {origin.python}, on {origin.cpu}"
