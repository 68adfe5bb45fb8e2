"""A workload under a policy: from its jobs to the figures, and to a workload of the jobs as they ran."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import structs

from scheduler_bridge.core import InfeasibleDecisionError, Remembered, Settings
from scheduler_bridge.core.events import Event
from scheduler_bridge.gc_tuning import rare_searches
from scheduler_bridge.model import ClusterView, JobSpec, Reservation
from scheduler_bridge.policies import Decision, Policy, PolicyError
from scheduler_bridge.policies.base import Around, stands_until
from scheduler_bridge.policies.mistakes import MISTAKES, makes_sense
from scheduler_bridge.sim.agenda import Submissions, taken
from scheduler_bridge.sim.engine import Engine
from scheduler_bridge.sim.failures import FaultTolerance, node_s
from scheduler_bridge.sim.jobs import Dynamics, Observer, Progress, SharingModel, SimRecord, SimResult, Simulated
from scheduler_bridge.sim.measures import Measures, Power, bounded_slowdown, measure
from scheduler_bridge.sim.scaling import Cost, Speedup, parse_speedup
from scheduler_bridge.workloads import TraceJob, Workload, in_order
from scheduler_bridge.workloads.source import Findings
from scheduler_bridge.workloads.workload import Dependencies, dependencies, status_of

# How the jobs of workloads are simulated ----------------------------------------------------------------------------

_RUN_AGAIN: Final = FaultTolerance()


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How simulated jobs behave beside what the workload says of them. Times in seconds.

    Attributes:
        cost: What resizes cost; None: nothing.
        start_delay_s: From the decision to the start.
        moldable: Malleable jobs start on any size in their range and keep it.
        steps: Parts of the work at whose ends jobs can be resized, for those of which the workload says nothing.
        point_s: The same by length: seconds of progress, at the size asked for, that make a part; 0: ``steps``.
        tolerance: What becomes of jobs that lose a node: by default they are run again, from the beginning. Resilient
            are malleable jobs only.
    """

    cost: Cost | None = None
    start_delay_s: float = 0.0
    moldable: bool = False
    steps: int = 0
    point_s: float = 0.0
    tolerance: FaultTolerance = _RUN_AGAIN


def sim_jobs(jobs: deque[TraceJob], behaviour: Behaviour, links: Dependencies) -> Iterator[Simulated]:
    """Make jobs ready for the simulator as they are asked for, and take them out of ``jobs``.

    [D] A job that ran longer than its walltime where it comes from is given the runtime as walltime: that machine let
    it. [D] Where a malleable job's speedup is no power law, the scheduler believes in the one that has the same gain
    from the size asked for to the largest one. [D] Walltimes are longer by what checkpoints and a restart take: who has
    them asks for more time.

    Args:
        jobs: In the order of submission, then by id.
        behaviour: How they behave.
        links: Who comes after whom.

    Raises:
        UnknownModelError: (when the first one is asked for) A job has a speedup model that does not exist.
    """
    speedups = {name: parse_speedup(name) for name in {job.speedup for job in jobs}}
    start_delay_s, tolerance = behaviour.start_delay_s, behaviour.tolerance
    rigid = Dynamics(start_delay_s=start_delay_s, tolerance=structs.replace(tolerance, resilient=False))
    ready_s = None if behaviour.moldable else 0.0
    malleable = Dynamics(start_delay_s=start_delay_s, ready_delay_s=ready_s, cost=behaviour.cost, tolerance=tolerance)
    scaling = {name: structs.replace(malleable, speedup=speedup) for name, speedup in speedups.items()}
    for job in taken(jobs):
        changes = _changes(job, speedups[job.speedup], behaviour)
        if job.comes_after:
            after_ok, after_any = links.after.get(job.job_id, ((), ()))
            changes |= {"after_ok": after_ok, "after_any": after_any, "preceding_job": -1}
        dynamics = scaling[job.speedup] if job.is_malleable else rigid
        yield (structs.replace(job, **changes) if changes else job), dynamics


def _changes(job: TraceJob, speedup: Speedup, behaviour: Behaviour) -> dict[str, Any]:
    """What is to be another way in the simulation than in the workload."""
    changes: dict[str, Any] = {}
    walltime_s = max(job.walltime_s, job.runtime_s)
    tolerance = behaviour.tolerance
    if tolerance.checkpoints is not None or tolerance.restart_s:
        walltime_s = tolerance.takes_s(walltime_s, job.nodes)
    if walltime_s != job.walltime_s:
        changes["walltime_s"] = walltime_s
    steps = 0
    if job.is_malleable:
        if job.rho == 0 and job.speedup != "linear":
            changes["rho"] = believed_rho(job, speedup)
        if behaviour.moldable and (job.wishes or job.target_efficiency):
            changes |= {"wishes": (), "target_efficiency": 0.0}
        steps = job.steps or behaviour.steps
        if behaviour.point_s > 0:
            steps = math.ceil(job.runtime_s / behaviour.point_s)
    if steps != job.steps:
        changes["steps"] = steps
    return changes


