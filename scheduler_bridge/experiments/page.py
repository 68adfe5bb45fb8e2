"""The page of an experiment: one HTML file that opens from disk and fetches nothing.

Its fixed parts are in ``page.html``, and those of the page about a run; what an outcome says is escaped here.
"""

from __future__ import annotations

import itertools
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Final

from apgas.provenance import commit, cpu_model, version
from scheduler_bridge.experiments.outcome import DataTable, Outcome, Picture, Value, shown
from scheduler_bridge.experiments.rows import Origin
from scheduler_bridge.experiments.sweep import Row
from scheduler_bridge.report.page import Cell, inline, page, part, scrolling, table

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


# Where the numbers of an experiment come from, in words for its page -------------------------------------------------

_PACKAGES: Final = ("numpy", "matplotlib")


def of_rows(rows: Sequence[Row]) -> dict[str, str]:
    """Tell of simulations: how many there are, their seeds, with what and where they were run.

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
    """Tell of this process, which makes the report: versions, the commit, the machine."""
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
