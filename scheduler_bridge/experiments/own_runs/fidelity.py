"""The simulator held against our own real runs: the same batches with the measured costs of start, grow and shrink.

The model: a job on n nodes takes what such jobs took that were never resized, the median of all batches and of the
strong scaling (between two sizes by a power law), and for its start and end a base and something for each node. It
takes its first order the median delay after its start. Resizes cost a base and something for each node; the places that
stay go on computing. All costs are fitted to the very runs; what is simulated is when what happens.

A batch is chaotic: a job that ends a little later lets another one start elsewhere. So each is simulated several times,
with runtimes that spread as much as the measured ones, and the means count. From the decision to the start a job takes
as long as one of the measured jobs, drawn at random: jobs that were started at once end at different times then, as in
reality, and by their order EASY reserves nodes.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from scheduler_bridge.core.presets import settings_for
from scheduler_bridge.experiments.own_runs.costs import decided_s, took_s
from scheduler_bridge.experiments.own_runs.findings import MEASURES, measures
from scheduler_bridge.experiments.own_runs.plan import RunKey
from scheduler_bridge.experiments.own_runs.problems import NODE_S
from scheduler_bridge.experiments.own_runs.scaling import computed_s, configuration
from scheduler_bridge.experiments.real_runs.model import seconds_on
from scheduler_bridge.model import JobSpec
from scheduler_bridge.policies import get
from scheduler_bridge.record import JobRecord, RunRecord
from scheduler_bridge.sim import Engine, SimJob
from scheduler_bridge.sim.costs import Measured, fit, fitted_line

LIMIT: Final = 5.0
"""The error of the means that we aim at, in percent."""
REPLICAS: Final = 20
"""Simulations of each batch."""
_NEVER_S: Final = 1e9
"""A simulated job that takes longer than the real one, which ended in time, is not killed for that."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What things took in the real runs. Times in seconds.

    Attributes:
        launches_s: From the decision to a job's start, of every job.
        ready_s: From its start until it takes orders.
        around: Of a job's start and end, without its computation: a base, and for each node.
        resizes: What resizes cost.
        computing: The computation of each configuration, by nodes.
        spread: Standard deviation of the logarithm of a measured runtime over the fitted one.
    """

    launches_s: tuple[float, ...]
    ready_s: float
    around: tuple[float, float]
    resizes: Measured
    computing: Mapping[str, Mapping[int, float]]
    spread: float = 0.0

    def runtime_s(self, name: str, nodes: int) -> float:
        """From the start to the end of a job that is not resized."""
        base_s, node_s = self.around
        return seconds_on(dict(self.computing[name]), nodes) + base_s + node_s * nodes

    @property
    def launch_s(self) -> float:
        """From the decision to a job's start, the median."""
        return statistics.median(self.launches_s) if self.launches_s else 0.0

    @property
    def spoken(self) -> str:
        """For people."""
        base_s, node_s = self.around
        return (
            f"a job starts {self.launch_s:.2f} s after the decision and takes orders {self.ready_s:.2f} s later; start "
            f"and end take {base_s:.2f} s and {node_s:.3f} s for each node beside the computation; "
            f"resizes as in --cost {self.resizes.text}; runtimes spread by {100 * self.spread:.1f} %"
        )


def fitted(records: Mapping[RunKey, RunRecord], time: float) -> Fitted:
    """What things took in ``records``, resizes as in those that were not slowed down.

    Args:
        records: Real runs.
        time: Seconds here for a second of the paper, for configurations that never ran without a resize.
    """
    every = list(records.values())
    jobs = [job for record in every for job in record.jobs if job.state == "completed" and job.start_s is not None]
    launches = [
        job.start_s - decided[job.job_id]
        for record in every
        for decided in (decided_s(record),)
        for job in record.jobs
        if job.start_s is not None
    ]
    ready = [job.ready_s - job.start_s for job in jobs if job.ready_s is not None and job.start_s is not None]
    around = [
        (len(job.segments[0].nodes), max(0.0, job.end_s - job.start_s - seconds))
        for job in jobs
        if not job.resizes and job.end_s is not None and job.start_s is not None
        if (seconds := (job.result or {}).get("seconds"))
    ]
    known = computed_s(every)
    costs = Fitted(
        tuple(launches),
        statistics.median(ready) if ready else 0.0,
        fitted_line(around),
        resizes(record for key, record in records.items() if key.kind != "injected"),
        {name: _two(node_s * time, known.get(name, {})) for name, node_s in NODE_S.items()},
    )
    return replace(costs, spread=_spread(jobs, costs))


def _spread(jobs: Iterable[JobRecord], costs: Fitted) -> float:
    """How far runtimes of jobs that were not resized are spread around the fitted ones."""
    apart = [
        math.log((job.end_s - job.start_s) / costs.runtime_s(configuration(job), len(job.segments[0].nodes)))
        for job in jobs
        if not job.resizes and job.end_s is not None and job.start_s is not None and job.end_s > job.start_s
    ]
    return statistics.pstdev(apart) if apart else 0.0


