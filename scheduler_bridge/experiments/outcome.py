"""What an experiment ends in: tables, figures and remarks, as CSV, PNG and one HTML page that fetches nothing."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value: TypeAlias = str | int | float | None

_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}"
    "td,th{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #e2e2e2}"
    "td{white-space:nowrap}td:first-child,th:first-child{text-align:left}figure{margin:1rem 0}img{max-width:100%}"
    ".scroll{overflow-x:auto}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}"
)


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

    def html(self) -> str:
        """The table as HTML."""
        head = "".join(f"<th>{escape(column)}</th>" for column in self.columns)
        body = "".join(f"<tr>{''.join(f'<td>{escape(shown(value))}</td>' for value in row)}</tr>" for row in self.rows)
        return f"<h2>{escape(self.title)}</h2><div class=scroll><table><tr>{head}</tr>{body}</table></div>"


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
    """

    name: str
    title: str
    verdict: str
    remarks: tuple[str, ...]
    tables: tuple[DataTable, ...]
    figures: dict[str, Figure]
    passed: bool


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
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for table in outcome.tables:
        written.append(folder / f"{table.name}.csv")
        written[-1].write_text(table.csv(), encoding="utf-8")
    pictures: dict[str, bytes] = {}
    for name, figure in outcome.figures.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
        pictures[name] = buffer.getvalue()
        written.append(folder / f"{name}.png")
        written[-1].write_bytes(pictures[name])
    written.append(folder / "report.html")
    written[-1].write_text(_page(outcome, pictures, reproduce), encoding="utf-8")
    return written


def _page(outcome: Outcome, pictures: dict[str, bytes], reproduce: str) -> str:
    images = "".join(
        f'<figure><img alt="{escape(name)}" src="data:image/png;base64,{base64.b64encode(data).decode()}"></figure>'
        for name, data in pictures.items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(outcome.title)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(outcome.title)}</h1><p><b>{escape(outcome.verdict)}</b></p>{images}"
        f"{_list(outcome.remarks)}{''.join(table.html() for table in outcome.tables)}"
        f"<h2>Again</h2><pre>{escape(reproduce)}</pre></html>\n"
    )


def _list(remarks: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(remark)}</li>' for remark in remarks)}</ul>" if remarks else ""
