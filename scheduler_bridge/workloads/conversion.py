"""Makes a share of a workload's rigid jobs malleable, by the rules of the papers, and of these some evolving."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from msgspec import structs

from scheduler_bridge.workloads.workload import TraceJob, Workload, in_order

PARALLEL_SHARES: Final = (0.999, 0.995, 0.99, 0.985, 0.98, 0.975, 0.97, 0.965, 0.96, 0.955, 0.95)
"""Amdahl's parallel shares of which one is chosen for a job [code of the 2025 paper]."""
PREFERRED_EFFICIENCY: Final = 0.8
MIN_EFFICIENCY: Final = 0.95
MAX_EFFICIENCY: Final = 0.5
LEAST_PART: Final = 5
"""Jobs of logs shrink to so much less than the trace's size [published converter of the 2025 paper's authors]."""
SCALABILITY: Final = {"high": (0.0, 0.1), "medium": (0.1, 0.2), "low": (0.2, 0.3)}
"""Ranges of rho by class: above the first number, up to the second [MEBF, section 4]."""
OVERHEADS: Final = (0.005, 0.05)
"""From where to where alpha and beta of a resize's overhead are [MEBF, section 4.3]."""
MAX_FACTOR: Final = 5
"""MEBF's largest size by the trace's [MEBF, section 4]."""

Rule: TypeAlias = Callable[[TraceJob, int, random.Random], TraceJob]
"""Makes a rigid job malleable, given the machine's nodes and a source of randomness."""


def amdahl_rule(job: TraceJob, machine_nodes: int, rng: random.Random) -> TraceJob:
    """Bounds by efficiency thresholds under Amdahl's law [code of the 2023 strategies' and the 2021 paper].

    The parallel share is the one whose efficiency at the trace's size exceeds 0.8 by least; where none does, or where
    several are as near, the largest one. Fewest nodes: the last number with an efficiency above 0.95; most nodes: above
    0.5; both rounded down to a power of two and moved to include the trace's size, which is preferred.
    """
    del rng
    share = parallel_share(job.nodes)
    low = min(_power_of_two(_last_above(share, MIN_EFFICIENCY)), job.nodes)
    return _scaling(job, share, low, min(_power_of_two(_last_above(share, MAX_EFFICIENCY)), machine_nodes))


