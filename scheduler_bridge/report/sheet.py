"""The sheet that figures of workloads and experiments are drawn on, and the axes on it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final, Literal

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

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
