"""Workloads of single papers and machines, from what is printed about them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from msgspec import structs

from scheduler_bridge.workloads.accounting import read_table
from scheduler_bridge.workloads.conversion import drawn_order
from scheduler_bridge.workloads.generate.draw import (
    DAY_S,
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
from scheduler_bridge.workloads.workload import Workload, in_order

# Batches of the 2024 paper: 25 jobs for 32 nodes, about 8 node-hours, four programs in eleven configurations ---------
#
# The table of configurations is from the published code (it is not in the paper's text). Node-seconds are rounded from
# the published strong scaling; runs scale by Amdahl's law with a parallel share of 0.999 [D]. The published batches
# themselves are other draws; they are replayed from their results by ``malleable experiment real-runs-simulated``.

BATCH_NODES: Final = 32
BATCH_JOBS: Final = 25
BATCH_AT_ONCE: Final = 5
"""How many jobs are submitted at the beginning."""
BATCH_WITHIN_S: Final = 600.0
"""The others within this time; the published code has 180 s."""
BATCH_WALLTIME_S: Final = 800.0
BATCH_SEEDS: Final = tuple(range(42, 52))
BATCH_PARALLEL_SHARE: Final = 0.999


@dataclass(frozen=True, slots=True)
class Configuration:
    """A program with its input; bounds are of malleable jobs.

    Attributes:
        sizes: (nodes, weight) of the rigid jobs; all weights sum to 25.
        node_s: Runtime on one node, in seconds.
    """

    name: str
    sizes: tuple[tuple[int, float], ...]
    min_nodes: int
    max_nodes: int
    node_s: float


CONFIGURATIONS: Final = (
    Configuration("BC_17", ((2, 1.5), (4, 1.0)), 1, 4, 120),
    Configuration("BC_18", ((2, 1.5), (4, 1.0), (8, 0.5)), 2, 16, 690),
    Configuration("BC_19", ((8, 1.0), (16, 0.5)), 8, 16, 3500),
    Configuration("NQueens_17", ((2, 1.5), (4, 1.0)), 1, 8, 340),
    Configuration("NQueens_18", ((8, 1.0), (16, 0.5)), 8, 16, 2900),
    Configuration("UTS_18", ((2, 1.5), (4, 0.5)), 1, 4, 200),
    Configuration("UTS_19", ((2, 1.5), (4, 1.0), (8, 1.0)), 2, 16, 800),
    Configuration("UTS_20", ((8, 1.0), (16, 0.5)), 8, 16, 3150),
    Configuration("Pi_8e10", ((2, 1.5), (4, 1.0)), 1, 4, 140),
    Configuration("Pi_6e11", ((4, 1.5), (8, 1.0), (16, 0.5)), 4, 16, 1045),
    Configuration("Pi_1.2e12", ((8, 1.0), (16, 0.5)), 8, 16, 2085),
)


def batch(*, seed: int, malleable: float = 0.0, within_s: float = BATCH_WITHIN_S) -> Workload:
    """Draw a batch; the malleable jobs of a smaller share are among those of a larger one.

    Args:
        seed: Determines everything; the paper's batches have the seeds 42 to 51.
        malleable: Share of the jobs that are malleable, from 0 to 1.
        within_s: Jobs are submitted within this time.

    Raises:
        ValueError: The share is out of range.
    """
    if not 0 <= malleable <= 1:
        raise ValueError(f"malleable is {malleable}, must be from 0 to 1")
    rng = np.random.default_rng(seed)
    choices = [(configuration, *size) for configuration in CONFIGURATIONS for size in configuration.sizes]
    edges = np.cumsum([weight for *_, weight in choices])
    drawn = [choices[row] for row in np.searchsorted(edges, rng.random(BATCH_JOBS) * edges[-1]).tolist()]
    sizes = np.array([size for _, size, _ in drawn])
    one_node_s = np.array([configuration.node_s for configuration, *_ in drawn])
    submit_s = np.sort(np.concatenate((np.zeros(BATCH_AT_ONCE), rng.random(BATCH_JOBS - BATCH_AT_ONCE) * within_s)))
    rigid = workload(
        f"batch-{seed}",
        BATCH_NODES,
        submit_s,
        one_node_s * (1 - BATCH_PARALLEL_SHARE + BATCH_PARALLEL_SHARE / sizes),
        np.full(BATCH_JOBS, BATCH_WALLTIME_S),
        sizes,
        source=f"batch of the 2024 paper, seed={seed} malleable={malleable} within_s={within_s}",
        names=[configuration.name for configuration, *_ in drawn],
    )
    bounds = {item.name: (item.min_nodes, item.max_nodes) for item in CONFIGURATIONS}
    law = f"amdahl:{BATCH_PARALLEL_SHARE}"
    order = drawn_order((structs.replace(job, speedup=law) for job in rigid.jobs), seed)
    count = round(malleable * BATCH_JOBS)
    jobs = [
        structs.replace(job, job_class="malleable", min_nodes=bounds[job.name][0], max_nodes=bounds[job.name][1])
        for job in order[:count]
    ]
    return replace(rigid, jobs=in_order([*jobs, *order[count:]]))


# Penalty scheduling (PSP, 2016): 1,000 jobs of 20 users on 1,672 cores, a node each ----------------------------------
#
# From the paper (section 5): sizes are powers of two from 1 to 16 cores, runtimes up to 10 days, and a user's requested
# time is the runtime by the user's accuracy. Scenarios (Table 2): BE, all users in 0-0.2; GE, in 0.8-1; CF, groups as
# on the real cluster; CFG, the same with more good users; DI, users as in CF improve every five jobs; HDI, every other
# user does. Ours [D]: sizes are equally frequent; the density of runtimes falls with their power of 0.82; jobs come
# within a day, so that they wait as long as printed; the top group of CFG is 0.8-1, since the paper's labels do not
# agree; DI and HDI start from CF.

PENALTY_CORES: Final = 1672
PENALTY_JOBS: Final = 1000
PENALTY_USERS: Final = 20
RUNTIME_S: Final = (60.0, 10.0 * DAY_S)
RUNTIME_EXPONENT: Final = 0.82
"""How fast long runtimes become rare: so that the mean wait in BE and GE is of the printed size, 820 and 796 min."""
PENALTY_SPAN_S: Final = float(DAY_S)
PENALTY_GROUPS: Final = ((0.0, 0.05), (0.05, 0.15), (0.15, 0.25), (0.25, 0.35), (0.35, 0.60))
PENALTY_TOP: Final = {"CF": (0.60, 1.0), "CFG": (0.80, 1.0)}
PENALTY_SHARES: Final = {"CF": (21, 21, 18, 17, 19, 4), "CFG": (12, 12, 9, 8, 10, 49)}
"""Percent of the users in each group, the top one last."""
PENALTY_SCENARIOS: Final = ("BE", "GE", "CF", "CFG", "DI", "HDI")
LEARNS_EVERY: Final = 5
_LEAST_ACCURACY: Final = 0.01


def penalty(*, seed: int, scenario: str = "CF", jobs: int = PENALTY_JOBS, span_s: float = PENALTY_SPAN_S) -> Workload:
    """Draw a workload; with one seed, scenarios differ in the requested times only.

    Args:
        seed: Determines everything but the scenario's accuracies.
        scenario: One of BE, GE, CF, CFG, DI, HDI.
        jobs: Number of jobs.
        span_s: They are submitted within this time.

    Raises:
        ValueError: The scenario is unknown.
    """
    if scenario not in PENALTY_SCENARIOS:
        raise ValueError(f"scenario is {scenario!r}, must be one of {', '.join(PENALTY_SCENARIOS)}")
    rng = np.random.default_rng(seed)
    sizes = 2 ** np.floor(spread(rng, jobs) * 5).astype(np.int64)
    runtime_s = np.rint(power_tail(spread(rng, jobs), *RUNTIME_S, RUNTIME_EXPONENT))
    users = rng.permutation(np.arange(jobs) % PENALTY_USERS) + 1
    submit_s = np.sort(rng.random(jobs) * span_s)
    accuracy = _accuracies(rng, scenario)[users - 1]
    if scenario in ("DI", "HDI"):
        accuracy = _learned(accuracy, users, every_user=scenario == "DI")
    return workload(
        f"penalty-{scenario.lower()}",
        PENALTY_CORES,
        submit_s,
        runtime_s,
        runtime_s / accuracy,
        sizes,
        source=f"PSP 2016, scenario={scenario} jobs={jobs} span_s={span_s} seed={seed}; a node is a core",
        users=users,
    )


def _accuracies(rng: np.random.Generator, scenario: str) -> Floats:
    """The accuracy of each user."""
    place = rng.random(PENALTY_USERS)
    if scenario in ("BE", "GE"):
        return np.maximum(_LEAST_ACCURACY, place * 0.2 + (0.8 if scenario == "GE" else 0.0))
    kind = scenario if scenario in PENALTY_SHARES else "CF"
    groups = (*PENALTY_GROUPS, PENALTY_TOP[kind])
    edges = np.cumsum(PENALTY_SHARES[kind]) / sum(PENALTY_SHARES[kind])
    group = np.searchsorted(edges, (np.arange(PENALTY_USERS) + 0.5) / PENALTY_USERS)
    low, high = np.array(groups)[group].T
    result: Floats = np.maximum(_LEAST_ACCURACY, low + place * (high - low))
    return result


def _learned(accuracy: Floats, users: Ints, *, every_user: bool) -> Floats:
    """Accuracy by job: after every five jobs of a user, worse ones gain a tenth of what is missing, others a tenth."""
    result = accuracy.copy()
    for user in range(1, PENALTY_USERS + 1, 1 if every_user else 2):
        rows = np.flatnonzero(users == user)
        value = float(accuracy[rows[0]]) if len(rows) else 0.0
        for begin in range(0, len(rows), LEARNS_EVERY):
            if begin:
                value = value + 0.1 * (1 - value) if value <= 0.5 else min(1.0, 1.1 * value)
            result[rows[begin : begin + LEARNS_EVERY]] = value
    return result


# Statistical twins of machines whose logs are not at hand ------------------------------------------------------------
#
# A twin has the printed number of jobs, nodes and days, the printed shares of sizes and runtimes, and the mean runtime
# and the use of the machine that the printed results imply; where the papers say nothing (the shape between printed
# points, the largest sizes, the sizes of bursts, the depth of the day's cycle, users, estimates), the choice is ours
# [D], made so that waits under rigid EASY are of the printed size. It is not the log: single results differ, the more
# so as a few large jobs make most of the waits, which differ by a factor of two or three from seed to seed.

_WALLTIME_FACTOR: Final = 1.25
_LOW, _HIGH = -3.0, 12.0
_PAIRINGS: Final = 64


@dataclass(frozen=True, slots=True)
class Portrait:
    """What is known of a machine's workload.

    Attributes:
        summary: What a twin is, in a few words.
        source: Where the numbers are printed.
        days: How long jobs are submitted.
        sizes: (nodes, share) of the common sizes; the rest lies in the tail.
        size_tail: Smallest and largest of the other sizes; how fast they become rare is set by ``mean_nodes``.
        runtimes: (share, seconds) points of the distribution function; the last one begins the tail.
        bursts: (seconds, share of the jobs) submitted within an hour from then on.
        users: Number of users [D].
    """

    name: str
    summary: str
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


PORTRAITS: Final = read_table("scheduler_bridge.workloads.generate", "portraits.toml", Portrait)
"""By name of the machine."""


def twin(portrait: Portrait, *, seed: int, jobs: int = 0, arrival_factor: float = 1.0) -> Workload:
    """Draw a twin.

    Args:
        portrait: Whose.
        seed: Determines everything.
        jobs: Another number of jobs, over a time that is shorter or longer in proportion; 0: as the portrait says.
        arrival_factor: Times of submission are multiplied by it; 0.75 is MEBF's intensive workload.

    Raises:
        ValueError: A number is out of range.
    """
    count = jobs or portrait.jobs
    if count < 1 or arrival_factor <= 0:
        raise ValueError(f"jobs is {jobs}, arrival_factor {arrival_factor}: must be positive")
    rng = np.random.default_rng(seed)
    sizes = _twin_sizes(portrait, spread(rng, count), spread(rng, count))
    runtime_s = _paired(rng, sizes, np.rint(_twin_runtimes(portrait, spread(rng, count))), portrait)
    intensity = day_cycle(portrait.days)
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


def _twin_sizes(portrait: Portrait, u: Floats, within: Floats) -> Ints:
    common = np.array([size for size, _ in portrait.sizes])
    edges = np.cumsum([share for _, share in portrait.sizes])
    tail_share = 1 - edges[-1]
    wanted = (portrait.mean_nodes - sum(size * share for size, share in portrait.sizes)) / tail_share
    low, high = portrait.size_tail
    exponent = _exponent(low, high, wanted)
    index = np.searchsorted(edges, u, side="right")
    tail = np.rint(power_tail(within, low, high, exponent))
    sizes = np.where(index < len(common), common[np.minimum(index, len(common) - 1)], tail)
    return sizes.astype(np.int64)


def _paired(rng: np.random.Generator, sizes: Ints, runtime_s: Floats, portrait: Portrait) -> Floats:
    """The runtimes in one of many random orders: that in which all jobs need the most nearly right node-seconds.

    A few large and long jobs make up much of the whole, so that a single order would often be far from it.
    """
    wanted = portrait.mean_nodes * portrait.mean_runtime_s * len(sizes)
    shifts = rng.integers(0, len(sizes), _PAIRINGS).tolist()
    best = min(shifts, key=lambda shift: abs(float(sizes @ np.roll(runtime_s, shift)) - wanted))
    return np.roll(runtime_s, best)


def _twin_runtimes(portrait: Portrait, u: Floats) -> Floats:
    begins, shortest_s = portrait.runtimes[-1]
    wanted_s = (portrait.mean_runtime_s - _mean_below(portrait.runtimes)) / (1 - begins)
    exponent = _exponent(shortest_s, portrait.longest_s, wanted_s)
    tail = power_tail(np.maximum(0.0, (u - begins) / (1 - begins)), shortest_s, portrait.longest_s, exponent)
    return np.where(u < begins, piecewise_log(u, portrait.runtimes), tail)


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


# Theta: the small jobs that its trace lacks are added, marked as synthetic, up to the printed numbers ----------------
#
# The real trace of Theta has 1,617 of the 2,550 jobs that the 2025 paper simulates for the 28 days from 2023-08-01;
# mostly small ones are missing. The paper prints the shares of three sizes and of short runtimes (section 3.4); the
# jobs to add are what is missing of these sizes, with runtimes so that 84.7 % of all are within 10,000 s.

THETA_JOBS: Final = 2550
THETA_SHARES: Final = {1: 0.348, 8: 0.203, 256: 0.126}
"""Sizes and their share of all jobs [2025, section 3.4]."""
THETA_SHORT_S: Final = 10_000.0
THETA_SHORT: Final = 0.847
ADDED: Final = "synthetic"
"""The name of the jobs that were added."""
_OTHERS: Final = (2, 4, 16, 32, 64)
_LONGEST_S: Final = 60_000.0


def top_up_theta(window: Workload, *, seed: int, jobs: int = THETA_JOBS) -> Workload:
    """Add jobs to 28 days of Theta.

    Args:
        window: The real jobs.
        seed: Determines the jobs that are added.
        jobs: How many there are then.

    Raises:
        ValueError: There are more jobs already, or the machine is smaller than the jobs to add.
    """
    missing = jobs - len(window)
    if missing < 1:
        raise ValueError(f"the window has {len(window)} jobs already, {jobs} are wanted")
    if window.nodes < max(THETA_SHARES):
        raise ValueError(f"the machine has {window.nodes} nodes, jobs to add have up to {max(THETA_SHARES)}")
    rng = np.random.default_rng(seed)
    present = np.array([job.nodes for job in window.jobs])
    wanted = {size: max(0, round(share * jobs) - int((present == size).sum())) for size, share in THETA_SHARES.items()}
    sizes = np.repeat(list(wanted), list(wanted.values()))[:missing]
    others = rng.choice(_OTHERS, missing - len(sizes))
    sizes = rng.permutation(np.concatenate((sizes, others))).astype(np.int64)
    short_now = sum(job.runtime_s <= THETA_SHORT_S for job in window.jobs)
    short = min(1.0, max(0.0, (THETA_SHORT * jobs - short_now) / missing))
    runtime_s = piecewise_log(spread(rng, missing), ((0.0, 10.0), (short, THETA_SHORT_S), (1.0 + 1e-9, _LONGEST_S)))
    days = max(1, int(np.ceil((window.jobs[-1].submit_s + 1) / DAY_S)))
    drawn = workload(
        window.name,
        window.nodes,
        arrivals(rng, missing, day_cycle(days).tolist(), 3600.0),
        runtime_s,
        1.25 * runtime_s + 1,
        sizes,
        source="",
        names=[ADDED] * missing,
    )
    first_id = 1 + max(job.job_id for job in window.jobs)
    added = (structs.replace(job, job_id=first_id + job.job_id, user="synthetic") for job in drawn.jobs)
    return replace(
        window,
        name=f"{window.name}, topped up",
        jobs=in_order([*window.jobs, *added]),
        synthetic=True,
        source=f"{window.source}; {missing} of {jobs} jobs are synthetic, seed={seed}",
    )