def amdahl_logs_rule(job: TraceJob, machine_nodes: int, rng: random.Random) -> TraceJob:
    """The same law, with the bounds that its authors give to jobs of these logs [their converter of logs, 2026].

    It has the parameters of the 2025 paper, whose own converter is not published. Of jobs of one node, for which every
    parallel share is as good, the smallest one is taken: else they would scale to half of the machine. Fewest nodes: a
    fifth of the trace's size, rounded down; most nodes: the last number with an efficiency above 0.5.
    """
    del rng
    share = parallel_share(job.nodes) if job.nodes > 1 else min(PARALLEL_SHARES)
    low = max(1, job.nodes // LEAST_PART)
    return _scaling(job, share, low, min(_last_above(share, MAX_EFFICIENCY), machine_nodes))


def _scaling(job: TraceJob, share: float, low: int, high: int) -> TraceJob:
    high = max(high, job.nodes)
    return structs.replace(job, job_class="malleable", min_nodes=low, max_nodes=high, speedup=f"amdahl:{share}")


def mebf_rule(scalability: str = "high", overheads: tuple[float, float] | None = OVERHEADS) -> Rule:
    """The rule of the MEBF paper, for a class of scalability.

    Preferred: the trace's size; fewest: half of it, rounded up; most: five times it, at most the machine; rho normal
    around the middle of its class, within the class (three standard deviations) [D: the paper gives the ranges]; alpha
    and beta of the overhead of a resize evenly from their interval, once for each job [D: the paper calls them
    constants of an application, and chosen randomly].

    Args:
        scalability: high, medium or low.
        overheads: The interval of alpha and beta; None: the jobs have none of their own.

    Raises:
        KeyError: The class is none of high, medium, low.
    """
    above, up_to = SCALABILITY[scalability]

    def rule(job: TraceJob, machine_nodes: int, rng: random.Random) -> TraceJob:
        rho = rng.normalvariate((above + up_to) / 2, (up_to - above) / 6)
        rho = min(max(rho, above + 1e-6), up_to)
        high = max(min(MAX_FACTOR * job.nodes, machine_nodes), job.nodes)
        low = -(-job.nodes // 2)
        overhead = None if overheads is None else (rng.uniform(*overheads), rng.uniform(*overheads))
        return structs.replace(
            job,
            job_class="malleable",
            min_nodes=low,
            max_nodes=high,
            rho=rho,
            speedup=f"power:{rho!r}",
            overhead=overhead,
        )

    return rule


RULES: Final[Mapping[str, Rule]] = {
    "amdahl": amdahl_rule,
    "amdahl-logs": amdahl_logs_rule,
    **{f"mebf-{scalability}": mebf_rule(scalability) for scalability in SCALABILITY},
}
"""The rules by the names that users give."""


def parallel_share(nodes: int) -> float:
    """Amdahl's parallel share by which ``nodes`` is a reasonable size: see ``amdahl_rule``."""
    fitting = [share for share in PARALLEL_SHARES if efficiency(share, nodes) > PREFERRED_EFFICIENCY]
    return min(fitting, key=lambda share: efficiency(share, nodes), default=PARALLEL_SHARES[0])


def efficiency(share: float, nodes: int) -> float:
    """Speedup on ``nodes`` nodes by their number, under Amdahl's law with this parallel share."""
    return 1 / (nodes * (1 - share) + share)


def _last_above(share: float, threshold: float) -> int:
    """The largest number of nodes whose efficiency is above ``threshold``."""
    nodes = int((1 / threshold - share) / (1 - share)) + 1
    while efficiency(share, nodes) <= threshold:
        nodes -= 1
    return nodes


def _power_of_two(nodes: int) -> int:
    return 1 << (nodes.bit_length() - 1)


def convert(workload: Workload, proportion: float, seed: int, rule: Rule = amdahl_rule) -> Workload:
    """Make a share of the rigid jobs malleable.

    The jobs are put in an order that the seed draws, and the first of them are converted: so a larger share contains
    a smaller one of the same seed, and a job's bounds do not depend on the share.

    Args:
        workload: Its malleable jobs stay as they are.
        proportion: From 0 to 1; of the rigid jobs.
        seed: Determines which.
        rule: Gives a job its bounds.

    Raises:
        ValueError: The proportion is out of range.
    """

    def bounded(job: TraceJob) -> TraceJob:
        return rule(job, workload.nodes, random.Random(f"{seed} bounds {job.job_id}"))

    return _changed(workload, proportion, seed, lambda job: not job.is_malleable, bounded)


def shake(workload: Workload, by_s: float, seed: int) -> Workload:
    """Move each submission by up to ``by_s`` seconds, earlier or later, evenly drawn.

    Figures of one trace may depend on chance meetings of its jobs; means over shaken ones do not, and say how much
    they vary [Tsafrir, Ouaknine and Feitelson, MASCOTS 2007].

    Raises:
        ValueError: The time is negative.
    """
    if by_s < 0:
        raise ValueError(f"by_s is {by_s}, must not be negative")
    rng = random.Random(f"{seed} shake")
    moved = (structs.replace(job, submit_s=max(0.0, job.submit_s + rng.uniform(-by_s, by_s))) for job in workload.jobs)
    return replace(workload, jobs=in_order(moved))


def make_evolving(workload: Workload, proportion: float, seed: int, target_efficiency: float | None = None) -> Workload:
    """Let a share of the malleable jobs offer nodes while they run, and ask for them again.

    [D] No trace has what such jobs want. One offers 1 to as many nodes as it may do without at the size that it
    prefers, between a tenth and half of its work, and asks for as many between half of it and nine tenths; one that
    cannot have fewer asks first, for no more than it may have, and offers them later. All is drawn evenly. Whether it
    gets what it asks for depends on who waits then.

    Args:
        workload: Its malleable jobs that have one size only stay as they are.
        proportion: From 0 to 1; of the malleable jobs, chosen as ``convert`` chooses.
        seed: Determines which, when, and how many nodes.
        target_efficiency: They size themselves to hold this efficiency, instead of what is drawn; None: they do not.

    Raises:
        ValueError: The proportion is out of range, or the efficiency.
    """

    def evolving(job: TraceJob) -> TraceJob:
        if target_efficiency is not None:
            return structs.replace(job, target_efficiency=target_efficiency, wishes=())
        rng = random.Random(f"{seed} wishes {job.job_id}")
        first, second = rng.uniform(0.1, 0.5), rng.uniform(0.5, 0.9)
        more, fewer = job.max_nodes - job.nodes, job.nodes - job.min_nodes
        if not more and not fewer:
            return job
        count = -rng.randint(1, fewer) if fewer else rng.randint(1, more)
        return structs.replace(job, wishes=((first, count), (second, -count)))

    return _changed(workload, proportion, f"{seed} evolving", lambda job: job.is_malleable, evolving)


def _changed(
    workload: Workload,
    proportion: float,
    seed: object,
    fits: Callable[[TraceJob], bool],
    change: Callable[[TraceJob], TraceJob],
) -> Workload:
    """The workload with a share of the jobs that fit changed, the first ones of an order that the seed draws."""
    if not 0 <= proportion <= 1:
        raise ValueError(f"proportion is {proportion}, must be from 0 to 1")
    fitting = sorted((job for job in workload.jobs if fits(job)), key=lambda job: job.job_id)
    chosen = {job.job_id for job in drawn_order(fitting, seed)[: round(proportion * len(fitting))]}
    return replace(workload, jobs=tuple(change(job) if job.job_id in chosen else job for job in workload.jobs))


def drawn_order(jobs: Iterable[TraceJob], seed: object) -> list[TraceJob]:
    """The jobs in an order that the seed draws."""
    order = list(jobs)
    random.Random(f"{seed} order").shuffle(order)
    return order
