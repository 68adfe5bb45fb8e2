"""The key of the picture: what the marks mean, in one line; never an entry per job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from scheduler_bridge.report.bars import DOWN_COLOR, MALLEABLE_MARK, RESERVED_COLOR, RESERVED_HATCH
from scheduler_bridge.report.palette import OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_key(figure: Figure, at: tuple[float, float], *, any_down: bool = False) -> None:
    """Draw the key with its lower left corner ``at`` (shares of the figure); ``any_down``: nodes were down."""
    job = OKABE_ITO[0]
    handles = [
        Patch(facecolor=job, label=f"a job ({MALLEABLE_MARK} malleable: may be resized)"),
        Line2D(
            [],
            [],
            color="#000000",
            linewidth=2,
            marker="",
            label="grew (+) or shrank (\N{MINUS SIGN}) by so many nodes",
        ),
        Patch(facecolor="#8f8f8f", label="resize under way"),
        Patch(facecolor="#f0f0f0", edgecolor=RESERVED_COLOR, hatch=RESERVED_HATCH, label="reserved, not yet in use"),
        *([Patch(facecolor=DOWN_COLOR, label="down")] if any_down else []),
        Patch(facecolor="white", edgecolor="#bbbbbb", label="idle"),
        Line2D([], [], color="#000000", linestyle="none", marker="|", markersize=8, label="submission"),
    ]
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=at,
        ncols=len(handles),
        frameon=False,
        fontsize=8,
        handlelength=1.6,
        columnspacing=1.4,
        borderaxespad=0,
        borderpad=0,
    )
