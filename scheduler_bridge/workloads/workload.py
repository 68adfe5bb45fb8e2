"""A workload: its jobs and their machine, which jobs come after which, and what it is like in numbers."""

from __future__ import annotations

import math
import statistics
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import structs

from scheduler_bridge.model import InvalidJobError, JobClass, JobSpec
from scheduler_bridge.workloads.source import Findings, TraceError

if TYPE_CHECKING:
    from pathlib import Path

    from pandas import DataFrame

Status: TypeAlias = Literal["completed", "failed", "cancelled", "unknown"]
"""How a job ended where the trace comes from."""
_OF_OUTCOMES: Final[dict[str | None, Status]] = {"completed": "completed", "cancelled": "cancelled"}
MAX_NODES: Final = 10_000_000
"""No machine has more: the largest ones have as many cores."""
MAX_ID: Final = 2**63 - 1
"""Of a job: what JSON, SQLite and tables of columns hold."""


class TraceJob(msgspec.Struct, frozen=True, gc=False):
    """One job of a trace, of a generator or of a history. Times in seconds.

    It is no ``JobSpec``: it knows how long the job runs, which a user does not state and the scheduler must not know.
    Readers and generators make it, and the simulator runs it as it is.

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
        reservation: The advance reservation on whose nodes it is to run; empty: none.
        target_efficiency: The share of its nodes' time that is to go into work, of an evolving job that sizes itself,
            without other wishes; 0: it does not. On n nodes that share is its speedup over that on one, divided by n.

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
    reservation: str = ""
    target_efficiency: float = 0.0

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
        if self.overhead is not None and not all(0 <= number < math.inf for number in self.overhead):
            raise InvalidJobError(f"job {self.job_id}: overhead is {self.overhead}, must be finite and not negative")
        if not 0 <= self.think_s < math.inf:
            raise InvalidJobError(f"job {self.job_id}: think_s is {self.think_s}, must not be negative, and finite")
        if self.wishes or self.target_efficiency:
            self._check_wishes()

    def _check_wishes(self) -> None:
        if self.target_efficiency:
            if not 0 < self.target_efficiency < 1 or not self.is_malleable or self.wishes:
                raise InvalidJobError(
                    f"job {self.job_id}: target_efficiency is {self.target_efficiency}; it is below 1, and only a "
                    "malleable job without wishes has one"
                )
            return
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
            reservation=self.reservation,
            overhead=self.overhead,
        )

    @classmethod
    def of(cls, spec: JobSpec, runtime_s: float) -> TraceJob:
        """The job of which ``spec`` is what its user submitted, but for the command and whether it is resilient."""
        asked = structs.asdict(spec)
        del asked["command"], asked["resilient"]
        return cls(runtime_s=runtime_s, **asked)

    @property
    def comes_after(self) -> tuple[int, ...]:
        """The jobs whose ends it waits for."""
        preceding = () if self.preceding_job < 0 else (self.preceding_job,)
        return (*self.after_ok, *self.after_any, *preceding)


def status_of(outcome: str | None) -> Status:
    """How a job ended of which the scheduler says so."""
    return _OF_OUTCOMES.get(outcome, "failed")


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

    Raises:
        TraceError: There are too many nodes.
    """

    name: str
    nodes: int
    jobs: tuple[TraceJob, ...]
    synthetic: bool = False
    source: str = ""
    start_unix_s: float | None = None
    header: Mapping[str, str] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)

    def __post_init__(self) -> None:
        if self.nodes > MAX_NODES:
            why = f"no machine has more than {MAX_NODES:,}"
            raise TraceError(f"{self.name}: {self.nodes} nodes are too many", why, f"give at most {MAX_NODES:,}")

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

    @classmethod
    def from_swf(
        cls,
        path: str | Path,
        *,
        nodes: int | None = None,
        processors_per_node: int | None = None,
        partitions: Collection[int] = (),
        statuses: Collection[int] = (),
        keep_cut_off: bool = False,
    ) -> Workload:
        """Read a file of the Standard Workload Format, plain or packed; ``load`` knows other forms, too.

        Args:
            path: The file.
            nodes: The machine's nodes; None: as the file says.
            processors_per_node: Of the machine, where the file counts processors; None: as the file says.
            partitions: Keep only their jobs; empty: all.
            statuses: Keep only jobs that ended so; empty: all.
            keep_cut_off: Use the readable beginning of a packed file that is cut off.

        Raises:
            TraceError: The file is refused.
            OSError: It cannot be read.
        """
        from scheduler_bridge.workloads.swf import SwfOptions, read_swf

        options = SwfOptions(
            nodes=nodes,
            processors_per_node=processors_per_node,
            partitions=frozenset(partitions),
            statuses=frozenset(statuses),
            keep_cut_off=keep_cut_off,
        )
        return read_swf(path, options)

    @classmethod
    def from_dataframe(cls, frame: DataFrame, *, nodes: int | None = None, name: str = "dataframe") -> Workload:
        """Make a workload of a table of pandas that has a row for each job.

        Columns are named as the fields of ``TraceJob``, of which ``submit_s``, ``runtime_s`` (on ``nodes`` nodes) and
        ``nodes`` have to be there; others, and ``reservation``, are not looked at. Times may be dates and durations of
        pandas, too. Without ``walltime_s``, it is the runtime times 1.25; without ``job_id``, jobs are numbered from 1;
        without ``job_class``, jobs of several sizes are malleable.

        Args:
            frame: The table.
            nodes: The machine's nodes.
            name: For people.

        Raises:
            TraceError: A column is missing, there is no row, or it is not said how many nodes the machine has.
            InvalidJobError: A job is out of range or contradicts itself.
        """
        columns, start_unix_s = _columns(frame, name)
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        jobs = in_order(_job(number, row) for number, row in enumerate(rows, start=1))
        if len({job.job_id for job in jobs}) < len(jobs):
            raise TraceError(f"{name}: two jobs have one job_id", "it identifies a job", "leave the column out")
        if nodes is None:
            raise unknown_nodes(name, jobs, "a table does not say it", "nodes=")
        if jobs_too_large := [job.job_id for job in jobs if job.max_nodes > nodes]:
            what = f"{name}: job {jobs_too_large[0]} may have more than {nodes} nodes"
            raise TraceError(what, "no job is larger than its machine", "give more nodes, or fewer max_nodes")
        return cls(name, nodes, jobs, source="a table", start_unix_s=start_unix_s)

    @classmethod
    def generate(cls, generator: str, *, seed: int = 0, **options: object) -> Workload:
        """Draw a workload from a published model; it is marked as synthetic.

        Args:
            generator: Its name: ``malleable workload generate`` lists them, with their options.
            seed: Determines everything.
            options: Its parameters, such as ``jobs=500``.

        Raises:
            ValueError: The generator or an option is unknown, or a value is out of range.
            ModuleNotFoundError: NumPy is not installed.
        """
        from scheduler_bridge.workloads.generate import generate

        return generate(generator, seed, **options)

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


