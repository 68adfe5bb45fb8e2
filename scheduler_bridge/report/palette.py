"""Colours of jobs: Okabe and Ito's (safe for colour-blind readers) without black, then these in other tones.

Hatches are no part of it: in pictures of runs they mean nodes that are reserved. A job that comes after another differs
from it in brightness, too, so that grey print tells the two apart. ``web/static/looks.js`` has the same in the browser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler_bridge.record import RunRecord

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
