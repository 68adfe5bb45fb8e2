"""How long a resize will take, from those before.

Each phase is taken to need ``a + b n`` seconds for ``n`` places. The line is that of Theil and Sen: ``b`` is the median
of the slopes between all pairs of samples of different sizes, ``a`` the median of what is left; up to 29 % of the
samples may be arbitrarily wrong (P. K. Sen, J. Am. Stat. Assoc. 63, 1379, 1968). More places do not take less time:
where the line would fall, and where all samples have one size, it is level at their median.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final

import msgspec

from apgas.core.resize import Kind, ResizeRecord

ENOUGH: Final = 3
"""So many samples of a run make those of earlier runs needless."""
MOST: Final = 64
"""Of one kind: older samples are forgotten."""
_AFTER_THE_END: Final = "post"


class Sample(msgspec.Struct, frozen=True):
    """A resize that was carried out: its kind, how many places came or went, and the seconds of its phases."""

    kind: Kind
    places: int
    phases: dict[str, float]


class Estimate(msgspec.Struct, frozen=True):
    """How long an order is expected to take.

    Attributes:
        kind: ``grow`` or ``shrink``.
        nodes: How many nodes it would be for.
        places: How many places these are.
        seconds: In all, from the order to the commit (grow) or to the processes' end (shrink), as in records: without
            ``post``.
        phases: Seconds of each phase, as in records.
        samples: How many resizes it is drawn from.
        of_this_run: How many of them this program has seen; the others are those of the calibration.
    """

    kind: Kind
    nodes: int
    places: int
    seconds: float
    phases: dict[str, float]
    samples: int
    of_this_run: int


def samples_of(records: Iterable[ResizeRecord]) -> list[Sample]:
    """Those of the records from which something can be learned."""
    return [
        Sample(record.kind, len(record.places), record.phases)
        for record in records
        if record.outcome == "done" and record.places and record.kind != "workers"
    ]


def newest(samples: Sequence[Sample]) -> list[Sample]:
    """The samples that are worth keeping, in their order."""
    kept = [sample for kind in ("grow", "shrink") for sample in [s for s in samples if s.kind == kind][-MOST:]]
    return [sample for sample in samples if any(sample is one for one in kept)]


def estimate(
    kind: Kind, nodes: int, places: int, of_this_run: Iterable[Sample], of_earlier_runs: Iterable[Sample]
) -> Estimate | None:
    """Estimate an order from samples, the newest last; None: there are none of its kind.

    Earlier runs count as long as there are less than ``ENOUGH`` samples of this one.
    """
    own = [sample for sample in of_this_run if sample.kind == kind][-MOST:]
    earlier = [sample for sample in of_earlier_runs if sample.kind == kind] if len(own) < ENOUGH else []
    samples = [*earlier, *own][-MOST:]
    if not samples:
        return None
    names = dict.fromkeys(name for sample in reversed(samples) for name in sample.phases)
    phases = {name: _fit([(s.places, s.phases[name]) for s in samples if name in s.phases], places) for name in names}
    seconds = sum(value for name, value in phases.items() if name != _AFTER_THE_END)
    return Estimate(kind, nodes, places, seconds, phases, len(samples), len(own))


def _fit(points: Sequence[tuple[int, float]], at: int) -> float:
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x1 != x2]
    slope = max(0.0, median(slopes)) if slopes else 0.0
    return max(0.0, median(y - slope * x for x, y in points) + slope * at)


def median(values: Iterable[float]) -> float:
    """The middle of some values; to import ``statistics`` would make every newcomer join milliseconds later."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