_NEEDED: Final = ("submit_s", "runtime_s", "nodes")
_TEXTS: Final = ("user", "name", "group", "queue", "partition")
_USUAL_ESTIMATE: Final = 1.25
"""A walltime that is not known, by the runtime."""


def _columns(frame: DataFrame, name: str) -> tuple[dict[str, Sequence[Any]], float | None]:
    """The columns that jobs are made of, and when the first one was submitted, where that is a date."""
    # those of advance reservations are of the machine that the table comes from, not of the simulated one
    known = {*TraceJob.__struct_fields__} - {"reservation"}
    found = {column: frame[column] for column in frame.columns}
    if missing := [column for column in _NEEDED if column not in found]:
        there = ", ".join(map(str, frame.columns)) or "none"
        why = f"a job needs {', '.join(_NEEDED)}; there are {there}"
        raise TraceError(f"{name}: there is no column {missing[0]}", why, "rename a column: frame.rename(columns=...)")
    if not len(frame):
        raise TraceError(f"{name}: there is no job in it", "a workload has a job", "give a table with a row")
    start_unix_s, submits = None, found["submit_s"]
    if submits.dtype.kind == "M":
        first = submits.min()
        start_unix_s, found["submit_s"] = first.timestamp(), submits - first
    values = {
        column: (series.dt.total_seconds() if series.dtype.kind == "m" else series).tolist()
        for column, series in found.items()
        if column in known
    }
    return values, start_unix_s


def _job(number: int, row: Mapping[str, Any]) -> TraceJob:
    given = {column: value for column, value in row.items() if value is not None and value == value}  # not NaN
    if missing := [column for column in _NEEDED if column not in given]:
        raise InvalidJobError(f"row {number}: {missing[0]} is not given")
    given |= {column: str(given[column]) for column in _TEXTS if column in given}
    sizes = {given.get(column, given["nodes"]) for column in ("nodes", "min_nodes", "max_nodes")}
    defaults = {"job_id": number, "job_class": "malleable" if len(sizes) > 1 else "rigid"}
    try:
        return msgspec.convert(
            {**defaults, "walltime_s": _USUAL_ESTIMATE * given["runtime_s"], **given}, TraceJob, strict=False
        )
    except (TypeError, msgspec.ValidationError) as error:
        raise InvalidJobError(f"row {number}: {error}") from None


def in_order(jobs: Iterable[TraceJob]) -> tuple[TraceJob, ...]:
    """The jobs by submission, then by id, whatever order they came in."""
    return tuple(sorted(jobs, key=attrgetter("submit_s", "job_id")))


