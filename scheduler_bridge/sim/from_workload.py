"""The one place where jobs of workloads become simulated jobs."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim.agenda import Submissions, taken
from scheduler_bridge.sim.costs import Cost
from scheduler_bridge.sim.failures import FaultTolerance
from scheduler_bridge.sim.models import SimJob
from scheduler_bridge.sim.speedup import Speedup, parse_speedup
from scheduler_bridge.workloads import TraceJob, Workload
from scheduler_bridge.workloads.dependencies import After, Dependencies, dependencies

_RUN_AGAIN: Final = FaultTolerance()


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How simulated jobs behave beside what the workload says of them. Times in seconds.

    Attributes:
        cost: What resizes cost; None: nothing.
        start_delay_s: From the decision to the start.
        moldable: Malleable jobs start on any size in their range and keep it.
        steps: Parts of the work at whose ends jobs can be resized, for those of which the workload says nothing.
        point_s: The same by length: so many seconds of progress, at the size asked for, make a part; 0: ``steps``.
        tolerance: What becomes of jobs that lose a node: by default they are run again, from the beginning. Resilient
            are malleable jobs only.
    """

    cost: Cost | None = None
    start_delay_s: float = 0.0
    moldable: bool = False
    steps: int = 0
    point_s: float = 0.0
    tolerance: FaultTolerance = _RUN_AGAIN


def sim_jobs(workload: Workload, behaviour: Behaviour | None = None) -> list[SimJob]:
    """Make simulated jobs of the workload's.

    [D] A job that ran longer than its walltime where it comes from is given the runtime as walltime: that machine let
    it. [D] Where a malleable job's speedup is no power law, the scheduler believes in the one that has the same gain
    from the size asked for to the largest one. [D] Walltimes are longer by what checkpoints and a restart take: who has
    them asks for more time.

    Raises:
        UnknownModelError: A job has a speedup model that does not exist.
    """
    jobs = workload.jobs
    return list(_made(jobs, _speedups(jobs), behaviour or Behaviour(), dependencies(jobs).after))


def submissions(jobs: deque[TraceJob], behaviour: Behaviour, links: Dependencies) -> Submissions | Iterable[SimJob]:
    """Make simulated jobs of ``jobs`` as they are submitted, and take these out of it; see ``sim_jobs``.

    Args:
        jobs: In the order of submission, then by id.
        behaviour: How they behave.
        links: Who comes after whom. Where there are such jobs, all are made at once.

    Raises:
        UnknownModelError: A job has a speedup model that does not exist.
    """
    sims = _made(taken(jobs), _speedups(jobs), behaviour, links.after)
    return sims if links.after else Submissions(sims, prompt=not behaviour.start_delay_s)


def _speedups(jobs: Iterable[TraceJob]) -> Mapping[str, Speedup]:
    """All of the jobs' speedups, by name."""
    return {name: parse_speedup(name) for name in {job.speedup for job in jobs}}


def _made(
    jobs: Iterable[TraceJob], speedups: Mapping[str, Speedup], behaviour: Behaviour, after: Mapping[int, After]
) -> Iterator[SimJob]:
    """Make simulated jobs one by one."""
    rigid = structs.replace(behaviour.tolerance, resilient=False)
    for job in jobs:
        tolerance = behaviour.tolerance if job.is_malleable else rigid
        sim = _sim_job(job, speedups[job.speedup], behaviour, tolerance)
        yield structs.replace(sim, after=after[job.job_id]) if job.job_id in after else sim


def _sim_job(job: TraceJob, speedup: Speedup, behaviour: Behaviour, tolerance: FaultTolerance) -> SimJob:
    spec = job.spec()
    if job.runtime_s > job.walltime_s:
        spec = structs.replace(spec, walltime_s=job.runtime_s)
    if tolerance.checkpoints is not None or tolerance.restart_s:
        spec = structs.replace(spec, walltime_s=tolerance.takes_s(spec.walltime_s, spec.nodes))
    if not job.is_malleable:
        return SimJob(spec, job.runtime_s, start_delay_s=behaviour.start_delay_s, tolerance=tolerance)
    if job.rho == 0 and job.speedup != "linear":
        spec = structs.replace(spec, rho=believed_rho(spec, speedup))
    steps = job.steps or behaviour.steps
    if behaviour.point_s > 0:
        steps = math.ceil(job.runtime_s / behaviour.point_s)
    return SimJob(
        spec,
        job.runtime_s,
        speedup=speedup,
        start_delay_s=behaviour.start_delay_s,
        ready_delay_s=None if behaviour.moldable else 0.0,
        cost=behaviour.cost,
        steps=steps,
        wishes=() if behaviour.moldable else job.wishes,
        tolerance=tolerance,
    )


def believed_rho(spec: JobSpec, speedup: Speedup) -> float:
    """The rho of the power law with the gain from ``spec.nodes`` to the largest size, else from the smallest one."""
    low, high = (spec.nodes, spec.max_nodes) if spec.max_nodes > spec.nodes else (spec.min_nodes, spec.nodes)
    if low == high:
        return 0.0
    return min(1.0, max(0.0, 1.0 - math.log(speedup(high) / speedup(low)) / math.log(high / low)))
