"""The figures of merit of a simulation: pure functions of its records.

Wait = start - submission, runtime = end - start, turnaround = wait + runtime, slowdown = turnaround / runtime, bounded
slowdown = max(1, turnaround / max(runtime, 10 s)).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler_bridge.sim.models import JobRecord

BOUND_S: Final = 10.0
"""Shorter jobs count as this long in the bounded slowdown [Feitelson and Rudolph 1998]."""
UTILIZATION_DENOMINATOR: Final = "nodes x length of the window"


class Means(msgspec.Struct, frozen=True):
    """Means over the jobs that count, have started and have ended; None where there are none.

    Attributes:
        jobs: How many they are.
        killed: How many of them ended by a kill: over their walltime, on a lost node, or cancelled.
        mean_wait_s: Mean wait.
        mean_runtime_s: Mean runtime.
        mean_turnaround_s: Mean turnaround.
        mean_slowdown: Mean of the ratios.
        slowdown_of_means: Ratio of the means: mean turnaround / mean runtime [MEBF].
        mean_bounded_slowdown: Mean of the bounded ratios.
        grows: Completed grow orders.
        shrinks: Completed shrink orders.
    """

    jobs: int
    killed: int
    mean_wait_s: float | None
    mean_runtime_s: float | None
    mean_turnaround_s: float | None
    mean_slowdown: float | None
    slowdown_of_means: float | None
    mean_bounded_slowdown: float | None
    grows: int
    shrinks: int


class Window(msgspec.Struct, frozen=True):
    """What counts: jobs submitted in it, and what nodes did in it. Seconds of the workload.

    Attributes:
        from_s: Its beginning.
        to_s: Its end.
        warmup_s: What was left out before it; None: nothing is left out, it ends with the last job.
    """

    from_s: float
    to_s: float
    warmup_s: float | None


class Power(msgspec.Struct, frozen=True):
    """What nodes draw, in watts. An estimate: neither load nor frequency nor the network counts."""

    busy_w: float = 350.0
    idle_w: float = 120.0


class Measures(msgspec.Struct, frozen=True):
    """All figures of one simulation.

    Attributes:
        window: What counts.
        every: Over all jobs that count.
        rigid: Over the rigid ones.
        malleable: Over the malleable ones.
        makespan_s: First submission to last end, of all jobs.
        utilization: Node-seconds on which jobs computed in the window, by ``UTILIZATION_DENOMINATOR``.
        reserved: Node-seconds held without use in the window (for a start, for a grow), by the same denominator.
        fairness: Jain's index of the bounded slowdowns: 1 if all are equal, 1/jobs if one job bears it all.
        malleable_to_rigid: Mean bounded slowdown of malleable by that of rigid jobs; None without both.
        energy_kwh: Estimate for all nodes in the window; held nodes are busy.
        refused: Jobs that no allotment could hold.
        unfinished: Jobs that never ended.
    """

    window: Window
    every: Means
    rigid: Means
    malleable: Means
    makespan_s: float
    utilization: float
    reserved: float
    fairness: float | None
    malleable_to_rigid: float | None
    energy_kwh: float
    refused: int
    unfinished: int


def measure(
    records: Iterable[JobRecord], nodes: int, *, warmup_s: float | None = None, power: Power | None = None
) -> Measures:
    """Measure a simulation on ``nodes`` nodes.

    Args:
        records: What became of the jobs.
        nodes: The cluster's nodes.
        warmup_s: Leave jobs out that were submitted in the first seconds, and nodes' time before that and after the
            last submission; None: everything counts.
        power: What nodes draw.
    """
    everybody = list(records)
    jobs = [record for record in everybody if not record.refused]
    ended = [record for record in jobs if record.start_s is not None and record.end_s is not None]
    first_s = min((record.spec.submit_s for record in jobs), default=0.0)
    last_s = max((record.spec.submit_s for record in jobs), default=0.0)
    end_s = max((record.end_s for record in jobs if record.end_s is not None), default=last_s)
    window = Window(first_s, end_s, None) if warmup_s is None else Window(first_s + warmup_s, last_s, warmup_s)
    counted = [
        _Ended.of(record)
        for record in ended
        if warmup_s is None or window.from_s <= record.spec.submit_s <= window.to_s
    ]
    available = nodes * max(0.0, window.to_s - window.from_s)
    busy = sum([_inside(span, window) for record in jobs for span in record.spans()])
    held = sum([_inside(span, window) for record in jobs for span in record.reserved])
    every = _means(counted)
    malleable = _means([job for job in counted if job.record.spec.is_malleable])
    rigid = _means([job for job in counted if not job.record.spec.is_malleable]) if malleable.jobs else every
    ratio = None
    if rigid.mean_bounded_slowdown is not None and malleable.mean_bounded_slowdown is not None:
        ratio = malleable.mean_bounded_slowdown / rigid.mean_bounded_slowdown
    power = power or Power()
    joules = (busy + held) * power.busy_w + max(0.0, available - busy - held) * power.idle_w
    return Measures(
        window=window,
        every=every,
        rigid=rigid,
        malleable=malleable,
        makespan_s=end_s - first_s,
        utilization=busy / available if available else 0.0,
        reserved=held / available if available else 0.0,
        fairness=jain([job.bounded_slowdown for job in counted]),
        malleable_to_rigid=ratio,
        energy_kwh=joules / 3.6e6,
        refused=len(everybody) - len(jobs),
        unfinished=sum([record.end_s is None for record in jobs]),
    )


def bounded_slowdown(wait_s: float, runtime_s: float) -> float:
    """Turnaround by runtime, of which short ones count as ``BOUND_S``; at least 1."""
    return max(1.0, (wait_s + runtime_s) / max(runtime_s, BOUND_S))


def jain(values: Sequence[float]) -> float | None:
    """Jain's index of fairness, (sum x)^2 / (n sum x^2) [DEC-TR-301, 1984]; None of nothing."""
    squares = sum([value * value for value in values])
    return sum(values) ** 2 / (len(values) * squares) if squares else None


