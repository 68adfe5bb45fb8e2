"""Sheets, axes, colours and glyphs of all pictures."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from scheduler_bridge.report import words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes

    from scheduler_bridge.record import RunRecord


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


def time_ticks(axes: Axes, until_s: float) -> None:
    """Put ticks at round numbers of the unit that suits ``until_s``, from 0 or where the axis begins later."""
    size_s, _ = words.unit(until_s)
    low_s, high_s = axes.get_xlim()
    from_s = max(0.0, low_s)
    round_ = MaxNLocator(10, steps=[1, 2, 2.5, 5, 10]).tick_values(from_s / size_s, until_s / size_s)
    axes.set_xticks([tick * size_s for tick in round_ if from_s <= tick * size_s <= high_s])
    axes.xaxis.set_major_formatter(lambda at_s, _: f"{at_s / size_s:g}")


# Colours of jobs -----------------------------------------------------------------------------------------------------
#
# Okabe and Ito's, which are safe for colour-blind readers, without black; then the same in other tones.
# Hatches are no part of it: in pictures of runs they mean nodes that are reserved. A job that comes after another
# differs from it in brightness, too, so that grey print tells the two apart. ``web/static/looks.js`` has the same in
# the browser.

OKABE_ITO: Final = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
_IN_TURN: Final = (0, 4, 1, 2, 3, 5, 6)
_TONES: Final = ((0, 0.0), (255, 0.35), (0, 0.4), (255, 0.65))
"""Shade that is mixed in, and how much of it."""


def _mixed(color: str, shade: int, share: float) -> str:
    parts = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{int((1 - share) * part + share * shade + 0.5):02X}" for part in parts)


JOB_COLORS: Final = tuple(_mixed(OKABE_ITO[at], shade, share) for shade, share in _TONES for at in _IN_TURN)
"""Of jobs in the order of their ids; they come again after the last one."""


def luma(color: str) -> float:
    """How bright a colour prints in grey, from 0 to 1."""
    red, green, blue = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue


@dataclass(frozen=True)
class Look:
    """How one job is drawn, in every picture of the same batch."""

    color: str

    @property
    def ink(self) -> str:
        """Black or white, whichever reads better on ``color``."""
        return "#000000" if luma(self.color) > 0.5 else "#ffffff"


def looks(records: Iterable[RunRecord]) -> dict[int, Look]:
    """Give every job id a look."""
    job_ids = sorted({job.job_id for record in records for job in record.jobs})
    return {job_id: Look(JOB_COLORS[index % len(JOB_COLORS)]) for index, job_id in enumerate(job_ids)}


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
