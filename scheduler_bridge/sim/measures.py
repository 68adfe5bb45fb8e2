"""The figures of merit of a simulation: pure functions of its records.

Wait = start - submission, runtime = end - start, turnaround = wait + runtime, slowdown = turnaround / runtime, bounded
slowdown = max(1, turnaround / max(runtime, 10 s)).

Where nodes fail, a job counts from its first submission to its final end: its wait has all times in which it waited,
its runtime all times in which it ran. Slowdowns compare with the useful part of the runtime. Jobs that were lost for
good are in no mean: that they ended early would make it better.
"""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Collection, Iterable, Sequence
from operator import add
from typing import Final, NamedTuple, TypeAlias

import msgspec

from scheduler_bridge.sim.failures import clipped, node_s
from scheduler_bridge.sim.jobs import SimRecord

BOUND_S: Final = 10.0
"""Shorter jobs count as this long in the bounded slowdown [Feitelson and Rudolph 1998]."""


class Means(msgspec.Struct, frozen=True):
    """Means over the jobs that count, have started and have ended; None where there are none.

    Attributes:
        jobs: How many they are.
        killed: How many of them ended by a kill: over their walltime, or cancelled.
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
        warmup_s: What was left out before it; None: nothing is left out, it ends with the last job.
    """

    from_s: float
    to_s: float
    warmup_s: float | None


class Power(msgspec.Struct, frozen=True):
    """What nodes draw, in watts. An estimate: neither load nor frequency nor the network counts."""

    busy_w: float = 350.0
    idle_w: float = 120.0


class FaultMeasures(msgspec.Struct, frozen=True):
    """What failures, and checkpoints against them, cost all jobs in all of the time.

    Attributes:
        node_failures: How often a node failed.
        job_failures: How often a job lost a node.
        restarts: How often a job was submitted again.
        lost_jobs: Jobs that were lost for good; they are in no mean.
        lost_jobs_share: Of the node-seconds that all jobs asked for, by their walltimes, the part of these.
        checkpoints: How many jobs completed.
        lost_node_s: Node-seconds on which was computed what was lost.
        checkpoint_node_s: Node-seconds on which checkpoints were written.
        restart_node_s: Node-seconds on which jobs restarted.
    """

    node_failures: int
    job_failures: int
    restarts: int
    lost_jobs: int
    lost_jobs_share: float
    checkpoints: int
    lost_node_s: float
    checkpoint_node_s: float
    restart_node_s: float


class Measures(msgspec.Struct, frozen=True):
    """All figures of one simulation.

    Attributes:
        window: What counts.
        every: Over all jobs that count.
        rigid: Over the rigid ones.
        malleable: Over the malleable ones.
        makespan_s: First submission to last end, of all jobs.
        utilization: Node-seconds on which jobs computed in the window, by nodes times its length.
        useful: The part of the utilization that was neither lost to failures nor spent on checkpoints and restarts.
        lost: The part that was lost to failures.
        overhead: The part that was spent on checkpoints and restarts.
        reserved: Node-seconds held without use in the window (for a start, for a grow), by the same denominator.
        fairness: Jain's index of the bounded slowdowns: 1 if all are equal, 1/jobs if one job bears it all.
        malleable_to_rigid: Mean bounded slowdown of malleable by that of rigid jobs; None without both.
        energy_kwh: Estimate for all nodes in the window; held nodes are busy.
        refused: Jobs that no allocation could hold.
        unfinished: Jobs that never ended.
        faults: What failures cost; None: there were neither failures nor checkpoints.
    """

    window: Window
    every: Means
    rigid: Means
    malleable: Means
    makespan_s: float
    utilization: float
    useful: float
    lost: float
    overhead: float
    reserved: float
    fairness: float | None
    malleable_to_rigid: float | None
    energy_kwh: float
    refused: int
    unfinished: int
    faults: FaultMeasures | None = None