def believed_rho(job: TraceJob, speedup: Speedup) -> float:
    """The rho of the power law with the gain from ``job.nodes`` to the largest size, else from the smallest one."""
    low, high = (job.nodes, job.max_nodes) if job.max_nodes > job.nodes else (job.min_nodes, job.nodes)
    if low == high:
        return 0.0
    return min(1.0, max(0.0, 1.0 - math.log(speedup(high) / speedup(low)) / math.log(high / low)))


# Mistakes of policies ------------------------------------------------------------------------------------------------


class Answerable(Around):
    """A policy whose mistakes are not taken for those of the simulator: each is a ``PolicyError``."""

    __slots__ = ("decided", "now", "policy")

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.now = 0.0
        self.decided: list[Decision] = []

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        """What the policy decides."""
        self.now = now
        try:
            decided = self.decided = self.policy.decide(view, now)
        except MISTAKES as error:
            raise self._raised(error) from error
        return decided

    def stands_until(self, view: ClusterView, now: float) -> float:
        """What the policy says."""
        try:
            return stands_until(self.policy, view, now)
        except MISTAKES as error:
            raise self._raised(error) from error

    def why_waiting(self, view: ClusterView, job: JobSpec, reservation: Reservation | None) -> str:
        """What the policy says."""
        try:
            return self.policy.why_waiting(view, job, reservation)
        except MISTAKES as error:
            raise self._raised(error) from error

    def blamed(self, error: Exception) -> Exception:
        """What the core's ``error`` comes from: what the policy decided, or, if that makes sense, something else."""
        if isinstance(error, InfeasibleDecisionError):
            return PolicyError(f"policy {self.name} decided at {self.now:g} s what cannot be done: {error}")
        if isinstance(error, PolicyError) or makes_sense(self.decided):
            return error
        return PolicyError.nonsense(self.name, self.decided, f"at {self.now:g} s")

    def _raised(self, error: BaseException) -> PolicyError:
        return PolicyError.raised(self.name, error, f"at {self.now:g} s")


