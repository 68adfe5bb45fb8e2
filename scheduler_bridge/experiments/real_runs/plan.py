"""Which batches are run, under which policies, at which scale of time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import structs

from scheduler_bridge.experiments.published_runs import Costs
from scheduler_bridge.experiments.real_runs.keeping import Site
from scheduler_bridge.experiments.real_runs.problems import NODE_S
from scheduler_bridge.workloads.generate import papers
from scheduler_bridge.workloads.workload import TraceJob

Scale: TypeAlias = Literal["tiny", "small", "full"]
Kind: TypeAlias = Literal["batch", "injected", "scaling"]
"""``batch``: as it is; ``injected``: every grow and shrink takes the paper's seconds longer, in scaled time;
``scaling``: rigid jobs of all problems and sizes."""

PAPER: Final = ("fcfs", "backfilling", "easy", "malleable")
"""The policies of the 2024 paper."""
STRATEGIES: Final = ("min", "pref", "avg", "keep-pref")
"""Those of the 2025 paper."""
TIME: Final = 0.08
"""Seconds here for a second there: a batch of 20 minutes takes some 90 s."""
START_UP_S: Final = 15.0
"""Added to every walltime: starting processes is not scaled."""
INJECTED_POLICY: Final = "malleable"


class RunKey(NamedTuple):
    """One run: a policy, the share of malleable jobs in percent, the seed of the batch, and what kind of run it is."""

    policy: str
    share: int
    seed: int
    kind: Kind = "batch"

    @property
    def file(self) -> str:
        """The name of its result."""
        if self.kind == "scaling":
            return "scaling.json"
        suffix = "-injected" if self.kind == "injected" else ""
        return f"{self.policy}-{self.share:03d}-{self.seed}{suffix}.json"

    @property
    def spoken(self) -> str:
        """For people."""
        if self.kind == "scaling":
            return "strong scaling"
        slow = ", resizes as slow as the paper's" if self.kind == "injected" else ""
        return f"{self.policy}, {self.share} % malleable, seed {self.seed}{slow}"


SCALING: Final = RunKey("backfilling", 0, 0, "scaling")
"""The run in which the programs are measured on several sizes."""


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
        cores: Of a node; jobs that share nodes divide them.
        injected: Shares at which the batches are run again with slower resizes.
        sizes: On how many nodes the programs' strong scaling is measured; none: it is not.
        longest_node_s: It is measured for programs that take no longer on one node of the paper.
        paced: Whether nodes are held to a rate of work, so that they take the paper's time, scaled.
    """

    policies: tuple[str, ...]
    shares: tuple[int, ...]
    seeds: tuple[int, ...]
    jobs: int = papers.BATCH_JOBS
    nodes: int = papers.BATCH_NODES
    time: float = TIME
    cores: int = 1
    injected: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    longest_node_s: float = math.inf
    paced: bool = True

    def at(self, site: Site) -> Plan:
        """Return the same on the nodes of ``site``; if they are not paced, at the paper's size and in its time.

        Raises:
            DaemonError: The site's file of hosts is wrong.
        """
        nodes = site.size() or self.nodes
        fitted = replace(self, nodes=nodes, sizes=tuple(size for size in self.sizes if size <= nodes))
        return fitted if site.paced else replace(fitted, cores=site.cores() or 1, time=1.0, paced=False)

    def runs(self) -> list[RunKey]:
        """All runs; one batch under all policies after another, so that an interrupted plan can be compared.

        The strong scaling comes after the first of them, what is injected at the end.
        """
        runs = [RunKey(policy, share, seed) for seed, share, policy in product(self.seeds, self.shares, self.policies)]
        if self.sizes:
            runs.insert(len(self.shares) * len(self.policies), SCALING)
        slow = product(self.injected, self.seeds)
        return [*runs, *(RunKey(INJECTED_POLICY, share, seed, "injected") for share, seed in slow)]

    def slow_resizes(self, key: RunKey) -> tuple[float, float] | None:
        """Seconds that are added to each grow and each shrink; None: nothing."""
        theirs = Costs()
        return (theirs.grow_s * self.time, theirs.shrink_s * self.time) if key.kind == "injected" else None

    def batch(self, key: RunKey) -> list[TraceJob]:
        """The jobs of a run in the paper's seconds, no larger than the cluster."""
        if key.kind == "scaling":
            return self._rigid_jobs()
        jobs = papers.batch(seed=key.seed, malleable=key.share / 100).jobs[: self.jobs]
        return [self._fitted(job) for job in jobs]

    def problems(self) -> list[str]:
        """The configurations that occur."""
        names = {job.name for seed in self.seeds for job in self.batch(RunKey(self.policies[0], self.shares[0], seed))}
        return [item.name for item in papers.CONFIGURATIONS if item.name in names]

    def _rigid_jobs(self) -> list[TraceJob]:
        """Each problem on each size; those that take longest come first, so that the nodes are well used."""
        names = set(self.problems())
        chosen = [item for item in papers.CONFIGURATIONS if item.name in names and item.node_s <= self.longest_node_s]
        pairs = sorted(product(chosen, self.sizes), key=lambda pair: -pair[0].node_s / pair[1])
        return [
            TraceJob(
                number,
                0.0,
                item.node_s / nodes,
                papers.BATCH_WALLTIME_S + 2 * item.node_s / nodes,
                nodes,
                name=item.name,
            )
            for number, (item, nodes) in enumerate(pairs, start=1)
        ]

    def _fitted(self, job: TraceJob) -> TraceJob:
        nodes, least, most = (min(count, self.nodes) for count in (job.nodes, job.min_nodes, job.max_nodes))
        return structs.replace(job, nodes=nodes, min_nodes=least, max_nodes=most)

    def node_s(self, job: TraceJob) -> float:
        """Node-seconds that a job takes here: those of its configuration, scaled."""
        return NODE_S[job.name] * self.time

    def walltime_s(self, job: TraceJob) -> float:
        """What is asked for here."""
        return round(job.walltime_s * self.time + START_UP_S, 1)


PLANS: Final[Mapping[Scale, Plan]] = {
    "tiny": Plan(
        ("easy", "malleable"),
        (60,),
        (42,),
        jobs=8,
        nodes=8,
        time=0.02,
        injected=(60,),
        sizes=(1, 2, 4, 8),
        longest_node_s=400,
    ),
    "small": Plan(PAPER, (0, 20, 40, 60, 80, 100), (42, 43, 44), injected=(60, 100), sizes=(1, 2, 4, 8, 16, 32)),
    "full": Plan(
        (*PAPER, *STRATEGIES),
        (0, 20, 40, 60, 80, 100),
        papers.BATCH_SEEDS,
        injected=(20, 40, 60, 80, 100),
        sizes=(1, 2, 4, 8, 16, 32),
    ),
}
