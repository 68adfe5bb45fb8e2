"""The picture: what each contender does per CPU-second, a panel per kernel; needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..harness import pictures
from ..harness.goals import OURS, ratio_written, written
from .results import Line, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OURS: Final = "#1f6f8b"
_BAR_INCHES: Final = 0.32
_WIDTH_INCHES: Final = 8.0


def draw(results: Results, path: Path, machine: str) -> None:
    """Draw the first quantity of every measure.

    Args:
        results: What was measured.
        path: Where to; the ending tells the kind of file.
        machine: The processor, for the line at the bottom.
    """
    lines = [line for line in results.lines if line.quantity == line.measure.quantities[0] and line.medians]
    bars = [len(line.medians) for line in lines]
    height = _BAR_INCHES * sum(bars) + 0.55 * len(lines) + 0.5
    figure, panels = pictures.new_picture(
        _WIDTH_INCHES, height, len(lines), 1, height_ratios=[count + 0.8 for count in bars]
    )
    for line, (axes,) in zip(lines, panels, strict=True):
        _draw_panel(axes, line, results.quick)
    figure.supxlabel(
        f"one core of {machine}; medians of {results.rounds} interleaved rounds", fontsize=8, color=pictures.INK
    )
    figure.savefig(path, dpi=150)


def _draw_panel(axes: Axes, line: Line, quick: bool) -> None:
    medians, ratios = line.medians, line.ratios
    shown = [contender for contender in line.measure.contenders if contender.name in medians]
    rates = [medians[contender.name] for contender in shown]
    colours = [_OURS if contender.name == OURS else pictures.PALE for contender in shown]
    axes.barh(range(len(shown)), rates, color=colours, height=0.72)
    axes.set_yticks(range(len(shown)), [contender.label for contender in shown], color=pictures.INK, fontsize=9)
    axes.invert_yaxis()
    axes.set_title(
        f"{line.measure.title(quick)}: {line.quantity.title} per CPU-second",
        loc="left",
        fontsize=10,
        color=pictures.INK,
    )
    axes.set_xlim(0, 1.3 * max(rates))
    axes.set_xticks([])
    axes.tick_params(length=0)
    for name in ("top", "right", "bottom"):
        axes.spines[name].set_visible(False)
    axes.spines["left"].set_color(pictures.PALE)
    for position, (contender, rate) in enumerate(zip(shown, rates, strict=True)):
        text = written(rate, line.quantity.unit)
        if contender.name in ratios:
            text += f"   (ours {ratio_written(ratios[contender.name])})"
        axes.text(rate + 0.01 * max(rates), position, text, va="center", fontsize=8.5, color=pictures.INK)
