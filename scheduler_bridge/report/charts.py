"""Charts of results: sheets, axes, colours and glyphs of all pictures, and charts that are read without a caption.

All of it can be read in grey: what is ours is filled, what a paper prints is hollow. There are no legends.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, Literal

from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from scheduler_bridge.atomic_write import write_whole
from scheduler_bridge.report import words
from scheduler_bridge.report.looks import MINUS, OKABE_ITO

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.patheffects import AbstractPathEffect

    from scheduler_bridge.report.looks import Look


# Sheets and axes -----------------------------------------------------------------------------------------------------

WIDTH_IN: Final = 11.0
RUN_WIDTH_IN: Final = 12.0
GREY: Final = "#6b6b6b"
"""Of what is said beside a picture."""


class _Shown(Figure):
    """A figure that a notebook shows where it is the value of a cell."""

    def _repr_png_(self) -> bytes:
        return png(self)


def sheet(height_in: float, width_in: float = WIDTH_IN) -> Figure:
    """An empty figure, which needs no display; sizes in inches."""
    figure = _Shown(figsize=(width_in, height_in), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure


class RunSheet:
    """A figure for the picture of a run: boxes one below the other, a title above them, notes below them.

    Args:
        height_in: Its height; sizes are in inches.
        left_in: From its left edge to the boxes.
        right_in: From the boxes to its right edge.
    """

    def __init__(self, height_in: float, left_in: float, right_in: float) -> None:
        self.figure = _Shown(figsize=(RUN_WIDTH_IN, height_in), dpi=130, facecolor="white")
        FigureCanvasAgg(self.figure)
        self.left = left_in / RUN_WIDTH_IN
        self._wide = (RUN_WIDTH_IN - left_in - right_in) / RUN_WIDTH_IN
        self._height_in = height_in

    def box(self, top_in: float, tall_in: float) -> Axes:
        """Axes of that height, so far below the upper edge."""
        bottom, tall = 1 - (top_in + tall_in) / self._height_in, tall_in / self._height_in
        return self.figure.add_axes((self.left, bottom, self._wide, tall))

    def say(self, finding: str, below: str) -> None:
        """Write the finding above all, and a line below it."""
        top = 1 - 0.36 / self._height_in
        self.figure.text(self.left, top, drawable(finding), fontsize=15, fontweight="bold", parse_math=False)
        top = 1 - 0.60 / self._height_in
        self.figure.text(self.left, top, drawable(below), fontsize=9, color=GREY, parse_math=False)

    def note(self, lines: Sequence[str]) -> None:
        """Write lines at the lower edge."""
        for line, text in enumerate(reversed(lines)):
            above = self.above(0.12 + 0.17 * line)
            self.figure.text(self.left, above, text, fontsize=8, color=GREY, parse_math=False)

    def above(self, up_in: float) -> float:
        """How high that is above the lower edge, as a share of the figure."""
        return up_in / self._height_in


def png(figure: Figure) -> bytes:
    """The figure as a PNG image; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def write_png(figure: Figure, path: Path) -> None:
    """Write the figure as a PNG image.

    Raises:
        OSError: It cannot be written.
    """
    write_whole(path, png(figure))


