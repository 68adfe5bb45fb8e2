"""The sheet that figures of workloads and experiments are drawn on, and the axes on it and on pictures of runs."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final, Literal

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from scheduler_bridge.report import words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH_IN: Final = 11.0


def sheet(height_in: float, width_in: float = WIDTH_IN) -> Figure:
    """An empty figure, which needs no display; sizes in inches."""
    figure = Figure(figsize=(width_in, height_in), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def png(figure: Figure) -> bytes:
    """The figure as a PNG image; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def plain(axes: Axes, grid: Literal["both", "y"] = "both") -> None:
    """Give axes a pale grid behind what is drawn, and no frame on their upper and right side."""
    axes.grid(visible=True, axis=grid, color="#e4e4e4", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def narrow(axes: Axes) -> None:
    """Give axes of a strip small ticks, and no frame on their upper and right side."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, length=2.5)


def tell_time(axes: Axes, until_s: float) -> None:
    """Put ticks at round numbers of the unit in which ``until_s`` is told, from 0 or where the axis begins later."""
    size_s, _ = words.unit(until_s)
    low_s, high_s = axes.get_xlim()
    from_s = max(0.0, low_s)
    told = MaxNLocator(10, steps=[1, 2, 2.5, 5, 10]).tick_values(from_s / size_s, until_s / size_s)
    axes.set_xticks([tick * size_s for tick in told if from_s <= tick * size_s <= high_s])
    axes.xaxis.set_major_formatter(lambda at_s, _: f"{at_s / size_s:g}")
