"""Looks of a run in all pictures, on paper and in the browser: colours of jobs, runs of rows, lanes on shared nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from scheduler_bridge.record import JobRecord, RunRecord

MALLEABLE_MARK: Final = "↔"
MINUS: Final = "\N{MINUS SIGN}"

# Colours are Okabe and Ito's, which are safe for colour-blind readers, without black; then the same in other tones.
# Hatches are no part of it: in pictures of runs they mean nodes that are reserved. A job that comes after another
# differs from it in brightness, too, so that the two differ in grey print.

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


def runs_of(rows: Iterable[int]) -> list[tuple[int, int]]:
    """Group row numbers into runs of neighbours: 0, 1, 3 gives (0, 1), (3, 3)."""
    return merged((row, row) for row in rows)


def merged(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs of rows with those that touch each other joined, from above."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if found and found[-1][1] + 1 == first:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


# Where the jobs that share nodes lie: each on a part of a row of its own, as high as its cores -----------------------
#
# A job keeps its part for as long as it is large enough. Who came onto nodes of others lies as low as it can, who came
# first as high; so a picture of the last minutes looks as that of the whole run does.

_NEGLIGIBLE: Final = 1e-9


class Lane(msgspec.Struct, frozen=True):
    """The part of the row of ``node`` that a job fills from ``from_s`` to ``to_s``.

    ``top`` is where it begins, from 0, the upper edge of the row; ``share`` how high it is, as part of the row.
    """

    from_s: float
    to_s: float
    node: str
    top: float
    share: float


class _Stay(msgspec.Struct, frozen=True):
    """A segment of a job on one of its nodes; ``number`` counts the segments of the job."""

    from_s: float
    to_s: float
    job_id: int
    number: int
    share: float
    is_guest: bool


def lanes(jobs: Iterable[JobRecord]) -> dict[tuple[int, int], list[Lane]]:
    """Give every job its part of each node that it shares.

    Returns:
        Lanes by job id and place in its ``segments``, of each segment with a node of whose cores it has only a part;
        those of its other nodes fill their rows. At no time do two lanes of a node overlap.
    """
    jobs = list(jobs)
    if all(part.share >= 1 and not part.shares for job in jobs for part in job.segments):
        return {}  # mostly so, and quick to see
    stays: defaultdict[str, list[_Stay]] = defaultdict(list)
    found: dict[tuple[int, int], list[Lane]] = {}
    for job in jobs:
        for number, part in enumerate(job.segments):
            for node, share in part.by_node():
                stays[node].append(_Stay(part.from_s, part.to_s, job.job_id, number, share, part.is_guest))
                if share < 1:
                    found.setdefault((job.job_id, number), [])
    for node, there in stays.items():
        for stay, lane in _on_node(node, there):
            if (key := (stay.job_id, stay.number)) in found:
                found[key].append(lane)
    return found


def _on_node(node: str, stays: list[_Stay]) -> Iterator[tuple[_Stay, Lane]]:
    coming = sorted((stay for stay in stays if stay.to_s > stay.from_s), key=lambda stay: (stay.from_s, stay.job_id))
    present: dict[int, _Stay] = {}
    tops: dict[int, tuple[float, float]] = {}
    since: dict[int, float] = {}
    for at_s in sorted({moment for stay in coming for moment in (stay.from_s, stay.to_s)}):
        before = dict(present)
        for job_id, stay in before.items():
            if stay.to_s <= at_s:
                yield stay, Lane(since.pop(job_id), stay.to_s, node, *tops[job_id])
                del present[job_id]
        while coming and coming[0].from_s <= at_s:
            stay = coming.pop(0)
            present[stay.job_id], since[stay.job_id] = stay, at_s
        placed = _place(list(present.values()), {job_id: tops[job_id][0] for job_id in before})
        for job_id, stay in present.items():
            if since[job_id] < at_s and placed[job_id] != tops[job_id]:
                yield stay, Lane(since[job_id], at_s, node, *tops[job_id])
                since[job_id] = at_s
        tops = placed


def _place(present: list[_Stay], old: dict[int, float]) -> dict[int, tuple[float, float]]:
    """Where each lies and how high it is: those that were there stay where they are, if they can."""
    squeeze = max(1.0, sum(stay.share for stay in present))  # an older record knows the mean over a job's nodes only
    found: dict[int, tuple[float, float]] = {}
    for stay in sorted(present, key=lambda stay: (stay.job_id not in old, stay.is_guest)):
        height = stay.share / squeeze
        spots = [*((old[stay.job_id],) if stay.job_id in old else ()), *_gaps(found, height, low=stay.is_guest)]
        top = next((spot for spot in spots if _is_free(spot, height, found)), None)
        if top is None:
            return _stacked(present, squeeze)
        found[stay.job_id] = (top, height)
    return found


def _gaps(taken: dict[int, tuple[float, float]], height: float, *, low: bool) -> list[float]:
    """Where something so high may lie beside others, from above, or from below."""
    spots = [0.0, 1.0 - height]
    spots += [top + high for top, high in taken.values()]
    spots += [top - height for top, _ in taken.values()]
    return sorted(spots, reverse=low)


def _is_free(top: float, height: float, taken: dict[int, tuple[float, float]]) -> bool:
    if top < -_NEGLIGIBLE or top + height > 1 + _NEGLIGIBLE:
        return False
    return all(
        top + height <= other + _NEGLIGIBLE or other + high <= top + _NEGLIGIBLE for other, high in taken.values()
    )


def _stacked(present: list[_Stay], squeeze: float) -> dict[int, tuple[float, float]]:
    """All of them anew, one below the other: what is free lies in pieces."""
    found: dict[int, tuple[float, float]] = {}
    top = 0.0
    for stay in sorted(present, key=lambda stay: stay.is_guest):
        found[stay.job_id] = (top, stay.share / squeeze)
        top += stay.share / squeeze
    return found
