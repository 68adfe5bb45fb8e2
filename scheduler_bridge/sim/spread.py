"""How far single jobs are from the means: quartiles. Apart from ``measures``, since sorting takes time."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Iterable, Sequence
from operator import add
from typing import TypeAlias

import msgspec

from scheduler_bridge.sim.measures import Times, Window
from scheduler_bridge.sim.models import JobRecord

Quartiles: TypeAlias = tuple[float, float, float]
"""A quarter of the values is at most the first, half at most the second, three quarters at most the third."""


class Spread(msgspec.Struct, frozen=True):
    """Quartiles over the jobs that count and have ended; None of none.

    Attributes:
        wait_s: Of waits.
        runtime_s: Of runtimes.
        turnaround_s: Of turnarounds.
        bounded_slowdown: Of bounded slowdowns.
    """

    wait_s: Quartiles | None
    runtime_s: Quartiles | None
    turnaround_s: Quartiles | None
    bounded_slowdown: Quartiles | None


class Spreads(msgspec.Struct, frozen=True):
    """The same over all jobs that count, the rigid and the malleable ones."""

    every: Spread
    rigid: Spread
    malleable: Spread


def spreads(records: Iterable[JobRecord], window: Window) -> Spreads:
    """Quartiles over the jobs that ``measure`` counts in this window."""
    counted = [
        record
        for record in records
        if record.end_s is not None
        and record.start_s is not None
        and record.outcome != "lost"
        and (window.warmup_s is None or window.from_s <= record.spec.submit_s <= window.to_s)
    ]
    malleable = [record for record in counted if record.spec.is_malleable]
    every = _spread(counted)
    rigid = _spread([record for record in counted if not record.spec.is_malleable]) if malleable else every
    return Spreads(every, rigid, _spread(malleable))


def _spread(records: Sequence[JobRecord]) -> Spread:
    times = Times.of(records)
    turnarounds = array("d", map(add, times.wait_s, times.runtime_s))
    return Spread(
        quartiles(times.wait_s),
        quartiles(times.runtime_s),
        quartiles(turnarounds),
        quartiles(times.bounded_slowdown),
    )


def quartiles(values: Sequence[float]) -> Quartiles | None:
    """The quartiles, interpolated; None of nothing."""
    if len(values) < 2:
        return (values[0], values[0], values[0]) if values else None
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high
