"""Which batches are run, under which policies, at which scale of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, Literal, NamedTuple, TypeAlias

from scheduler_bridge.workloads.generate import batches
from scheduler_bridge.workloads.record import TraceJob

Scale: TypeAlias = Literal["tiny", "small", "full"]

PAPER: Final = ("fcfs", "backfilling", "easy", "malleable")
"""The policies of the 2024 paper."""
STRATEGIES: Final = ("min", "pref", "avg", "keep-pref")
"""Those of the 2025 paper."""
TIME: Final = 0.08
"""Seconds here for a second there: a batch of 20 minutes takes some 90 s."""
START_UP_S: Final = 15.0
"""Added to every walltime: starting processes is not scaled."""


class RunKey(NamedTuple):
    """One run: a policy, the share of malleable jobs in percent, and the seed of the batch."""

    policy: str
    share: int
    seed: int

    @property
    def file(self) -> str:
        """The name of its result."""
        return f"{self.policy}-{self.share:03d}-{self.seed}.json"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run.

    Attributes:
        policies: Names of the policies.
        shares: Malleable jobs in percent.
        seeds: Of the batches.
        jobs: The first so many jobs of each batch.
        nodes: Nodes of the cluster; jobs that ask for more get as many.
        time: Seconds here for a second of the paper.
    """

    policies: tuple[str, ...]
    shares: tuple[int, ...]
    seeds: tuple[int, ...]
    jobs: int = batches.JOBS
    nodes: int = batches.NODES
    time: float = TIME

    def runs(self) -> list[RunKey]:
        """All runs; one batch under all policies after another, so that an interrupted plan can be compared."""
        return [RunKey(policy, share, seed) for seed, share, policy in product(self.seeds, self.shares, self.policies)]

    def batch(self, key: RunKey) -> list[TraceJob]:
        """The jobs of a run in the paper's seconds, no larger than the cluster."""
        jobs = batches.batch(seed=key.seed, malleable=key.share / 100).jobs[: self.jobs]
        return [self._fitted(job) for job in jobs]

    def problems(self) -> list[str]:
        """The configurations that occur."""
        names = {job.name for seed in self.seeds for job in self.batch(RunKey(self.policies[0], self.shares[0], seed))}
        return [item.name for item in batches.CONFIGURATIONS if item.name in names]

    def _fitted(self, job: TraceJob) -> TraceJob:
        nodes, least, most = (min(count, self.nodes) for count in (job.nodes, job.min_nodes, job.max_nodes))
        return replace(job, nodes=nodes, min_nodes=least, max_nodes=most)

    def walltime_s(self, job: TraceJob) -> float:
        """What is asked for here."""
        return round(job.walltime_s * self.time + START_UP_S, 1)


PLANS: Final[Mapping[Scale, Plan]] = {
    "tiny": Plan(("easy", "malleable"), (60,), (42,), jobs=8, nodes=8, time=0.02),
    "small": Plan(PAPER, (0, 20, 40, 60, 80, 100), (42, 43, 44)),
    "full": Plan((*PAPER, *STRATEGIES), (0, 20, 40, 60, 80, 100), batches.SEEDS),
}