# Dependencies: which jobs come after others --------------------------------------------------------------------------
#
# Rules: a job after itself, after one that the workload does not have (it was left out, filtered or cut off, or the
# trace never had it), or in a circle of jobs that come after each other, does not come after that job; each such case
# is counted. In job files, which a person wrote, they are mistakes (see ``job_files``).

ITSELF: Final = "after itself"
MISSING: Final = "after a job that is not there"
CIRCLE: Final = "in a circle"


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Who comes after whom.

    Attributes:
        after: By job, its ``after_ok`` and its ``after_any``, with the preceding job among the latter.
        honoured: How many dependencies these are.
        dropped: How many were left out, by reason.
    """

    after: Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    honoured: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)


def dependencies(jobs: Collection[TraceJob]) -> Dependencies:
    """Find the dependencies that can be honoured."""
    dependents = [job for job in jobs if job.preceding_job >= 0 or job.after_ok or job.after_any]
    if not dependents:
        return Dependencies()
    there = {job.job_id for job in jobs}
    dropped: Counter[str] = Counter()

    def found(job: TraceJob, others: Iterable[int]) -> list[int]:
        kept = []
        for other in dict.fromkeys(others):
            if other == job.job_id or other not in there:
                dropped[ITSELF if other == job.job_id else MISSING] += 1
            else:
                kept.append(other)
        return kept

    ok = {job.job_id: found(job, job.after_ok) for job in dependents}
    ends = {
        job.job_id: found(job, (*job.after_any, *((job.preceding_job,) if job.preceding_job >= 0 else ())))
        for job in dependents
    }
    closing = _closing({job_id: [*ok[job_id], *ends[job_id]] for job_id in ok})
    dropped[CIRCLE] += len(closing)
    after = {}
    for job in dependents:
        job_id = job.job_id
        first = tuple(other for other in ok[job_id] if (job_id, other) not in closing)
        rest = tuple(other for other in ends[job_id] if (job_id, other) not in closing)
        if first or rest:
            after[job_id] = first, rest
    honoured = sum(len(first) + len(rest) for first, rest in after.values())
    return Dependencies(after, honoured, {why: count for why, count in dropped.items() if count})


def _closing(others: Mapping[int, Sequence[int]]) -> set[tuple[int, int]]:
    """The dependencies that close a circle, as they are met on a walk from each job in turn."""
    closing: set[tuple[int, int]] = set()
    done: set[int] = set()
    for start in others:
        if start in done:
            continue
        path = {start}
        stack = [(start, iter(others[start]))]
        while stack:
            job_id, rest = stack[-1]
            for other in rest:
                if other in path:
                    closing.add((job_id, other))
                elif other in others and other not in done:
                    path.add(other)
                    stack.append((other, iter(others[other])))
                    break
            else:
                stack.pop()
                path.discard(job_id)
                done.add(job_id)
    return closing


# A workload in numbers -----------------------------------------------------------------------------------------------

_PERCENTILES: Final = (25, 50, 75, 90, 99)
_FREQUENT: Final = 5


@dataclass(frozen=True, slots=True)
class Distribution:
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
        malleable: Number of jobs that are.
        users: Number of users; 0: not known.
        span_s: First to last submission, in seconds.
        jobs_per_h: Submissions per hour of the span; 0 if it has no length.
        node_hours: What all jobs need at the sizes that they ask for.
        offered: Node-seconds of all jobs by those of the machine during the span; 0 if it has no length.
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
    sizes: Distribution
    runtimes_s: Distribution
    walltimes_s: Distribution
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
        sizes=_distribution([job.nodes for job in jobs]),
        runtimes_s=_distribution([job.runtime_s for job in jobs]),
        walltimes_s=_distribution([job.walltime_s for job in jobs]),
        accuracy=statistics.fmean(job.runtime_s / job.walltime_s for job in jobs),
        mean_wait_s=statistics.fmean(waits) if waits else None,
        frequent_sizes={size: count / len(jobs) for size, count in sizes.most_common(_FREQUENT)},
    )


def _distribution(values: Sequence[float]) -> Distribution:
    ordered = sorted(values)
    last = len(ordered) - 1
    return Distribution(
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
    times_s = sorted(changes)
    return list(zip(times_s, accumulate(changes[time_s] for time_s in times_s), strict=True))


def unknown_nodes(name: str, jobs: Sequence[TraceJob], why: str, option: str = "--nodes ") -> TraceError:
    """Why a workload that does not say how many nodes its machine has is refused, with numbers that help to choose.

    A machine of as many nodes as the largest job has is no guess: on one trace whose header was missing, jobs waited
    4,000 times as long.

    Args:
        name: Of the file.
        jobs: Its jobs, at least one.
        why: The file does not say it.
        option: By which the user does.
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
        f"say it, for example {option}{usual}",
    )
