"""Published models of the workload of supercomputers: Lublin and Feitelson's, and Cirne and Berman's."""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np

from scheduler_bridge.workloads.generate.draw import Floats, Ints, arrivals, day_cycle, spread, workload, zipf_users
from scheduler_bridge.workloads.workload import Workload

# Lublin and Feitelson's model: rigid jobs of parallel supercomputers -------------------------------------------------
#
# U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid jobs",
# Journal of Parallel and Distributed Computing 63(11), 2003, with the parameters that the authors published for jobs
# without types (``lublin99``). Sizes: serial, power of two, or any, by a two-stage uniform distribution of log2;
# runtimes: a hyper-gamma distribution of the logarithm whose mix depends on the size; arrivals: a gamma distribution of
# the logarithm of the time between jobs at rush hours, stretched by the cycle of the day in half-hours.
#
# Estimates and users are not part of the model [D]: see ``estimates``; users by Zipf's law.

LUBLIN_SERIAL: Final = 0.244
LUBLIN_POWERS_OF_TWO: Final = 0.576
LOG_LOW: Final = 0.8
LOG_MEDIUM_BELOW_HIGH: Final = 2.5
"""The middle of the two stages lies so far below log2 of the machine: 4.5 for the model's 128 nodes."""
LOW_STAGE: Final = 0.86
RUNTIME_SHORT: Final = (4.2, 0.94)
RUNTIME_LONG: Final = (312.0, 0.03)
SHORT_PER_NODE: Final = -0.0054
SHORT_AT_ZERO: Final = 0.78
MAX_LOG_RUNTIME: Final = 12.0
ARRIVAL: Final = (10.2303 * 1.0225, 0.4871)
"""Shape, with the ratio of rush hours to all hours, and scale."""
MAX_LOG_ARRIVAL: Final = 13.0
CYCLE: Final = (8.1737, 3.9631)
SLOTS: Final = 48
FIRST_SLOT: Final = 11
SLOT_S: Final = 1800
_ESTIMATE_LIMIT_S: Final = 36 * 3600.0
_LUBLIN_USERS: Final = 60

Estimates = Literal["exact", "typical"]


def lublin(
    jobs: int = 10_000,
    nodes: int = 100,
    *,
    seed: int,
    load: float | None = None,
    estimates: Estimates = "typical",
) -> Workload:
    """Draw a workload.

    Args:
        jobs: Number of jobs.
        nodes: The machine.
        seed: Determines everything.
        load: Stretch the arrivals so that the node-seconds of all jobs are this share of the machine's until the last
            submission; None or 0: as the model has them, which suits 128 nodes.
        estimates: ``exact``: the walltime is the runtime; ``typical`` [D]: the runtime is a uniform share of it, at
            most 36 hours, rounded up to minutes.

    Raises:
        ValueError: A number is out of range.
    """
    load = load or None
    if jobs < 1 or nodes < 2 or (load is not None and load < 0):
        raise ValueError(f"jobs is {jobs}, nodes {nodes}, load {load}: at least 1 job, 2 nodes, a load above 0")
    rng = np.random.default_rng(seed)
    sizes = _lublin_sizes(rng, jobs, nodes)
    runtime_s = np.maximum(1.0, np.floor(np.exp(_log_runtimes(rng, sizes))))
    submit_s = _arrivals(rng, jobs)
    if load is not None:
        submit_s *= float((sizes * runtime_s).sum()) / (load * nodes * max(float(submit_s[-1]), 1.0))
    walltime_s = runtime_s
    if estimates == "typical":
        guessed = np.minimum(runtime_s / (1 - rng.random(jobs)), np.maximum(_ESTIMATE_LIMIT_S, runtime_s))
        walltime_s = np.ceil(guessed / 60) * 60
    return workload(
        f"lublin-{jobs}-{nodes}",
        nodes,
        submit_s,
        runtime_s,
        walltime_s,
        sizes,
        source=f"Lublin-Feitelson 2003, jobs={jobs} nodes={nodes} seed={seed} load={load} estimates={estimates}",
        users=zipf_users(rng, jobs, _LUBLIN_USERS),
    )


def _lublin_sizes(rng: np.random.Generator, jobs: int, nodes: int) -> Ints:
    high = math.log2(nodes)
    medium = max(LOG_LOW, high - LOG_MEDIUM_BELOW_HIGH)
    kind, stage, place = rng.random(jobs), rng.random(jobs), rng.random(jobs)
    low_edge = np.where(stage <= LOW_STAGE, LOG_LOW, medium)
    high_edge = np.where(stage <= LOW_STAGE, medium, high)
    log_size = low_edge + place * (high_edge - low_edge)
    log_size = np.where(kind <= LUBLIN_SERIAL + LUBLIN_POWERS_OF_TWO, np.floor(log_size + 0.5), log_size)
    sizes = np.where(kind <= LUBLIN_SERIAL, 1, np.floor(2**log_size + 0.5))
    return np.clip(sizes, 1, nodes).astype(np.int64)


