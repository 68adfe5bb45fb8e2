"""One run, simulated and as it was: what both are measured by.

The model: a job on n nodes takes what the strong scaling says, between its points by a power law. A job's nodes are
free 1.75 s after its end: in the real runs under FCFS, EASY and backfilling, half of the jobs that waited for nodes
started that long after another one's end. A malleable job takes orders 6.04 s after its start. A grow takes 6.78 s and
a shrink 15.19 s: these are the numbers of the published data file; the paper's text and figure have them the other way
round (14.55 s and 7.41 s), for the script that draws the figure swaps the two.

A job whose resize failed in reality takes as long as it did, on any nodes, and takes no orders. If none of its resizes
was carried out, it has the nodes that it started on in reality, from its start to its end: the scheduler still waited
for the order, and the published runs agree, for the other jobs never had more than the rest. Those of them that do
not compute any more count as held, but not as used: utilization is "the fraction of time during which nodes are
actively executing jobs". As many compute as the strong scaling needs for the time that the job took.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from scheduler_bridge.core.settings import settings_for
from scheduler_bridge.experiments.published_runs.data import NODES, WALLTIME_S, RealJob
from scheduler_bridge.model import JobSpec
from scheduler_bridge.policies import get
from scheduler_bridge.sim import Engine, SimJob

_NEVER_S: Final = 1e9
"""Nobody was killed in the real runs."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What things took on the real cluster, in seconds.

    Attributes:
        release_s: From a job's end until its nodes are free.
        ready_s: From a job's start until it takes orders.
        grow_s: A grow.
        shrink_s: A shrink.
        spread: Standard deviation of the logarithm of a job's runtime, for repeated runs of a batch: the same job on
            the same nodes differs by about so much.
    """

    release_s: float = 1.75
    ready_s: float = 6.04
    grow_s: float = 6.78
    shrink_s: float = 15.19
    spread: float = 0.012


@dataclass(frozen=True, slots=True)
class Measures:
    """A run in numbers, as the paper measures it.

    Attributes:
        makespan_s: First submission to last end.
        turnaround_s: Submission to end, mean of the jobs.
        wait_s: Submission to start, mean of the jobs.
        runtime_s: Start to end, mean of the jobs.
        utilization: Node-seconds of jobs, with the release of their nodes, by those of the cluster until the last end,
            in percent, without nodes that a failed resize left idle; None: not known, since the sizes of resized jobs
            over time are not published.
        grows: Grow orders.
        shrinks: Shrink orders.
    """

    makespan_s: float
    turnaround_s: float
    wait_s: float
    runtime_s: float
    utilization: float | None
    grows: float
    shrinks: float


def seconds_on(scaling: dict[int, float], nodes: int) -> float:
    """The runtime on ``nodes`` nodes: a power law between, and beyond, the points nearest to it."""
    points = sorted(scaling.items())
    index = min(max(1, sum(size < nodes for size, _ in points)), len(points) - 1)
    (low, slow_s), (high, fast_s) = points[index - 1], points[index]
    exponent = math.log(fast_s / slow_s) / math.log(high / low)
    return slow_s * math.pow(nodes / low, exponent)


def nodes_for(scaling: dict[int, float], seconds: float) -> float:
    """On how many nodes, at least 1, a job takes so long: the inverse of ``seconds_on``, between whole numbers, too."""
    points = sorted(scaling.items())
    index = min(max(1, sum(taken_s > seconds for _, taken_s in points)), len(points) - 1)
    (low, slow_s), (high, fast_s) = points[index - 1], points[index]
    return max(1.0, low * math.pow(high / low, math.log(slow_s / seconds) / math.log(slow_s / fast_s)))


def simulated(
    jobs: Sequence[RealJob],
    scaling: dict[tuple[str, str], dict[int, float]],
    policy: str,
    costs: Costs,
    *,
    replica: int = 0,
) -> Measures:
    """Simulate a batch.

    Args:
        jobs: The batch, from a real run.
        scaling: Runtimes by nodes, for each program and input.
        policy: One of this project's.
        costs: What things take.
        replica: 0: runtimes as in the scaling; others: with a random spread that the number determines.
    """
    rng = random.Random(replica)
    sims = [_sim_job(job, scaling, costs, math.exp(rng.gauss(0, costs.spread)) if replica else 1.0) for job in jobs]
    settings = replace(settings_for(policy), walltime_grace_s=_NEVER_S)
    records = Engine(NODES, get(policy), settings).run(sims).records.values()
    computing = {job.job_id: nodes_for(scaling[job.program], job.end_s - job.start_s) for job in jobs if job.failed}
    spans, held = [], 0.0
    for record in records:
        start_s, end_s = record.start_s, record.end_s
        if start_s is None or end_s is None or record.outcome != "completed":
            raise RuntimeError(f"job {record.spec.job_id} did not complete under {policy}: {record.outcome}")
        spans.append((record.spec.submit_s, start_s, end_s - costs.release_s))
        most = computing.get(record.spec.job_id, math.inf)
        held += sum(
            min(nodes, most) * (to_s - from_s) for from_s, to_s, nodes in record.sizes.spans(end_s) if to_s > from_s
        )
    return _measures(spans, held, sum(record.grows for record in records), sum(record.shrinks for record in records))


def _sim_job(job: RealJob, scaling: dict[tuple[str, str], dict[int, float]], costs: Costs, factor: float) -> SimJob:
    by_nodes = scaling[job.program]

    def speed(nodes: int) -> float:
        runtime_s = job.end_s - job.start_s if job.failed else factor * seconds_on(by_nodes, nodes)
        return 1 / (runtime_s + costs.release_s)

    least, most = (job.start_nodes, job.start_nodes) if job.stuck else (job.min_nodes, job.max_nodes)
    spec = JobSpec(
        job_id=job.job_id,
        name=job.name,
        user="paper",
        job_class="malleable" if job.malleable else "rigid",
        nodes=most,
        min_nodes=least,
        max_nodes=most,
        walltime_s=WALLTIME_S,
        submit_s=max(0.0, job.submit_s),
    )
    return SimJob(
        spec,
        1 / speed(most),
        speedup=speed,
        ready_delay_s=None if job.failed else costs.ready_s,
        grow_s=costs.grow_s,
        shrink_s=costs.shrink_s,
    )


def measured(jobs: Sequence[RealJob], costs: Costs) -> Measures:
    """Measure a real run."""
    grows, shrinks = sum(job.grows for job in jobs), sum(job.shrinks for job in jobs)
    held = sum(job.start_nodes * (job.end_s - job.start_s + costs.release_s) for job in jobs)
    result = _measures([(job.submit_s, job.start_s, job.end_s) for job in jobs], held, grows, shrinks)
    return replace(result, utilization=None) if grows or shrinks else result


def _measures(spans: Sequence[tuple[float, float, float]], held: float, grows: int, shrinks: int) -> Measures:
    makespan_s = max(end_s for *_, end_s in spans) - min(submit_s for submit_s, *_ in spans)
    return Measures(
        makespan_s=makespan_s,
        turnaround_s=statistics.fmean(end_s - submit_s for submit_s, _, end_s in spans),
        wait_s=statistics.fmean(start_s - submit_s for submit_s, start_s, _ in spans),
        runtime_s=statistics.fmean(end_s - start_s for _, start_s, end_s in spans),
        utilization=100 * held / (NODES * makespan_s),
        grows=grows,
        shrinks=shrinks,
    )
