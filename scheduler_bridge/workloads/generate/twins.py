"""Statistical twins of machines whose logs are not at hand, from what the papers print about them.

A twin has the printed number of jobs, nodes and days, the printed shares of sizes and runtimes, and the mean runtime
and the use of the machine that the printed results imply; where the papers say nothing (the shape between printed
points, the largest sizes, the sizes of bursts, the depth of the day's cycle, users, estimates), the choice is ours [D],
made so that waits under rigid EASY are of the printed size. It is not the log: single results differ, the more so as a
few large jobs make most of the waits, which differ by a factor of two or three from seed to seed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler_bridge.workloads.generate.draw import (
    HOUR_S,
    Floats,
    Ints,
    arrivals,
    day_cycle,
    piecewise_log,
    power_tail,
    spread,
    workload,
    zipf_users,
)
from scheduler_bridge.workloads.record import Workload
from scheduler_bridge.workloads.tables import read_table

_WALLTIME_FACTOR: Final = 1.25
_LOW, _HIGH = -3.0, 12.0
_PAIRINGS: Final = 64


@dataclass(frozen=True, slots=True)
class Portrait:
    """What is known of a machine's workload.

    Attributes:
        name: Of the machine.
        source: Where the numbers are printed.
        nodes: The machine.
        jobs: Number of jobs.
        days: How long they are submitted.
        sizes: (nodes, share) of the common sizes; the rest lies in the tail.
        size_tail: Smallest and largest of the other sizes; how fast they become rare is set by ``mean_nodes``.
        runtimes: (share, seconds) points of the distribution function; the last one begins the tail.
        longest_s: Longest runtime.
        mean_runtime_s: Mean runtime.
        mean_nodes: Mean size.
        bursts: (seconds, share of the jobs) submitted within an hour from then on.
        users: Number of users [D].
        cycle: By how much more, in shares of the mean, is submitted at the busiest hour than on average [D].
    """

    name: str
    source: str
    nodes: int
    jobs: int
    days: int
    sizes: tuple[tuple[int, float], ...]
    size_tail: tuple[int, int]
    runtimes: tuple[tuple[float, float], ...]
    longest_s: float
    mean_runtime_s: float
    mean_nodes: float
    bursts: tuple[tuple[float, float], ...] = ()
    users: int = 300
    cycle: float = 0.6


PORTRAITS: Final = read_table("scheduler_bridge.workloads.generate", "portraits.toml", Portrait)
"""By name of the machine."""


def twin(portrait: Portrait, *, seed: int, jobs: int | None = None, arrival_factor: float = 1.0) -> Workload:
    """Draw a twin.

    Args:
        portrait: Whose.
        seed: Determines everything.
        jobs: Another number of jobs, over a time that is shorter or longer in proportion.
        arrival_factor: Times of submission are multiplied by it; 0.75 is MEBF's intensive workload.

    Raises:
        ValueError: A number is out of range.
    """
    count = portrait.jobs if jobs is None else jobs
    if count < 1 or arrival_factor <= 0:
        raise ValueError(f"jobs is {jobs}, arrival_factor {arrival_factor}: must be positive")
    rng = np.random.default_rng(seed)
    sizes = _sizes(portrait, spread(rng, count), spread(rng, count))
    runtime_s = _paired(rng, sizes, np.rint(_runtimes(portrait, spread(rng, count))), portrait)
    intensity = day_cycle(portrait.days, depth=portrait.cycle)
    for at_s, share in portrait.bursts:
        intensity[int(at_s // HOUR_S)] += share / (1 - share) * intensity.sum()
    submit_s = arrivals(rng, count, intensity.tolist(), HOUR_S)
    submit_s *= arrival_factor * count / portrait.jobs
    return workload(
        f"{portrait.name}-twin",
        portrait.nodes,
        submit_s,
        runtime_s,
        _WALLTIME_FACTOR * np.maximum(1.0, np.rint(runtime_s)),
        sizes,
        source=f"statistical twin ({portrait.source}), jobs={count} seed={seed} arrival_factor={arrival_factor}",
        users=zipf_users(rng, count, portrait.users),
    )


def _sizes(portrait: Portrait, u: Floats, within: Floats) -> Ints:
    common = np.array([size for size, _ in portrait.sizes])
    edges = np.cumsum([share for _, share in portrait.sizes])
    tail_share = 1 - edges[-1]
    wanted = (portrait.mean_nodes - sum(size * share for size, share in portrait.sizes)) / tail_share
    low, high = portrait.size_tail
    exponent = _exponent(low, high, wanted)
    index = np.searchsorted(edges, u, side="right")
    tail = np.rint(power_tail(within, low, high, exponent))
    sizes = np.where(index < len(common), common[np.minimum(index, len(common) - 1)], tail)
    result: Ints = sizes.astype(np.int64)
    return result


def _paired(rng: np.random.Generator, sizes: Ints, runtime_s: Floats, portrait: Portrait) -> Floats:
    """The runtimes in one of many random orders: that in which all jobs need the most nearly right node-seconds.

    A few large and long jobs make up much of the whole, so that a single order would often be far from it.
    """
    wanted = portrait.mean_nodes * portrait.mean_runtime_s * len(sizes)
    shifts = rng.integers(0, len(sizes), _PAIRINGS).tolist()
    best = min(shifts, key=lambda shift: abs(float(sizes @ np.roll(runtime_s, shift)) - wanted))
    return np.roll(runtime_s, best)


def _runtimes(portrait: Portrait, u: Floats) -> Floats:
    begins, shortest_s = portrait.runtimes[-1]
    wanted_s = (portrait.mean_runtime_s - _mean_below(portrait.runtimes)) / (1 - begins)
    exponent = _exponent(shortest_s, portrait.longest_s, wanted_s)
    tail = power_tail(np.maximum(0.0, (u - begins) / (1 - begins)), shortest_s, portrait.longest_s, exponent)
    result: Floats = np.where(u < begins, piecewise_log(u, portrait.runtimes), tail)
    return result


def _mean_below(knots: Sequence[tuple[float, float]]) -> float:
    """The part of the mean that comes from the values between log-uniform knots."""
    total = 0.0
    for (share, value), (next_share, next_value) in itertools.pairwise(knots):
        total += (next_share - share) * (next_value - value) / math.log(next_value / value)
    return total


def _exponent(low: float, high: float, mean: float) -> float:
    """The exponent for which ``power_tail`` has this mean; the mean falls as the exponent rises.

    Raises:
        ValueError: No exponent has this mean.
    """
    middles = (np.arange(20_000) + 0.5) / 20_000
    lowest, highest = _LOW, _HIGH
    if not power_tail(middles, low, high, highest).mean() < mean < power_tail(middles, low, high, lowest).mean():
        raise ValueError(f"no distribution from {low} to {high} has the mean {mean}")
    for _ in range(60):
        middle = (lowest + highest) / 2
        if power_tail(middles, low, high, middle).mean() > mean:
            lowest = middle
        else:
            highest = middle
    return round((lowest + highest) / 2, 6)
