"""A job of a workload: what was submitted, and what is known of how it ran."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import structs

from scheduler_bridge.model import InvalidJobError, JobClass, JobSpec
from scheduler_bridge.workloads.findings import Findings

Status: TypeAlias = Literal["completed", "failed", "cancelled", "unknown"]
"""How a job ended where the trace comes from."""
MAX_ID: Final = 2**63 - 1
"""Of a job: what JSON, SQLite and tables of columns hold."""


class TraceJob(msgspec.Struct, frozen=True, gc=False):
    """One job of a trace, of a generator or of a history. Times in seconds.

    It is no ``JobSpec``: it knows how long the job runs, which a user does not tell and the scheduler must not know.

    Attributes:
        job_id: Unique in its workload, from 0 to ``MAX_ID``.
        submit_s: When it was submitted, since the workload's beginning.
        runtime_s: How long it ran on ``nodes`` nodes.
        walltime_s: The user's bound on the runtime, at ``nodes`` nodes. A job may have run longer than that.
        nodes: The size that was asked for; what a malleable job prefers.
        min_nodes: Fewest nodes; equals ``nodes`` for a rigid job. 0 in the constructor means ``nodes``.
        max_nodes: Most nodes; equals ``nodes`` for a rigid job. 0 in the constructor means ``nodes``.
        job_class: Rigid or malleable.
        user: Who submitted it; empty where it is not known.
        name: For people; may be empty.
        wait_s: How long it waited where the trace comes from; None: not known.
        status: How it ended there.
        rho: How far its speedup stays behind its nodes, as the scheduler believes: n nodes are n^(1 - rho) times as
            fast as one [MEBF, section 2.2].
        speedup: How it really scales: ``linear``; ``amdahl:P`` with the parallel share P; ``power:RHO``;
            ``downey:A:SIGMA``; ``table:N=S,N=S,...``, seconds on N nodes.
        steps: Progress, in equal parts of the work, at whose ends it can be resized; 0: at any time.
        group: The user's group or project.
        queue: Where it waited.
        partition: Which part of the machine it ran on.
        processors: Processors that were asked for; 0: not known.
        allocations: (time since its start, nodes) from which on it had them, where the trace comes from; empty: it
            kept its size, or it is not known.
        wishes: (share of its work from 0 to 1, nodes) at which it asks for nodes, or offers some (negative), by rising
            share: an evolving job, which has to be malleable.
        overhead: alpha and beta of what a resize costs it [MEBF, equation 1]; None: not known.
        preceding_job: The job whose end its user waited for before submitting it; -1: none, or not known.
        think_s: How long after that end it was submitted.
        after_ok: Jobs that are to complete before; if one does not, this one is cancelled.
        after_any: Jobs that are to end before, however they do.

    Raises:
        InvalidJobError: A field is out of range or contradicts another one.
    """

    job_id: int
    submit_s: float
    runtime_s: float
    walltime_s: float
    nodes: int
    min_nodes: int = 0
    max_nodes: int = 0
    job_class: JobClass = "rigid"
    user: str = ""
    name: str = ""
    wait_s: float | None = None
    status: Status = "completed"
    rho: float = 0.0
    speedup: str = "linear"
    steps: int = 0
    group: str = ""
    queue: str = ""
    partition: str = ""
    processors: int = 0
    allocations: tuple[tuple[float, int], ...] = ()
    wishes: tuple[tuple[float, int], ...] = ()
    overhead: tuple[float, float] | None = None
    preceding_job: int = -1
    think_s: float = 0.0
    after_ok: tuple[int, ...] = ()
    after_any: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.min_nodes:
            structs.force_setattr(self, "min_nodes", self.nodes)
        if not self.max_nodes:
            structs.force_setattr(self, "max_nodes", self.nodes)
        if not 0 <= self.job_id <= MAX_ID:
            raise InvalidJobError(f"job {self.job_id}: job_id must be from 0 to {MAX_ID}")
        if not 1 <= self.min_nodes <= self.nodes <= self.max_nodes:
            raise InvalidJobError(
                f"job {self.job_id}: nodes is {self.nodes}, must be at least 1, and from min_nodes {self.min_nodes} "
                f"to max_nodes {self.max_nodes}"
            )
        if self.job_class == "rigid" and self.min_nodes != self.max_nodes:
            raise InvalidJobError(
                f"job {self.job_id}: a rigid job has one size, but may have {self.min_nodes} to {self.max_nodes} nodes"
            )
        # comparisons with infinity and NaN that are false where the number will not do
        if not (0 < self.runtime_s < math.inf and 0 < self.walltime_s < math.inf):
            raise InvalidJobError(
                f"job {self.job_id}: runtime_s is {self.runtime_s}, walltime_s {self.walltime_s}, "
                "must be positive and finite"
            )
        if not 0 <= self.submit_s < math.inf:
            raise InvalidJobError(f"job {self.job_id}: submit_s is {self.submit_s}, must not be negative, and finite")
        if not 0 <= self.rho <= 1 or self.steps < 0:
            raise InvalidJobError(
                f"job {self.job_id}: rho is {self.rho}, must be from 0 to 1; steps is {self.steps}, not negative"
            )
        if self.overhead is not None and not 0 <= min(self.overhead) <= max(self.overhead) < math.inf:
            raise InvalidJobError(f"job {self.job_id}: overhead is {self.overhead}, must be finite and not negative")
        if not 0 <= self.think_s < math.inf:
            raise InvalidJobError(f"job {self.job_id}: think_s is {self.think_s}, must not be negative, and finite")
        if self.wishes:
            self._check_wishes()

    def _check_wishes(self) -> None:
        shares = [share for share, _ in self.wishes]
        if not self.is_malleable or shares != sorted(shares) or not 0 <= shares[0] <= shares[-1] < 1:
            raise InvalidJobError(
                f"job {self.job_id}: wishes are {self.wishes}; a malleable job has some, at rising shares of its work "
                "from 0 to less than 1"
            )

    @property
    def is_malleable(self) -> bool:
        """Whether the scheduler may resize it while it runs."""
        return self.job_class == "malleable"

    @property
    def node_hours(self) -> float:
        """Nodes times runtime, in hours."""
        return self.nodes * self.runtime_s / 3600

    def spec(self) -> JobSpec:
        """What a user would submit: the job without what only the trace knows."""
        return JobSpec(
            job_id=self.job_id,
            name=self.name,
            user=self.user or "unknown",
            job_class=self.job_class,
            nodes=self.nodes,
            min_nodes=self.min_nodes,
            max_nodes=self.max_nodes,
            walltime_s=self.walltime_s,
            submit_s=self.submit_s,
            rho=self.rho,
            overhead=self.overhead,
        )


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs in the order of submission, and the machine that they are meant for.

    Attributes:
        name: For people, in reports and pictures.
        nodes: The machine's nodes; no job asks for more.
        jobs: By submission, then by id.
        synthetic: Drawn by a generator; reports say so.
        source: Where it comes from: a file, or a generator with its parameters and seed.
        start_unix_s: When it began, in seconds since 1970; None: not known.
        header: What else the file said of itself.
        findings: What its reader skipped, mended and noted.
    """

    name: str
    nodes: int
    jobs: tuple[TraceJob, ...]
    synthetic: bool = False
    source: str = ""
    start_unix_s: float | None = None
    header: Mapping[str, str] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def label(self) -> str:
        """The name, marked where the workload is synthetic."""
        return f"{self.name} (synthetic)" if self.synthetic else self.name

    @property
    def lost_share(self) -> float:
        """The node-hours of records that the reader left out, of all node-hours in the file, from 0 to 1."""
        lost = self.findings.lost_node_hours
        return lost / (lost + self._kept_node_hours) if lost else 0.0

    @property
    def _kept_node_hours(self) -> float:
        kept = self.findings.kept_node_hours
        return sum(job.node_hours for job in self.jobs) if kept is None else kept

    def parted(self) -> tuple[Workload, deque[TraceJob]]:
        """What is known of the workload without its jobs, and these: who takes them can let go of them one by one."""
        findings = replace(self.findings, kept_node_hours=self._kept_node_hours)
        return replace(self, jobs=(), findings=findings), deque(self.jobs)

    def window(self, from_s: float, to_s: float) -> Workload:
        """The jobs that are submitted from ``from_s`` on, before ``to_s``; times count from ``from_s``.

        The findings stay those of the whole file.
        """
        start = None if self.start_unix_s is None else self.start_unix_s + from_s
        inside = (job for job in self.jobs if from_s <= job.submit_s < to_s)
        jobs = (structs.replace(job, submit_s=job.submit_s - from_s) for job in inside)
        findings = replace(self.findings, kept_node_hours=self._kept_node_hours)
        return replace(self, jobs=tuple(jobs), start_unix_s=start, findings=findings)


def in_order(jobs: Iterable[TraceJob]) -> tuple[TraceJob, ...]:
    """The jobs by submission, then by id, whatever order they came in."""
    return tuple(sorted(jobs, key=attrgetter("submit_s", "job_id")))
