"""What a workload is like, in numbers."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduler_bridge.workloads.findings import TraceError
from scheduler_bridge.workloads.record import TraceJob, Workload

_PERCENTILES: Final = (25, 50, 75, 90, 99)
_FREQUENT: Final = 5


@dataclass(frozen=True, slots=True)
class Spread:
    """A column in numbers: mean, least and largest, and percentiles."""

    mean: float
    least: float
    largest: float
    percentiles: dict[int, float]


@dataclass(frozen=True, slots=True)
class WorkloadStatistics:
    """A workload in numbers.

    Attributes:
        name: Marked where it is synthetic.
        source: Where it comes from.
        synthetic: Whether it was drawn.
        jobs: Number of jobs.
        malleable: Number of them that are malleable.
        users: Number of users; 0: not known.
        nodes: The machine.
        span_s: First to last submission, in seconds.
        jobs_per_h: Submissions per hour of the span; 0 if it has no length.
        node_hours: What all jobs need at the sizes that they ask for.
        offered: Node-seconds of all jobs by those of the machine during the span; 0 if it has no length.
        sizes: Nodes.
        runtimes_s: Seconds.
        walltimes_s: Seconds.
        accuracy: Runtime by walltime, on average.
        mean_wait_s: As recorded; None: not known for any job.
        frequent_sizes: The most frequent sizes and their share.
    """

    name: str
    source: str
    synthetic: bool
    jobs: int
    malleable: int
    users: int
    nodes: int
    span_s: float
    jobs_per_h: float
    node_hours: float
    offered: float
    sizes: Spread
    runtimes_s: Spread
    walltimes_s: Spread
    accuracy: float
    mean_wait_s: float | None
    frequent_sizes: dict[int, float]


def describe_workload(workload: Workload) -> WorkloadStatistics:
    """Compute the numbers.

    Raises:
        ValueError: The workload has no jobs.
    """
    jobs = workload.jobs
    if not jobs:
        raise ValueError(f"{workload.name} has no jobs")
    span_s = jobs[-1].submit_s - jobs[0].submit_s
    node_hours = sum(job.node_hours for job in jobs)
    waits = [job.wait_s for job in jobs if job.wait_s is not None]
    sizes = Counter(job.nodes for job in jobs)
    return WorkloadStatistics(
        name=workload.label,
        source=workload.source,
        synthetic=workload.synthetic,
        jobs=len(jobs),
        malleable=sum(job.is_malleable for job in jobs),
        users=len({job.user for job in jobs} - {""}),
        nodes=workload.nodes,
        span_s=span_s,
        jobs_per_h=len(jobs) / span_s * 3600 if span_s else 0.0,
        node_hours=node_hours,
        offered=node_hours * 3600 / (workload.nodes * span_s) if span_s else 0.0,
        sizes=_spread([job.nodes for job in jobs]),
        runtimes_s=_spread([job.runtime_s for job in jobs]),
        walltimes_s=_spread([job.walltime_s for job in jobs]),
        accuracy=statistics.fmean(job.runtime_s / job.walltime_s for job in jobs),
        mean_wait_s=statistics.fmean(waits) if waits else None,
        frequent_sizes={size: count / len(jobs) for size, count in sizes.most_common(_FREQUENT)},
    )


def _spread(values: Sequence[float]) -> Spread:
    ordered = sorted(values)
    last = len(ordered) - 1
    return Spread(
        mean=statistics.fmean(ordered),
        least=float(ordered[0]),
        largest=float(ordered[-1]),
        percentiles={percent: float(ordered[round(percent / 100 * last)]) for percent in _PERCENTILES},
    )


def busy_nodes(jobs: Sequence[TraceJob]) -> list[tuple[float, int]]:
    """(time, nodes in use from then on) as recorded; jobs whose wait is not known are taken to start at once."""
    changes: Counter[float] = Counter()
    for job in jobs:
        start_s = job.submit_s + (job.wait_s or 0.0)
        changes[start_s] += job.nodes
        changes[start_s + job.runtime_s] -= job.nodes
    steps, busy = [], 0
    for time_s in sorted(changes):
        busy += changes[time_s]
        steps.append((time_s, busy))
    return steps


def unknown_nodes(name: str, jobs: Sequence[TraceJob], why: str) -> TraceError:
    """Why a workload that does not say how many nodes its machine has is refused, with numbers that help to choose.

    A machine of as many nodes as the largest job has is no guess: on one trace whose header was missing, jobs waited
    4,000 times as long.

    Args:
        name: Of the file.
        jobs: Its jobs, at least one.
        why: The file does not say it.
    """
    from_s = min(job.submit_s for job in jobs)
    to_s = max(job.submit_s + (job.wait_s or 0.0) + job.runtime_s for job in jobs)
    largest = max(job.nodes for job in jobs)
    length_s = (to_s - from_s) or max(job.runtime_s for job in jobs)  # late, short jobs end when they begin
    mean = sum(job.nodes * job.runtime_s for job in jobs) / length_s
    full, usual = (max(largest, math.ceil(mean / load)) for load in (1.0, 0.7))
    facts = [f"the largest job has {largest:,}", f"all jobs together make {full:,} busy to 100 %, {usual:,} to 70 %"]
    if all(job.wait_s is not None for job in jobs):
        usual = max(busy for _, busy in busy_nodes(jobs))
        facts.append(f"as recorded, up to {usual:,} were in use at once")
    return TraceError(
        f"{name}: how many nodes the machine has is not known",
        f"{why}; {'; '.join(facts)}",
        f"say it, for example --nodes {usual}",
    )
