"""Colours and hatches of jobs: Okabe and Ito's eight (safe for colour-blind readers) without black, then hatched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler_bridge.record import RunRecord

OKABE_ITO = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
HATCHES = ("", "///", "\\\\\\", "xxx", "...", "---")


@dataclass(frozen=True)
class Look:
    """How one job is drawn, in every picture of the same batch."""

    color: str
    hatch: str

    @property
    def ink(self) -> str:
        """Black or white, whichever reads better on ``color``."""
        red, green, blue = (int(self.color[at : at + 2], 16) / 255 for at in (1, 3, 5))
        return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "#ffffff"


def looks(records: Iterable[RunRecord]) -> dict[int, Look]:
    """Give every job id a look: colours first, then the colours again with hatches."""
    job_ids = sorted({job.job_id for record in records for job in record.jobs})
    return {
        job_id: Look(OKABE_ITO[index % len(OKABE_ITO)], HATCHES[index // len(OKABE_ITO) % len(HATCHES)])
        for index, job_id in enumerate(job_ids)
    }