def resizes(records: Iterable[RunRecord]) -> Measured:
    """The costs of resizes, fitted to those of ``records``, from order to end as the scheduler saw it."""
    every = [resize for record in records for job in record.jobs for resize in job.resizes]
    grows, shrinks = (
        [(resize.count, seconds) for resize in every if resize.kind == kind and (seconds := took_s(resize)) is not None]
        for kind in ("grow", "shrink")
    )
    return fit(grows, shrinks)


def _two(node_s: float, sizes: Mapping[int, float]) -> dict[int, float]:
    """Two sizes at least, for a power law between them: what is not known is as the emulated nodes' rate has it."""
    if len(sizes) > 1:
        return dict(sizes)
    nodes, seconds = next(iter(sizes.items()), (1, node_s))
    return {nodes: seconds, 2 * nodes: seconds / 2}


def simulated(record: RunRecord, costs: Fitted, replicas: int = REPLICAS) -> dict[str, list[float]]:
    """Simulate the batch of a real run under its policy: its figures of merit as in ``measures``, of each replica.

    Raises:
        RuntimeError: A job does not complete.
    """
    found = [_replica(record, costs, random.Random(number)) for number in range(replicas)]
    return {name: [one[name] for one in found] for name in MEASURES}


def _replica(record: RunRecord, costs: Fitted, rng: random.Random) -> dict[str, float]:
    sims = [_sim_job(job, costs, rng) for job in record.jobs]
    settings = replace(settings_for(record.policy), walltime_grace_s=_NEVER_S)
    result = Engine(record.nodes, get(record.policy), settings).run(sims)
    spans, held = [], 0.0
    for found in result.records.values():
        start_s, end_s = found.start_s, found.end_s
        if start_s is None or end_s is None or found.outcome != "completed":
            raise RuntimeError(f"{found.spec.name} did not complete under {record.policy}: {found.outcome}")
        spans.append((found.spec.submit_s, start_s, end_s))
        held += sum(nodes * (to_s - from_s) for from_s, to_s, nodes in found.spans())
    makespan_s = max(end_s for *_, end_s in spans) - min(submit_s for submit_s, *_ in spans)
    return {
        "makespan_s": makespan_s,
        "turnaround_s": statistics.fmean(end_s - submit_s for submit_s, _, end_s in spans),
        "wait_s": statistics.fmean(start_s - submit_s for submit_s, start_s, _ in spans),
        "runtime_s": statistics.fmean(end_s - start_s for _, start_s, end_s in spans),
        "utilization": 100 * held / (len(record.nodes) * makespan_s),
    }


def _sim_job(job: JobRecord, costs: Fitted, rng: random.Random) -> SimJob:
    name, factor = configuration(job), math.exp(rng.gauss(0, costs.spread))

    def speed(nodes: int) -> float:
        return 1 / (factor * costs.runtime_s(name, nodes))

    spec = JobSpec(
        job_id=job.job_id, name=job.name, user=job.user, job_class="malleable" if job.malleable else "rigid",
        nodes=job.nodes, min_nodes=job.min_nodes, max_nodes=job.max_nodes,
        walltime_s=job.walltime_s, submit_s=job.submit_s,
    )  # fmt: skip
    return SimJob(
        spec,
        1 / speed(job.nodes),
        speedup=speed,
        start_delay_s=rng.choice(costs.launches_s),
        ready_delay_s=costs.ready_s,
        cost=costs.resizes,
    )


@dataclass(frozen=True, slots=True)
class Held:
    """A real run, and the same batch simulated: figures of merit by name, the simulated ones of each replica."""

    key: RunKey
    record: RunRecord
    real: Mapping[str, float]
    replicas: Mapping[str, Sequence[float]]

    def mean(self, name: str) -> float:
        """The mean of the replicas."""
        return statistics.fmean(self.replicas[name])

    def covers(self, name: str) -> bool:
        """Whether the real run could be one of the replicas: it lies between the least and the largest of them."""
        return min(self.replicas[name]) <= self.real[name] <= max(self.replicas[name])


def hold(records: Mapping[RunKey, RunRecord], costs: Fitted) -> list[Held]:
    """Simulate the batches of real runs; those with slower resizes with their own costs of these."""
    slow = resizes(record for key, record in records.items() if key.kind == "injected")
    slowly = replace(costs, resizes=slow)
    return [
        Held(key, record, measures(record), simulated(record, slowly if key.kind == "injected" else costs))
        for key, record in records.items()
        if key.kind != "scaling" and all(job.state == "completed" for job in record.jobs)
    ]


def grouped(held: Sequence[Held]) -> dict[tuple[str, int, str], list[Held]]:
    """By policy, share and kind."""
    groups: dict[tuple[str, int, str], list[Held]] = {}
    for one in held:
        groups.setdefault((one.key.policy, one.key.share, one.key.kind), []).append(one)
    return groups


def errors(those: Sequence[Held]) -> dict[str, tuple[float, float, float]]:
    """By measure the real mean, the simulated one, and its error in percent of the real one (0 of 0: none)."""
    found = {}
    for name in MEASURES:
        real = statistics.fmean(one.real[name] for one in those)
        ours = statistics.fmean(one.mean(name) for one in those)
        found[name] = (real, ours, 100 * (ours / real - 1) if real else 0.0)
    return found
