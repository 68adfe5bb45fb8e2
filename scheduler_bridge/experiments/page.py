"""The page of an experiment: one HTML file that opens from disk and fetches nothing.

Its fixed parts are in ``page.html``, and those of the page about a run; what an outcome says is escaped here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from string import Template
from typing import Final

from scheduler_bridge.experiments.origins import here
from scheduler_bridge.experiments.outcome import DataTable, Outcome, Picture, Value, shown
from scheduler_bridge.report.markup import Cell, inline, page, part, scrolling, table

_HERE: Final = "scheduler_bridge.experiments"
_LONG: Final = 30
"""Texts of more characters have a wide column, also on a narrow screen."""


def render(outcome: Outcome, reproduce: str) -> str:
    """Write the page.

    Args:
        outcome: What was found.
        reproduce: The command that leads here.
    """
    body = Template(part("page.html", _HERE)).substitute(
        title=escape(outcome.title),
        verdict=escape(outcome.verdict),
        contents=_contents(outcome.tables),
        figures="\n".join(_figure(name, picture) for name, picture in outcome.figures.items()),
        remarks=_remarks(outcome.remarks),
        tables="\n".join(map(_table, outcome.tables)),
        provenance=_provenance({**outcome.provenance, **here()}),
        reproduce=escape(reproduce),
    )
    return page(outcome.title, body, part("page.css", _HERE))


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