def measure(
    records: Iterable[SimRecord],
    nodes: int,
    *,
    warmup_s: float | None = None,
    power: Power | None = None,
    node_failures: int = 0,
) -> Measures:
    """Measure a simulation on ``nodes`` nodes.

    Args:
        records: What became of the jobs.
        nodes: The cluster's nodes.
        warmup_s: Leave jobs out that were submitted in the first seconds, and nodes' time before that and after the
            last submission; None: everything counts.
        power: What nodes draw.
        node_failures: How often a node failed.
    """
    everything = records if isinstance(records, Collection) else list(records)
    jobs = [record for record in everything if not record.refused]
    first_s = min((record.spec.submit_s for record in jobs), default=0.0)
    last_s = max((record.spec.submit_s for record in jobs), default=0.0)
    end_s = max((record.end_s for record in jobs if record.end_s is not None), default=last_s)
    window = Window(first_s, end_s, None) if warmup_s is None else Window(first_s + warmup_s, last_s, warmup_s)
    ended = counted(jobs, window)
    available = nodes * max(0.0, window.to_s - window.from_s)
    busy = sum(clipped((span for record in jobs for span in record.spans()), window.from_s, window.to_s))
    held = sum(clipped((span for record in jobs for span in record.reserved), window.from_s, window.to_s))
    struck = [record for record in jobs if record.losses is not None]
    lost, overhead = _spent(struck, window)
    times = Times.of(ended)
    every = _means(ended, times)
    resizable = [record for record in ended if record.spec.is_malleable]
    malleable = _means(resizable, Times.of(resizable))
    rigid = every
    if resizable:
        fixed = [record for record in ended if not record.spec.is_malleable]
        rigid = _means(fixed, Times.of(fixed))
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
        useful=max(0.0, busy - lost - overhead) / available if available else 0.0,
        lost=lost / available if available else 0.0,
        overhead=overhead / available if available else 0.0,
        reserved=held / available if available else 0.0,
        fairness=jain(times.bounded_slowdown),
        malleable_to_rigid=ratio,
        energy_kwh=joules / 3.6e6,
        refused=len(everything) - len(jobs),
        unfinished=sum([record.end_s is None for record in jobs]),
        faults=_faults(jobs, struck, node_failures) if struck or node_failures else None,
    )


def headline_figures(measures: Measures) -> dict[str, float | int | None]:
    """The main figures by their names for programs."""
    means = ("mean_wait_s", "mean_runtime_s", "mean_turnaround_s", "mean_slowdown", "mean_bounded_slowdown")
    every = {name: getattr(measures.every, name) for name in (*means, "grows", "shrinks")}
    return {**every, "utilization": measures.utilization, "makespan_s": measures.makespan_s}


def counted(records: Iterable[SimRecord], window: Window) -> list[SimRecord]:
    """The jobs that the means are over."""
    return [
        record
        for record in records
        if record.start_s is not None
        and record.end_s is not None
        and record.outcome != "lost"
        and (window.warmup_s is None or window.from_s <= record.spec.submit_s <= window.to_s)
    ]


def _spent(struck: Iterable[SimRecord], window: Window) -> tuple[float, float]:
    """The node-seconds in the window that were lost, and those spent on checkpoints and restarts."""
    lost = overhead = 0.0
    for record in struck:
        losses = record.losses
        assert losses is not None
        spent = sum(clipped([*losses.checkpointing, *losses.restarting], window.from_s, window.to_s))
        overhead += spent
        if record.outcome == "lost":  # nothing of it is left
            lost += sum(clipped(record.spans(), window.from_s, window.to_s)) - spent
        else:
            lost += sum(clipped(losses.lost, window.from_s, window.to_s))
    return lost, overhead


def _faults(jobs: Sequence[SimRecord], struck: Sequence[SimRecord], node_failures: int) -> FaultMeasures:
    accounts = [record.losses for record in struck if record.losses is not None]
    gone = [record for record in jobs if record.outcome == "lost"]
    lost_node_s, overhead_node_s = _spent(struck, Window(-math.inf, math.inf, None))
    restart_node_s = sum([node_s(losses.restarting) for losses in accounts])
    asked = sum([record.spec.nodes * record.spec.walltime_s for record in jobs])
    return FaultMeasures(
        node_failures=node_failures,
        job_failures=sum([losses.failures for losses in accounts]),
        restarts=sum([losses.restarts for losses in accounts]),
        lost_jobs=len(gone),
        lost_jobs_share=sum([record.spec.nodes * record.spec.walltime_s for record in gone]) / asked if asked else 0.0,
        checkpoints=sum([losses.checkpoints for losses in accounts]),
        lost_node_s=lost_node_s,
        checkpoint_node_s=overhead_node_s - restart_node_s,
        restart_node_s=restart_node_s,
    )


