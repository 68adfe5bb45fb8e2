"""What the pictures of the commands that measure share."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any, Final

from .errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


INK: Final = "#333333"
PALE: Final = "#b8c4cc"
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
"""Okabe and Ito's, safe for colour-blind readers."""
MARKERS: Final = ("o", "s", "^", "D")


def check_picture(path: Path | None) -> None:
    """Refuse a picture that cannot be drawn.

    Raises:
        BadUsage: matplotlib is missing, or the file makes no sense.
    """
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
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, height_ratios=height_ratios)


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


def name_files(path: Path | None, figure: Path | None) -> None:
    """Say where the files are."""
    for name, file in (("result file", path), ("figure", figure)):
        if file is not None:
            sys.stdout.write(f"{name}: {file}\n")
