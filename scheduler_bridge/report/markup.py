"""What the HTML pages are made of: tables, pictures within the page, and the parts that all pages share."""

from __future__ import annotations

import io
import math
import re
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.figure import Figure

_REFERENCE: Final = re.compile(r'(\bid="|href="#|url\(#)')
_NONE: Final = "-Infinity"
"""What a cell without a number is sorted by, in a column of numbers."""


@dataclass(frozen=True)
class Cell:
    """A cell of a table; ``number`` is what it is sorted by, where that is not its text."""

    text: str
    number: float | None = None
    tone: str = ""


def part(name: str, package: str = "scheduler_bridge.report") -> str:
    """A file that pages are made of, such as ``page.css``."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def page(title: str, body: str, style: str, script: str = "") -> str:
    """Put a page together, with what all pages share.

    Args:
        title: Of its tab; not escaped yet.
        body: HTML.
        style: What its style adds.
        script: What its script adds; tables can be sorted without.
    """
    return Template(part("frame.html")).substitute(
        title=escape(title), style=part("page.css") + style, body=body, script=part("sort.js") + script
    )


def table(
    identity: str, caption: str, heads: Sequence[str], rows: Iterable[Sequence[Cell]], *, sortable: bool = False
) -> str:
    """Build a table; a column whose cells carry numbers is set flush right.

    Args:
        identity: Its id in the page.
        caption: For people; not escaped yet, as all texts here.
        heads: Of the columns.
        rows: As many cells as heads.
        sortable: Whether ``sort.js`` lets people sort it.
    """
    lines = list(rows)
    numeric = [any(line[index].number is not None for line in lines) for index in range(len(heads))]
    head = "".join(
        f'<th scope="col"{_class("number" if number else "")}>{escape(text)}</th>'
        for text, number in zip(heads, numeric, strict=True)
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(cell, number) for cell, number in zip(line, numeric, strict=True)) + "</tr>"
        for line in lines
    )
    return (
        f'<table id="{escape(identity, quote=True)}"{_class("sortable" if sortable else "")}>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
    )


def scrolling(shown: str, label: str) -> str:
    """Put something wide into a box that scrolls sideways, also with keys."""
    name = escape(label, quote=True)
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{name}, scrolls sideways">{shown}</div>'


def inline(figure: Figure, alt: str, prefix: str = "") -> str:
    """Draw a figure as an ``<svg>`` element to be put into a page: no header, no metadata, no links.

    Args:
        figure: Drawn by matplotlib.
        alt: What it shows, for those who do not see it.
        prefix: Of the ids in it; no two pictures of a page may have the same.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "malleable-apgas"}):
        figure.savefig(buffer, format="svg")
    svg = buffer.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], count=1, flags=re.DOTALL)
    if prefix:
        svg = _REFERENCE.sub(rf"\1{prefix}-", svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(alt, quote=True)}"', 1)


def _cell(cell: Cell, numeric: bool) -> str:
    names = " ".join(filter(None, ("number" if numeric else "", cell.tone)))
    sort = f' data-sort="{_sorted_by(cell.number)}"' if numeric else ""
    return f"<td{_class(names)}{sort}>{escape(cell.text)}</td>"


def _sorted_by(number: float | None) -> str:
    if number is None or math.isnan(number):
        return _NONE
    return str(number).replace("inf", "Infinity")


def _class(names: str) -> str:
    return f' class="{names}"' if names else ""