def _inside(span: tuple[float, float, float], window: Window) -> float:
    from_s, to_s, nodes = span
    return max(0.0, min(to_s, window.to_s) - max(from_s, window.from_s)) * nodes


class _Ended(NamedTuple):
    """A job that has started and ended."""

    record: JobRecord
    wait_s: float
    runtime_s: float
    bounded_slowdown: float

    @classmethod
    def of(cls, record: JobRecord) -> _Ended:
        wait_s, runtime_s = record.wait_s or 0.0, record.runtime_s or 0.0
        return cls(record, wait_s, runtime_s, bounded_slowdown(wait_s, runtime_s))


def _means(jobs: Sequence[_Ended]) -> Means:
    count = len(jobs)
    # a job that was killed at its very start has no slowdown
    ratios = [(wait_s + runtime_s) / runtime_s for _, wait_s, runtime_s, _ in jobs if runtime_s > 0]
    wait_s, runtime_s = sum([job.wait_s for job in jobs]), sum([job.runtime_s for job in jobs])
    return Means(
        jobs=count,
        killed=sum([job.record.outcome != "completed" for job in jobs]),
        mean_wait_s=wait_s / count if count else None,
        mean_runtime_s=runtime_s / count if count else None,
        mean_turnaround_s=(wait_s + runtime_s) / count if count else None,
        mean_slowdown=sum(ratios) / len(ratios) if ratios else None,
        slowdown_of_means=(wait_s + runtime_s) / runtime_s if runtime_s else None,
        mean_bounded_slowdown=sum([job.bounded_slowdown for job in jobs]) / count if count else None,
        grows=sum([job.record.grows for job in jobs]),
        shrinks=sum([job.record.shrinks for job in jobs]),
    )
