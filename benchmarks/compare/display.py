"""How figures are shown: with three digits and a unit, in tables that are never cut, and in pictures."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, TypeAlias, assert_never

from ..harness.errors import BadUsage

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table

Unit: TypeAlias = Literal["s", "1/s", "B/s", "bytes", "share", "count", "ratio"]

_RATES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIMES: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def written(value: float, unit: Unit) -> str:
    """Write a figure with three digits and its unit."""
    match unit:
        case "s":
            scale, name = next((pair for pair in _TIMES if value >= 0.9995 * pair[0]), _TIMES[-1])
            return f"{_three(value / scale)} {name}"
        case "1/s":
            for scale, name in _RATES:
                if value >= 0.9995 * scale:
                    return f"{value / scale:.3g} {name}/s"
            return f"{_three(value)} /s"
        case "B/s":
            return f"{_three(value / 1e9)} GB/s"
        case "bytes":
            return f"{_three(value / 2**20)} MiB"
        case "count":
            return f"{value:.3g}"
        case "share":
            return f"{100 * value:.3f} %" if value < 0.01 else f"{_three(100 * value)} %"
        case "ratio":
            return f"{value:.3f}"
        case _:
            assert_never(unit)


def ratio_written(ratio: float) -> str:
    """Write a ratio: 0.31x, 3.1x, 31x."""
    return f"{_three(ratio) if ratio >= 100 else f'{ratio:.2g}'}x"


def _three(value: float) -> str:
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f}"


# Tables --------------------------------------------------------------------------------------------------------------

_WIDEST: Final = 400
_MIN_WIDTH: Final = 80


@dataclass(frozen=True)
class Sheet:
    """A table.

    Attributes:
        heads: The head of each column.
        align: A letter per column: "l" for left, "r" for right.
        sections: The rows, with a line between two sections. A row of a single cell is the section's title. What became
            of goals stands in the last column, and is coloured there.
        name: Stands above the table; empty: nothing does.
    """

    heads: Sequence[str]
    align: str
    sections: Sequence[Sequence[Sequence[str]]]
    name: str = ""

    def table(self) -> Table:
        """Return it as rich prints it."""
        from rich.table import Table
        from rich.text import Text

        table = Table()
        for index, (head, align) in enumerate(zip(self.heads, self.align, strict=True)):
            table.add_column(
                head, justify="right" if align == "r" else "left", style="" if index else "bold", no_wrap=True
            )
        for section in self.sections:
            for *cells, last in section:
                verdict = Text(last, style="" if cells else "dim")
                verdict.highlight_words(["MISSED"], "bold red")
                verdict.highlight_words(["met"] if cells else [], "green")
                table.add_row(*map(Text, cells), verdict)
            table.add_section()
        return table

    def as_markdown(self) -> str:
        """Return it as Markdown."""
        rules = ["--:" if align == "r" else "---" for align in self.align]
        found = [row for section in self.sections for row in section]
        rows = [self.heads, rules, *found]
        return "\n".join(f"| {' | '.join(row)} |".replace("\n", "<br>") for row in rows)


def show_sheets(title: str, sheets: Iterable[Sheet], remarks: Iterable[str], stream: TextIO | None = None) -> None:
    """Write tables, and remarks below them, to standard output; a line too long is better than one that is cut."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.text import Text

    console = Console(file=stream or sys.stdout, highlight=False)
    tables = [(sheet.name, sheet.table()) for sheet in sheets]
    widest = console.options.update(max_width=_WIDEST)
    console.width = max([_MIN_WIDTH, *(Measurement.get(console, widest, table).maximum for _, table in tables)])
    console.print(Text(title, style="bold"))
    for name, table in tables:
        if name:
            console.print(Text(name), soft_wrap=True)
        console.print(table)
    for remark in remarks:
        console.print(Text(remark), soft_wrap=True)


# Pictures; matplotlib is loaded when one is drawn --------------------------------------------------------------------

INK: Final = "#333333"
GREY: Final = "#6b6b6b"
"""Of what is said beside a picture."""
PALE: Final = "#b8c4cc"
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
"""Okabe and Ito's, safe for colour-blind readers."""
MARKERS: Final = ("o", "s", "^", "D")


def check_picture(path: Path | None) -> None:
    """Raise ``BadUsage`` for a picture that cannot be drawn: matplotlib is missing, or the file makes no sense."""
    if path is None:
        return
    if importlib.util.find_spec("matplotlib") is None:
        raise BadUsage(f"--figure {path}", "matplotlib is not installed", 'pip install "malleable-apgas[report]"')
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise BadUsage(f"--figure {path}", "the picture is a PNG, SVG or PDF file", "give a name like figure.png")
    if not path.parent.is_dir():
        raise BadUsage(f"--figure {path}", "there is no such folder", "give a file in a folder that exists")


def new_picture(
    width: float, height: float, rows: int, columns: int, *, height_ratios: Sequence[float] | None = None
) -> tuple[Figure, Any]:
    """Return an empty picture, in inches, and its panels by row and column."""
    from scheduler_bridge.report import charts

    figure = charts.sheet(height, width)
    return figure, figure.subplots(rows, columns, squeeze=False, height_ratios=height_ratios)


def draw_sizes(times_s: Sequence[float], sizes: Sequence[int], what: str) -> tuple[Figure, Axes, Axes]:
    """Draw how many nodes there were between these times; return the picture, that panel, and an empty one below."""
    from scheduler_bridge.report import charts

    figure = charts.sheet(5.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1.2))
    above.stairs(sizes, times_s, fill=True, color=COLOURS[0], alpha=0.35)
    above.stairs(sizes, times_s, color=COLOURS[0], linewidth=0.8, baseline=None)
    above.set(ylim=(0, max(sizes) + 0.7), ylabel=what, yticks=range(max(sizes) + 1))
    below.set(xlim=(0, times_s[-1]), xlabel="seconds")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    return figure, above, below


def dress_axes(axes: Axes, title: str, across: str, upwards: str = "") -> None:
    """Give a panel its words and take away what is not needed."""
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.set_xlabel(across, fontsize=9, color=INK)
    axes.set_ylabel(upwards, fontsize=9, color=INK)
    axes.tick_params(labelsize=8, colors=INK)
    axes.grid(visible=True, color=PALE, linewidth=0.4, alpha=0.6)
    for name in ("top", "right"):
        axes.spines[name].set_visible(False)
    for name in ("left", "bottom"):
        axes.spines[name].set_color(PALE)
