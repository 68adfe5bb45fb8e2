"""The table at the end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, TextIO

from ..harness.figures import written
from ..harness.progress import scaled
from . import paper
from .catalogue import MOST_LAG_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from .results import Results, Series

    Published = Mapping[str, Mapping[str, Mapping[int, float]]]

_WIDEST: Final = 400
_LEAST_WIDTH: Final = 80


def emulation(results: Results) -> str:
    """Say what is emulated, in one line."""
    return (
        f"emulated nodes (each is a place whose worker is held to a rate; all together use at most "
        f"{100 * results.share:.0f} % of {results.cores} cores)"
    )


def title(series: Series) -> str:
    """Name a series: benchmark, problem, pace of a node."""
    pace = f"{scaled(series.rate)} {series.unit}/s a node ({100 * series.share:.1f} % of a core)"
    return f"{series.program.title} {' '.join(series.problem)}, {pace}"


def row(series: Series, nodes: int, published: Published) -> list[str]:
    """Return the cells of a number of nodes: nodes, time, speed-up, efficiency, the paper's, remark."""
    speedup = series.speedup(nodes)
    program, size, _ = series.program.paper
    theirs = paper.efficiency(published.get(program, {}).get(size, {}), nodes)
    return [
        str(nodes),
        written(series.seconds[nodes], "s"),
        "-" if speedup is None else f"{speedup:.2f}",
        "-" if speedup is None else f"{100 * speedup / nodes:.1f} %",
        "" if theirs is None else f"{100 * theirs:.1f} %",
        f"the machine was late by {written(series.lag_s[nodes], 's')}" if series.late(nodes) else "",
    ]


def show(results: Results, published: Published, stream: TextIO | None = None) -> None:
    """Write the table and its remarks to standard output."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.text import Text

    console = Console(file=stream or sys.stdout, highlight=False)
    shown = [series for series in results.series.values() if series.seconds]
    tables = [_table(series, published) for series in shown]
    # a line that is too long for the terminal is better than one that is cut
    widths = [Measurement.get(console, console.options.update(max_width=_WIDEST), each).maximum for each in tables]
    console.width = max(_LEAST_WIDTH, *widths, *(len(title(series)) for series in results.series.values()))
    console.print(Text("Strong scaling on EMULATED nodes", style="bold"))
    for series, each in zip(shown, tables, strict=True):
        console.print(Text(title(series)))
        console.print(each)
    for remark in remarks(results, published):
        console.print(Text(remark), soft_wrap=True)


def _table(series: Series, published: Published) -> Table:
    from rich.table import Table

    table = Table()
    for name in ("nodes", "time", "speed-up", "efficiency", *(["the paper's"] if published else [])):
        table.add_column(name, justify="right", no_wrap=True)
    if doubtful := any(series.late(nodes) for nodes in series.seconds):
        table.add_column("", no_wrap=True)
    for nodes in series.seconds:
        *cells, theirs, remark = row(series, nodes, published)
        table.add_row(*cells, *([theirs] if published else []), *([remark] if doubtful else []))
    return table


def remarks(results: Results, published: Published) -> list[str]:
    """Return the lines below the table."""
    lines = [emulation(results), "efficiency: speed-up over one node of the same run, divided by the nodes"]
    if published:
        sizes = [
            f"{each.program.title} {paper.spoken(each.program.paper[1], each.program.paper[2])}"
            for each in results.series.values()
        ]
        lines.append(f"the paper's: its own nodes (48 workers each) and problems, {', '.join(sizes)}")
    for series in results.series.values():
        for resize in series.resizes:
            sign = "+" if resize.kind == "grow" else "-"
            lines.append(f"{series.program.title}: {sign}{resize.nodes} nodes took {written(resize.seconds, 's')}")
        if series.verified is False:
            lines.append(f"{series.program.title}: WRONG RESULT")
        if series.failure:
            lines.append(f"{series.program.title} FAILED: {series.failure}")
    if any(series.late(nodes) for series in results.series.values() for nodes in series.seconds):
        lines.append(
            f"a worker that is late by more than {MOST_LAG_S} s was held up by this machine: do not trust that line; "
            "give a smaller --share, or stop what else runs"
        )
    return lines
