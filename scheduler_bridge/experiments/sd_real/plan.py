"""Which batches are run: jobs of fixed numbers of nodes that can do with fewer of their cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeAlias

from msgspec import structs

from scheduler_bridge.experiments.real_runs.plan import Plan, RunKey
from scheduler_bridge.workloads import TraceJob, Workload
from scheduler_bridge.workloads.generate.models import cirne

Scale: TypeAlias = Literal["tiny", "small"]
STATIC: Final = "conservative"
"""Static backfill: every job that waits has a reservation, as under SD-Policy where nobody shares."""
SHARED: Final = "sd-policy"
_KINDS: Final = ("Pi_8e10", "UTS_18", "NQueens_17")
"""What jobs compute, in turn: cheap ones, so that nodes are slow by being held to a rate."""


def three_jobs(seed: int) -> Workload:
    """A long job on both nodes, which asks for still longer, and two short ones that come soon after it."""
    rows = ((0.0, 8.0, 120.0), (1.0, 1.0, 5.0), (1.5, 1.0, 5.0))
    jobs = tuple(TraceJob(number, at, runs, asks, 2) for number, (at, runs, asks) in enumerate(rows, start=1))
    return Workload(f"three-jobs-{seed}", 2, jobs, synthetic=True)


@dataclass(frozen=True, slots=True)
class SharedPlan(Plan):
    """What is run.

    Attributes:
        draw: Draws the batch of a seed, in seconds of this machine.
    """

    draw: Callable[[int], Workload] = three_jobs

    def batch(self, key: RunKey) -> list[TraceJob]:
        """The jobs of a run: malleable within their nodes."""
        return [
            structs.replace(job, job_class="malleable", name=_KINDS[job.job_id % len(_KINDS)])
            for job in self.draw(key.seed).jobs
        ]

    def problems(self) -> list[str]:
        """What the jobs compute."""
        return list(_KINDS)

    def node_s(self, job: TraceJob) -> float:
        """Node-seconds of a job, as drawn."""
        return job.nodes * job.runtime_s * self.time


def _drawn(jobs: int, nodes: int, seed: int) -> Workload:
    """A batch in the form of the paper's workload 5, with requests of up to two minutes."""
    return cirne(jobs, nodes, largest=nodes // 2, seed=seed, load=4.0, requests_s=(10.0, 120.0))


def _plan(jobs: int, nodes: int, seeds: tuple[int, ...], draw: Callable[[int], Workload]) -> SharedPlan:
    return SharedPlan((STATIC, SHARED), (100,), seeds, jobs, nodes, time=1.0, cores=4, draw=draw)


PLANS: Final[Mapping[Scale, SharedPlan]] = {
    "tiny": _plan(3, 2, (1,), three_jobs),
    "small": _plan(30, 8, (1, 2, 3), partial(_drawn, 30, 8)),
}