def bounded_slowdown(wait_s: float, runtime_s: float, useful_s: float) -> float:
    """Turnaround by the useful part of the runtime, of which short ones count as ``BOUND_S``; at least 1."""
    return max(1.0, (wait_s + runtime_s) / max(useful_s, BOUND_S))


def jain(values: Sequence[float]) -> float | None:
    """Jain's index of fairness, (sum x)^2 / (n sum x^2) [DEC-TR-301, 1984]; None of nothing."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


class Times(NamedTuple):
    """The times of jobs that have started and ended, in seconds, as columns: of a million jobs, objects take much."""

    wait_s: array[float]
    runtime_s: array[float]
    useful_s: array[float]
    bounded_slowdown: array[float]

    @classmethod
    def of(cls, records: Collection[SimRecord]) -> Times:
        """The times of these jobs, in their order."""
        waits = array("d", [record.wait_s or 0.0 for record in records])
        runtimes = array("d", [record.runtime_s or 0.0 for record in records])
        usefuls = runtimes
        if any(record.losses is not None for record in records):
            usefuls = array("d", [record.useful_s or 0.0 for record in records])
        return cls(waits, runtimes, usefuls, array("d", map(bounded_slowdown, waits, runtimes, usefuls)))


def _means(records: Sequence[SimRecord], times: Times) -> Means:
    count = len(records)
    wait_s, runtime_s, useful_s = sum(times.wait_s), sum(times.runtime_s), sum(times.useful_s)
    # a job that was killed at its very start has no slowdown
    slow = sum(useful_s > 0 for useful_s in times.useful_s)
    columns = zip(times.wait_s, times.runtime_s, times.useful_s, strict=True)
    slowdown = sum((wait_s + runtime_s) / useful_s for wait_s, runtime_s, useful_s in columns if useful_s > 0)
    return Means(
        jobs=count,
        killed=sum([record.outcome != "completed" for record in records]),
        mean_wait_s=wait_s / count if count else None,
        mean_runtime_s=runtime_s / count if count else None,
        mean_turnaround_s=(wait_s + runtime_s) / count if count else None,
        mean_slowdown=slowdown / slow if slow else None,
        slowdown_of_means=(wait_s + runtime_s) / useful_s if useful_s else None,
        mean_bounded_slowdown=sum(times.bounded_slowdown) / count if count else None,
        grows=sum([record.grows for record in records]),
        shrinks=sum([record.shrinks for record in records]),
    )


# How far single jobs are from the means; apart from the rest, since sorting takes time -------------------------------

Quartiles: TypeAlias = tuple[float, float, float]
"""A quarter of the values is at most the first, half at most the second, three quarters at most the third."""


class Spread(msgspec.Struct, frozen=True):
    """Quartiles over the jobs that count and have ended; None of none."""

    wait_s: Quartiles | None
    runtime_s: Quartiles | None
    turnaround_s: Quartiles | None
    bounded_slowdown: Quartiles | None


class Spreads(msgspec.Struct, frozen=True):
    """The same over all jobs that count, the rigid and the malleable ones."""

    every: Spread
    rigid: Spread
    malleable: Spread


def spreads(records: Iterable[SimRecord], window: Window) -> Spreads:
    """Quartiles over the jobs that ``measure`` counts in this window."""
    jobs = counted(records, window)
    malleable = [record for record in jobs if record.spec.is_malleable]
    every = _spread(jobs)
    rigid = _spread([record for record in jobs if not record.spec.is_malleable]) if malleable else every
    return Spreads(every, rigid, _spread(malleable))


def _spread(records: Sequence[SimRecord]) -> Spread:
    times = Times.of(records)
    turnarounds = array("d", map(add, times.wait_s, times.runtime_s))
    return Spread(*map(quartiles, (times.wait_s, times.runtime_s, turnarounds, times.bounded_slowdown)))


def quartiles(values: Sequence[float]) -> Quartiles | None:
    """The quartiles, interpolated; None of nothing."""
    if len(values) < 2:
        return (values[0], values[0], values[0]) if values else None
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high