# Replays -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How a workload is replayed. Times in seconds.

    Attributes:
        behaviour: How its jobs behave.
        settings: The core's parameters.
        tick_s: The scheduler decides at multiples of this time only; 0: whenever something happens.
        warmup_s: What the figures leave out at the beginning; None: nothing.
        power: What nodes draw.
        remember: The jobs whose histories are kept.
        sharing: How fast jobs are that share nodes; see ``Engine``.
    """

    behaviour: Behaviour = field(default_factory=Behaviour)
    settings: Settings = field(default_factory=Settings)
    tick_s: float = 0.0
    warmup_s: float | None = None
    power: Power = field(default_factory=Power)
    remember: Remembered = frozenset()
    sharing: SharingModel = "ideal"


class Replay(msgspec.Struct, frozen=True):
    """What came of it.

    Attributes:
        result: The records, and why what happened to jobs whose histories are kept.
        measures: The figures.
        seconds: How long the simulation took.
        links: Which jobs came after which.
    """

    result: SimResult
    measures: Measures
    seconds: float
    links: Dependencies = msgspec.field(default_factory=Dependencies)


def replay(
    workload: Workload,
    policy: Policy,
    nodes: int | None = None,
    options: ReplayOptions | None = None,
    *,
    disturbances: Sequence[tuple[float, Event]] = (),
    observer: Observer | None = None,
    progress: Progress | None = None,
    jobs: deque[TraceJob] | None = None,
) -> Replay:
    """Simulate ``workload`` on ``nodes`` nodes (those of the workload by default) under ``policy``.

    The same input gives the same result, bit by bit.

    Args:
        workload: The jobs and their machine.
        policy: What decides.
        nodes: Of the machine.
        options: How it is replayed.
        disturbances: What else happens, and when.
        observer: Sees every batch.
        progress: Called now and then with how far it is.
        jobs: The jobs of a workload that was parted from them (``Workload.parted``). They are taken out as they are
            submitted, so that a million of them need not be in memory beside what becomes of them.

    Raises:
        UnknownModelError: A job has a speedup model that does not exist.
        PolicyError: The policy raises something, or decides what cannot be done.
    """
    options = options or ReplayOptions()
    size = nodes or workload.nodes
    if jobs is None:
        jobs = deque(in_order(workload.jobs))
    links = dependencies(jobs)
    answerable = Answerable(policy)
    engine = Engine(
        size,
        answerable,
        options.settings,
        observer=observer,
        remember=options.remember,
        tick_s=options.tick_s,
        progress=progress,
        sharing=options.sharing,
        forgets=not options.remember,
    )
    made = sim_jobs(jobs, options.behaviour, links)
    # where jobs come after others, the engine makes all of them at once
    submitted = made if links.after else Submissions(made, prompt=not options.behaviour.start_delay_s)
    began = time.perf_counter()
    with rare_searches():
        try:
            result = engine.run(submitted, disturbances)
        except Exception as error:
            if (blamed := answerable.blamed(error)) is error:
                raise
            raise blamed from error
        seconds = time.perf_counter() - began
        measures = measure(
            result.records.values(),
            size,
            warmup_s=options.warmup_s,
            power=options.power,
            node_failures=result.failures,
        )
    return Replay(result, measures, seconds, links)


# What became of the jobs, for other programs: a table, and a workload that knows how they ran ------------------------

Value: TypeAlias = str | int | float | None

COLUMNS: Final = (
    "workload", "policy", "job", "name", "user", "class", "nodes", "min_nodes", "max_nodes", "walltime_s", "submit_s",
    "start_s", "end_s", "wait_s", "runtime_s", "turnaround_s", "slowdown", "bounded_slowdown", "node_s",
    "reserved_node_s", "grows", "shrinks", "outcome", "restarts", "lost_node_s", "overhead_node_s",
)  # fmt: skip
"""Of the table of jobs. Times in seconds; ``node_s`` are node-seconds on which the job computed, ``reserved_node_s``
those that were held for it without use, ``lost_node_s`` and ``overhead_node_s`` what of the former was lost to
failures, and spent on checkpoints and restarts; None: it never started, or never ended."""


def job_rows(records: Iterable[SimRecord], workload: str, policy: str) -> Iterator[tuple[Value, ...]]:
    """A row of the table for each job, in the order of submission; tables of several workloads can be put together."""
    for record in records:
        spec, wait_s, runtime_s = record.spec, record.wait_s, record.runtime_s
        turnaround_s = slowdown = bounded = None
        if wait_s is not None and runtime_s is not None:
            turnaround_s = wait_s + runtime_s
            useful_s = record.useful_s or 0.0
            slowdown = turnaround_s / useful_s if useful_s > 0 else None
            bounded = bounded_slowdown(wait_s, runtime_s, useful_s)
        yield (
            workload, policy, spec.job_id, spec.label, spec.user, spec.job_class, spec.nodes, spec.min_nodes,
            spec.max_nodes, spec.walltime_s, spec.submit_s, record.start_s, record.end_s, wait_s, runtime_s,
            turnaround_s, slowdown, bounded, node_s(record.spans()), node_s(record.reserved), record.grows,
            record.shrinks, "refused" if record.refused else record.outcome, *_losses(record),
        )  # fmt: skip


def _losses(record: SimRecord) -> tuple[int, float, float]:
    """How often it was run again, and the node-seconds that were lost and that were spent to lose less."""
    if (losses := record.losses) is None:
        return 0, 0.0, 0.0
    overhead_node_s = node_s(losses.checkpointing) + node_s(losses.restarting)
    lost_node_s = node_s(record.spans()) - overhead_node_s if record.outcome == "lost" else node_s(losses.lost)
    return losses.restarts, lost_node_s, overhead_node_s


def as_it_ran(workload: Workload, records: dict[int, SimRecord], policy: str) -> Workload:
    """The simulated workload with its jobs' waits, outcomes and sizes; what never ran is left out, and counted.

    A job's runtime is still that on the nodes that it asked for, so that the workload can be simulated again; of a job
    that did not complete it is the one that its part of the work would have taken there. Failures and checkpoints are
    no part of it.
    """
    findings = Findings(records=len(workload))
    jobs = [ran for job in workload.jobs if (ran := _as_it_ran(job, records[job.job_id], findings)) is not None]
    source = f"{workload.source or workload.name}, simulated under {policy}"
    return replace(workload, jobs=tuple(jobs), source=source, findings=findings)


def _as_it_ran(job: TraceJob, record: SimRecord, findings: Findings) -> TraceJob | None:
    sizes = _last_run(record)
    start_s = sizes[0][0] if sizes else None
    runtime_s = job.runtime_s if record.outcome == "completed" else _done_s(job, record, sizes)
    if start_s is None or record.end_s is None or runtime_s <= 0:
        findings.skip("not over, or never ran")
        return None
    return structs.replace(
        job,
        runtime_s=runtime_s,
        wait_s=max(0.0, start_s - record.spec.submit_s),
        status=status_of(record.outcome),
        allocations=tuple((time_s - start_s, nodes) for time_s, nodes in sizes),
    )


def _done_s(job: TraceJob, record: SimRecord, sizes: Sequence[tuple[float, int]]) -> float:
    """How long the work that was done would have taken on the nodes that the job asked for; resizes count as work."""
    speedup = parse_speedup(job.speedup)
    done = 0.0
    for from_s, to_s, used in record.spans():
        nodes = next((nodes for time_s, nodes in reversed(sizes) if time_s <= from_s), 0)
        if not nodes:
            continue  # it was lost
        done += (to_s - from_s) * used / nodes * speedup(nodes)
    return min(job.runtime_s, done / speedup(job.nodes))


def _last_run(record: SimRecord) -> Sequence[tuple[float, int]]:
    """The sizes that it had since it was started last."""
    sizes = list(record.sizes)
    while sizes and sizes[-1][1] == 0:
        sizes.pop()
    lost = [index for index, (_, nodes) in enumerate(sizes) if nodes == 0]
    return sizes[lost[-1] + 1 :] if lost else sizes