def _log_runtimes(rng: np.random.Generator, sizes: Ints) -> Floats:
    short_share = np.clip(SHORT_PER_NODE * sizes + SHORT_AT_ZERO, 0, 1)
    result = np.full(len(sizes), np.inf)
    while (open_ := result > MAX_LOG_RUNTIME).any():  # those that are too long are drawn anew
        count = int(open_.sum())
        short = rng.random(count) <= short_share[open_]
        shape = np.where(short, RUNTIME_SHORT[0], RUNTIME_LONG[0])
        scale = np.where(short, RUNTIME_SHORT[1], RUNTIME_LONG[1])
        result[open_] = rng.gamma(shape, scale)
    return result


def _arrivals(rng: np.random.Generator, jobs: int) -> Floats:
    """Times between jobs are paid with the points of half-hours, of which busy ones have more: see ``day_points``."""
    gaps = np.full(jobs, np.inf)
    while (open_ := gaps > MAX_LOG_ARRIVAL).any():
        gaps[open_] = rng.gamma(*ARRIVAL, int(open_.sum()))
    spent = np.cumsum(np.exp(gaps) / SLOT_S)
    days, within = np.divmod(spent, SLOTS)
    edges = np.concatenate(([0.0], np.cumsum(day_points())))
    return days * SLOTS * SLOT_S + np.interp(within, edges, np.arange(SLOTS + 1) * SLOT_S)


def day_points() -> Floats:
    """The relative number of jobs in each half-hour of the day, 1 on average: a gamma distribution from 5:30 on."""
    slots = np.arange(FIRST_SLOT, FIRST_SLOT + SLOTS)
    shape, scale = CYCLE
    fine = np.linspace(0, FIRST_SLOT + SLOTS, 20_001)
    density = np.exp((shape - 1) * np.log(np.maximum(fine, 1e-12)) - fine / scale)
    total = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    points = np.interp(slots + 0.5, fine, total) - np.interp(slots - 0.5, fine, total)
    result = np.empty(SLOTS)
    result[(slots - 1) % SLOTS] = points / points.mean()
    return result


# Cirne and Berman's model: arrivals, sizes, requested times, and what of them is used --------------------------------
#
# W. Cirne and F. Berman, "A comprehensive model of the supercomputer workload", WWC-4, 2001. The model describes a job
# by its arrival in the cycle of the day, its size (uniform in log2, most of them powers of two), its requested time
# (uniform in the logarithm) and the accuracy of that request, of which half of the jobs and more use less than a fifth.
# The published fits of single sites are not reproduced; the numbers here are ours [D], set so that the workloads of the
# SD-policy paper (its Table 1: Cirne, 5,000 jobs, 1,024 nodes, jobs of up to 128 nodes, all over after 900,000 s, most
# of which they wait) have its size: so this is the model's form with other parameters.

CIRNE_POWERS_OF_TWO: Final = 0.75
CIRNE_REQUEST_S: Final = (60.0, 172_800.0)
CIRNE_ACCURACY: Final = (0.55, 1.4)
"""Shapes of the beta distribution of runtime by requested time."""
_CIRNE_USERS: Final = 80


def cirne(
    jobs: int = 5000,
    nodes: int = 1024,
    *,
    seed: int,
    largest: int | None = None,
    load: float = 8.0,
    exact: bool = False,
    requests_s: tuple[float, float] = CIRNE_REQUEST_S,
) -> Workload:
    """Draw a workload.

    Args:
        jobs: Number of jobs.
        nodes: The machine.
        seed: Determines everything.
        largest: Nodes of the largest job; None or 0: an eighth of the machine.
        load: Node-seconds of all jobs by those of the machine until the last submission.
        exact: Requested times are the runtimes, in an otherwise equal workload.
        requests_s: Shortest and longest requested time.

    Raises:
        ValueError: A number is out of range.
    """
    largest = largest or max(1, nodes // 8)
    if jobs < 1 or not 1 <= largest <= nodes or load <= 0 or not 0 < requests_s[0] < requests_s[1]:
        raise ValueError(f"jobs is {jobs}, the largest {largest} of {nodes} nodes, load {load}: out of range")
    rng = np.random.default_rng(seed)
    log_size = spread(rng, jobs) * math.log2(largest)
    rounded = rng.random(jobs) < CIRNE_POWERS_OF_TWO
    sizes = np.clip(np.rint(2 ** np.where(rounded, np.rint(log_size), log_size)), 1, largest).astype(np.int64)
    request_s = requests_s[0] * (requests_s[1] / requests_s[0]) ** spread(rng, jobs)
    accuracy = np.maximum(rng.beta(*CIRNE_ACCURACY, jobs), 1e-3)
    runtime_s = np.maximum(1.0, np.rint(request_s * accuracy))
    span_s = float((sizes * runtime_s).sum()) / (load * nodes)
    days = max(1, math.ceil(span_s / 86_400))
    submit_s = arrivals(rng, jobs, day_cycle(days).tolist(), 3600.0)
    submit_s *= span_s / (days * 86_400)
    return workload(
        f"cirne-{'exact-' if exact else ''}{jobs}-{nodes}",
        nodes,
        submit_s,
        runtime_s,
        runtime_s if exact else np.maximum(request_s, runtime_s),
        sizes,
        source=f"Cirne-Berman form, jobs={jobs} nodes={nodes} largest={largest} load={load} exact={exact} seed={seed}",
        users=zipf_users(rng, jobs, _CIRNE_USERS),
    )