def plain(axes: Axes, grid: Literal["both", "y"] = "both") -> None:
    """Give axes a pale grid behind what is drawn, and no frame on their upper and right side."""
    axes.grid(visible=True, axis=grid, color="#e4e4e4", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def narrow(axes: Axes) -> None:
    """Give axes of a strip small ticks, and no frame on their upper and right side."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, length=2.5)


def time_ticks(axes: Axes, until_s: float) -> None:
    """Put ticks at round numbers of the unit that suits ``until_s``, from 0 or where the axis begins later."""
    size_s, _ = words.unit(until_s)
    low_s, high_s = axes.get_xlim()
    from_s = max(0.0, low_s)
    round_ = MaxNLocator(10, steps=[1, 2, 2.5, 5, 10]).tick_values(from_s / size_s, until_s / size_s)
    axes.set_xticks([tick * size_s for tick in round_ if from_s <= tick * size_s <= high_s])
    axes.xaxis.set_major_formatter(lambda at_s, _: f"{at_s / size_s:g}")


def beside(axes: Axes, text: str, at: tuple[float, float], by_pt: tuple[float, float], **how: Any) -> None:
    """Write a small text beside a place, at a distance in points; ``how``: as for an annotation of matplotlib."""
    how = {"fontsize": 8, "annotation_clip": False, **how}
    axes.annotate(text, at, by_pt, textcoords="offset points", **how)


def name_within(axes: Axes, at: tuple[float, float], name: str, size_pt: float, look: Look, **how: Any) -> None:
    """Write the name of a job into what is filled with its colour; ``how``: as for a text of matplotlib."""
    axes.text(*at, name, fontsize=size_pt, color=look.ink, ha="center", va="center", zorder=5, parse_math=False, **how)


def outlined(color: str, wide_pt: float) -> list[AbstractPathEffect]:
    """The effects of a text that is read on anything, by an outline."""
    return [withStroke(linewidth=wide_pt, foreground=color)]


# Glyphs of the font --------------------------------------------------------------------------------------------------
#
# Names in pictures come from users, and may hold any character.


def drawable(text: str) -> str:
    """Return ``text`` with a question mark for each character that the font lacks, and on one line."""
    known = _known()
    return "".join(character if ord(character) in known else "?" for character in " ".join(text.split()))


@cache
def _known() -> frozenset[int]:
    font = font_manager.get_font(font_manager.findfont(font_manager.FontProperties()))
    return frozenset(font.get_charmap())


# Charts: names stand beside what they name, and the papers' values have a word ---------------------------------------

OURS: Final = OKABE_ITO[4]
INK: Final = "#222222"
FAINT: Final = "#555555"
LINE_COLORS: Final = tuple(OKABE_ITO[at] for at in (4, 5, 2, 6, 1, 0))
"""Of lines on white, those that read best first; neighbours differ in grey."""
MARKERS: Final = "osD^vP"
_LABEL_PT: Final = 8.5
_NUMBER_PT: Final = 7.5
_NUMBER_IN: Final = 0.5
_PRINTED_IN: Final = 0.85
"""Room beside the longest bar, for the number at its end."""


def say(figure: Figure, finding: str, note: str) -> None:
    """Put the finding above, and below what the marks are and where they come from."""
    wide = figure.get_figwidth()
    finding = drawable(finding).replace(" %", "\N{NO-BREAK SPACE}%")
    how: dict[str, Any] = {"x": 0.012, "ha": "left", "parse_math": False}
    figure.suptitle(textwrap.fill(finding, int(8.7 * wide)), fontsize=13, fontweight="bold", **how)
    figure.supxlabel(textwrap.fill(drawable(note), int(15 * wide)), fontsize=8.5, color=FAINT, **how)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a row of a table of bars has in one column.

    Attributes:
        value: The length of the bar; None: there is none.
        spread: The ends of a thin line on it, from the least to the most.
        printed: What the paper has in its place.
    """

    value: float | None
    spread: tuple[float, float] | None = None
    printed: float | None = None


@dataclass(frozen=True, slots=True)
class BarRow:
    """A row of a table of bars; without entries it is the heading of those that follow."""

    label: str
    entries: Sequence[Entry] = ()


def draw_bar_table(columns: Sequence[str], rows: Sequence[BarRow], form: Callable[[float], str]) -> Figure:
    """Draw a bar for each row and column with its number, and below it, hollow, what the paper prints; on one scale.

    Args:
        columns: Their headings.
        rows: From the top.
        form: Words a value.
    """
    printed = [any(entry.printed is not None for entry in row.entries) for row in rows]
    figure = sheet(1.35 + sum(0.33 if double else 0.235 for double in printed))  # with a title and a note
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    heights = (1.4 if double else 1.0 for double in printed)
    *tops, down = accumulate(heights, initial=0.0)
    reach = [0.0]
    for number, axes in enumerate(panels):
        for row, top in zip(rows, tops, strict=True):
            if row.entries:
                reach += _bar(axes, row.entries[number], top, form)
    low, high = min(reach), max(reach)
    wide_in = (figure.get_figwidth() - 0.08 * max(len(row.label) for row in rows)) / len(columns)
    text_in = min(_PRINTED_IN if any(printed) else _NUMBER_IN, 0.45 * wide_in)
    room = text_in / (wide_in - text_in) * ((high - low) or 1.0)
    for axes, heading in zip(panels, columns, strict=True):
        axes.set_xlim(low - (room if low < 0 else 0.0), high + (room if high > 0 else 0.02 * room))
        axes.axvline(0, color=INK, lw=0.9)
        left, right = axes.get_xlim()
        zero = -left / (right - left)
        side: Literal["left", "center", "right"] = "right" if zero > 0.8 else "left" if zero < 0.2 else "center"
        axes.set_title(heading, fontsize=10, x=zero, ha=side)
        axes.set_xticks([])
        axes.spines[["top", "right", "bottom", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    first = panels[0]
    first.set_ylim(down - 0.3, -0.7)
    first.set_yticks(tops, [row.label for row in rows], fontsize=9)
    for text, row in zip(first.get_yticklabels(), rows, strict=True):
        text.set_fontweight("normal" if row.entries else "bold")
    return figure


def _bar(axes: Axes, entry: Entry, top: float, form: Callable[[float], str]) -> list[float]:
    """Draw one; return how far it reaches."""
    reach = []
    if entry.value is not None:
        tall = 0.56
        axes.barh(top, entry.value, tall, color=OURS)
        end = entry.value
        if entry.spread is not None:
            axes.plot(entry.spread, [top, top], color=INK, lw=1.0)
            end = max(entry.spread) if end >= 0 else min(entry.spread)
        _number(axes, form(entry.value), end, top)
        reach.append(end)
    if entry.printed is not None:
        low = top + 0.55
        axes.barh(low, entry.printed, 0.34, color="none", edgecolor=INK, lw=0.9)
        _number(axes, f"paper {form(entry.printed)}", entry.printed, low)
        reach.append(entry.printed)
    return reach


def _number(axes: Axes, text: str, end: float, top: float) -> None:
    side, aside = ("right", -3) if end < 0 else ("left", 3)
    beside(axes, text.replace("-", MINUS), (end, top), (aside, 0), ha=side, va="center", fontsize=_NUMBER_PT)


@dataclass(frozen=True, slots=True)
class Curve:
    """A line over shares, sizes or hours.

    Attributes:
        name: Written at its end.
        points: Of it, from the left.
        color: Of line and name.
        marker: At the points.
        hollow: It is what a paper prints, or what is compared with: hollow marks, a dashed line.
        spread: The lower and upper end of a band around each point.
    """

    name: str
    points: Sequence[tuple[float, float]]
    color: str = OURS
    marker: str = "o"
    hollow: bool = False
    spread: Sequence[tuple[float, float]] = ()


def draw_curves(axes: Axes, curves: Sequence[Curve]) -> None:
    """Draw lines from zero up, without their names."""
    for curve in curves:
        if not curve.points:
            continue
        across, values = zip(*curve.points, strict=True)
        if curve.spread:
            lows, highs = zip(*curve.spread, strict=True)
            axes.fill_between(across, lows, highs, color=curve.color, alpha=0.18, lw=0)
        axes.plot(
            across, values, color=curve.color, marker=curve.marker, ms=4.5, lw=1.3 if curve.hollow else 1.7,
            ls=(0, (3, 2)) if curve.hollow else "-", mfc="white" if curve.hollow else curve.color,
        )  # fmt: skip
    ends = [high for curve in curves for _, high in (*curve.points, *curve.spread)]
    axes.set_ylim(0, 1.08 * max([1e-9, *ends, axes.get_ylim()[1] / 1.08]))
    plain(axes, "y")


def name_ends(figure: Figure, named: Mapping[Axes, Sequence[Curve]]) -> None:
    """Write the name of each curve at its right end, none over another; call it when all else is drawn."""
    figure.draw_without_rendering()
    for axes, curves in named.items():
        shown = sorted((curve for curve in curves if curve.points), key=lambda curve: curve.points[-1][1])
        at_pt = [axes.transData.transform(curve.points[-1])[1] * 72 / figure.dpi for curve in shown]
        floor_pt = axes.transAxes.transform((0, 0))[1] * 72 / figure.dpi
        for curve, before_pt, after_pt in zip(shown, at_pt, _apart(at_pt, 1.2 * _LABEL_PT, floor_pt), strict=True):
            beside(
                axes, curve.name, curve.points[-1], (7, after_pt - before_pt), va="center", fontsize=_LABEL_PT,
                color=INK if curve.hollow else curve.color, path_effects=outlined("white", 2.2),
            )  # fmt: skip


def _apart(places: Sequence[float], least: float, floor: float) -> list[float]:
    """Move ascending ``places`` apart by as little as need be, groups around their means, none below ``floor``."""
    groups: list[list[float]] = []
    for place in places:
        groups.append([place])
        while len(groups) > 1:
            lower, upper = groups[-2:]
            if fmean(upper) - fmean(lower) >= least * (len(lower) + len(upper)) / 2:
                break
            lower += groups.pop()
    apart = [fmean(group) + (at - (len(group) - 1) / 2) * least for group in groups for at in range(len(group))]
    for at, place in enumerate(apart):
        apart[at] = max(place, apart[at - 1] + least if at else floor)
    return apart


def mark_printed(axes: Axes, across: float, value: float, text: str) -> None:
    """A hollow diamond for what a paper prints, with its words above it."""
    axes.plot(across, value, "D", mfc="white", mec=INK, ms=6, zorder=6)
    low, high = axes.get_xlim()
    place = (across - low) / (high - low)
    side: Literal["left", "center", "right"] = "left" if place < 0.2 else "right" if place > 0.8 else "center"
    beside(axes, text, (across, value), (0, 6), ha=side, va="bottom", zorder=6, path_effects=outlined("white", 2.5))


def draw_multiples(
    figure: Figure, rows: Mapping[str, Mapping[str, Sequence[Curve]]], label: str, ticks: Sequence[float]
) -> None:
    """Draw a panel for each row (a measure) and column (a policy), with the same axis along each row.

    Args:
        figure: Empty.
        rows: The curves of each panel, by the label of the row and the heading of the column.
        label: Of the axis across.
        ticks: On it.
    """
    wide = len(next(iter(rows.values())))
    grid = figure.subplots(len(rows), wide, sharex=True, sharey="row", squeeze=False)
    for axes, heading in zip(grid[0], next(iter(rows.values())), strict=True):
        axes.set_title(heading, fontsize=10, loc="left")
    for axes in grid[-1]:
        axes.set_xlabel(label, fontsize=9)
    for line, (name, panels) in zip(grid, rows.items(), strict=True):
        for axes, curves in zip(line, panels.values(), strict=True):
            draw_curves(axes, curves)
            axes.set_xticks(ticks)
            axes.tick_params(labelsize=8.5)
        line[0].set_ylabel(name, fontsize=9.5)
    figure.align_ylabels(grid[:, 0])
    name_ends(figure, {line[-1]: list(panels.values())[-1] for line, panels in zip(grid, rows.values(), strict=True)})
