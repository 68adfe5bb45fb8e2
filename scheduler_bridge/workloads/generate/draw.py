"""What generators share: numbers drawn by distribution, and jobs made of columns of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler_bridge.workloads.source import Findings
from scheduler_bridge.workloads.workload import TraceJob, Workload

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

DAY_S: Final = 86_400
HOUR_S: Final = 3600
MIN_RUNTIME_S: Final = 1.0


def spread(rng: np.random.Generator, count: int) -> Floats:
    """Uniform numbers in [0, 1), one in each of ``count`` equal parts, in random order.

    A sample of them has the wanted distribution almost exactly, whatever the seed.
    """
    return (rng.permutation(count) + rng.random(count)) / count


def piecewise_log(u: Floats, knots: Sequence[tuple[float, float]]) -> Floats:
    """Values whose distribution function goes through (share, value) ``knots``, log-uniform between them."""
    shares, values = zip(*knots, strict=True)
    return np.exp(np.interp(u, shares, np.log(values)))


def power_tail(u: Floats, low: float, high: float, exponent: float) -> Floats:
    """Values from ``low`` to ``high`` with a density that falls with value^-exponent."""
    if abs(exponent - 1) < 1e-9:
        return low * (high / low) ** u
    power = 1 - exponent
    result: Floats = (low**power + u * (high**power - low**power)) ** (1 / power)
    return result


def arrivals(rng: np.random.Generator, count: int, intensity: Sequence[float], slot_s: float) -> Floats:
    """Sorted times of ``count`` independent submissions; ``intensity`` is their rate in each slot, up to a factor."""
    edges = np.concatenate(([0.0], np.cumsum(np.asarray(intensity, dtype=np.float64))))
    times: Floats = np.interp(np.sort(rng.random(count)) * edges[-1], edges, np.arange(len(edges)) * slot_s)
    return times


_DEPTH: Final = 0.6
"""By how much more, in shares of the mean, is submitted at the busiest hour than on average [D]."""


def day_cycle(days: int) -> Floats:
    """Rates by hour: more by day than by night, a cosine with its peak at 14 h."""
    hours = np.arange(24 * days)
    return 1 + _DEPTH * np.cos((hours % 24 + 0.5 - 14) * np.pi / 12)


def zipf_users(rng: np.random.Generator, count: int, users: int) -> Ints:
    """Users from 1, the k-th of whom submits in proportion to 1/k."""
    edges = np.cumsum(1 / np.arange(1, users + 1))
    result: Ints = np.searchsorted(edges, rng.random(count) * edges[-1]) + 1
    return result


def workload(
    name: str,
    nodes: int,
    submit_s: Floats,
    runtime_s: Floats,
    walltime_s: Floats,
    sizes: Ints,
    *,
    source: str,
    users: Ints | None = None,
    names: Sequence[str] | None = None,
) -> Workload:
    """Make a synthetic workload of columns; times are rounded to whole seconds, runtimes up to at least one."""
    order = np.argsort(np.floor(submit_s), kind="stable")
    columns = (
        np.floor(submit_s)[order].tolist(),
        np.maximum(MIN_RUNTIME_S, np.rint(runtime_s))[order].tolist(),
        np.maximum(1.0, np.ceil(walltime_s))[order].tolist(),
        sizes[order].tolist(),
        [""] * len(order) if users is None else [str(user) for user in users[order].tolist()],
        [""] * len(order) if names is None else [names[row] for row in order.tolist()],
    )
    jobs = tuple(
        TraceJob(number, submit, runtime, walltime, nodes, user=user, name=job_name)
        for number, (submit, runtime, walltime, nodes, user, job_name) in enumerate(zip(*columns, strict=True), start=1)
    )
    return Workload(name, nodes, jobs, synthetic=True, source=source, findings=Findings(records=len(jobs)))
