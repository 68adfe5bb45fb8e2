"""The simulator held against our own real runs, with measured costs, and decision by decision.

The model: a job on n nodes computes as long as such jobs did that were never resized, the median of all batches and of
the strong scaling (between two sizes by a power law). Before that it starts, for a base and something for each node,
during which nothing is computed: a job that is shrunk then has all of its work before it. After it, it ends. It takes
its first order the median delay after its start, and carries it out when it computes. Resizes cost a base and something
for each node; the places that stay go on computing. All costs are fitted to the very runs; what is simulated is when
what happens.

A batch is chaotic: a job that ends a little later lets another one start elsewhere. So each is simulated several times,
and the means count. A job is late by as much as a job of the same run, drawn at random: from the decision to its start,
and from there to its end. These are seconds, whatever the length of the job: computations repeat themselves within
0.1 s, starts do not, for those of one moment share the cores, and some runs keep these busier than others. Jobs that
were started at once end at different times then, as in reality, and by their order EASY reserves nodes.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final, NamedTuple, TypeAlias

from msgspec import structs

from scheduler_bridge.core.events import Effect, Event, MalleableEnded, SendOrder, StartJob
from scheduler_bridge.experiments.merit import MEASURES, Replayed, merit
from scheduler_bridge.experiments.published_runs.cells import seconds_on, span
from scheduler_bridge.experiments.real_runs.campaign import NODE_S, RunKey
from scheduler_bridge.experiments.real_runs.findings import computed_s, configuration, decided_s, measures, took_s
from scheduler_bridge.experiments.study import change
from scheduler_bridge.experiments.sweep import unending
from scheduler_bridge.policies import get
from scheduler_bridge.record import JobRecord, RunRecord
from scheduler_bridge.sim import Cost, Dynamics, Engine, Simulated
from scheduler_bridge.sim.scaling import Measured, Overhead, fit, fitted_line
from scheduler_bridge.workloads import TraceJob

REPLICAS: Final = 20
"""Simulations of each batch."""
LONGEST_END_S: Final = 2.0
"""What a job takes longer from the end of its computation to its own was before the computation."""


class Delay(NamedTuple):
    """How late a measured job was. Times in seconds.

    Attributes:
        launch_s: From the decision to its start.
        apart_s: From the start to the end, what it took longer than jobs like it; negative: less.
    """

    launch_s: float
    apart_s: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """What things took in the real runs. Times in seconds.

    Attributes:
        ready_s: From its start until it takes orders.
        startup: From its start until it computes: a base, and for each node.
        ending_s: From the end of its computation until nothing is left of it.
        resizes: What resizes cost.
        computing: The computation of each configuration, by nodes.
        delays: Of every job.
    """

    ready_s: float
    startup: tuple[float, float]
    ending_s: float
    resizes: Measured
    computing: Mapping[str, Mapping[int, float]]
    delays: tuple[Delay, ...] = ()

    def startup_s(self, nodes: int, apart_s: float = 0.0) -> float:
        """From the start until a job computes, if it takes ``apart_s`` longer than others."""
        base_s, node_s = self.startup
        return max(0.0, base_s + node_s * nodes + apart_s)

    def working_s(self, name: str, nodes: int) -> float:
        """From there to the end of a job that is not resized."""
        return seconds_on(dict(self.computing[name]), nodes) + self.ending_s

    @property
    def launch_s(self) -> float:
        """From the decision to a job's start, the median."""
        return statistics.median(delay.launch_s for delay in self.delays) if self.delays else 0.0

    @property
    def spread_s(self) -> float:
        """Standard deviation of what jobs take longer or less than others like them."""
        return statistics.pstdev(delay.apart_s for delay in self.delays) if self.delays else 0.0

    @property
    def spoken(self) -> str:
        """For people."""
        base_s, node_s = self.startup
        return (
            f"a job starts {self.launch_s:.2f} s after the decision, takes orders {self.ready_s:.2f} s later, and "
            f"computes after {base_s:.2f} s and {node_s:.3f} s for each node; its end takes {self.ending_s:.2f} s; "
            f"resizes as in --cost {self.resizes.text}; runtimes spread by {self.spread_s:.2f} s"
        )


def fitted(records: Mapping[RunKey, RunRecord], time: float) -> Fitted:
    """What things took in ``records``, resizes as in those that were not slowed down.

    Args:
        records: Real runs.
        time: Seconds here for a second of the paper, for configurations that never ran without a resize.
    """
    batches = [record for key, record in records.items() if key.kind != "scaling"]
    jobs = [job for record in batches for job in record.jobs if job.state == "completed" and job.start_s is not None]
    ready = [job.ready_s - job.start_s for job in jobs if job.ready_s is not None and job.start_s is not None]
    known_jobs = [known for record in batches for known in _known(record)]
    begun = [(len(job.segments[0].nodes), begun_s) for job, begun_s, _ in known_jobs]
    endings = [max(0.0, rest_s - (job.result or {})["seconds"]) for job, _, rest_s in known_jobs]
    known = computed_s(records.values())
    costs = Fitted(
        statistics.median(ready) if ready else 0.0,
        fitted_line(begun),
        statistics.median(endings) if endings else 0.0,
        resizes(record for key, record in records.items() if key.kind != "injected"),
        {name: _two(node_s * time, known.get(name, {})) for name, node_s in NODE_S.items()},
    )
    return replace(costs, delays=tuple(delay for record in batches for delay in _delays(record, costs)))


def started_s(job: JobRecord) -> float | None:
    """From a job's start until it computed; None: not known.

    Of some jobs that started with many others, or on many nodes, some seconds are missing in what they measured. No end
    takes that long, and such jobs took no orders: they had not begun, for the launcher still looked up their nodes.
    """
    result = job.result or {}
    startup, seconds = result.get("startup"), result.get("seconds")
    if not startup or seconds is None or job.start_s is None or job.end_s is None:
        return None
    reported_s: float = startup["runtime_s"] + startup["balancer_s"]
    rest_s = job.end_s - job.start_s - reported_s - seconds
    return reported_s if rest_s <= LONGEST_END_S else reported_s + rest_s


def _known(record: RunRecord) -> Iterator[tuple[JobRecord, float, float]]:
    """The completed jobs of which it is known how long it took until they computed; and from there to their end."""
    for job in record.jobs:
        begun_s = started_s(job)
        if job.state == "completed" and job.start_s is not None and job.end_s is not None and begun_s is not None:
            yield job, begun_s, job.end_s - job.start_s - begun_s


def _delays(record: RunRecord, costs: Fitted) -> Iterator[Delay]:
    """How late the jobs of a run were."""
    decided = decided_s(record)
    for job, begun_s, rest_s in _known(record):
        late_s = begun_s - costs.startup_s(len(job.segments[0].nodes)) + rest_s * (1 - pace(job, costs))
        yield Delay((job.start_s or 0.0) - decided[job.job_id], late_s)


def pace(job: JobRecord, costs: Fitted) -> float:
    """How much faster than ``costs`` has it a job computed, on the sizes that it had; 1: as fast."""
    name = configuration(job)
    return 1 / sum(seconds / costs.working_s(name, nodes) for nodes, seconds in _sizes(job))


def _sizes(job: JobRecord) -> Iterator[tuple[int, float]]:
    """On how many nodes it computed for how long, as the model has it: a leaver helps no more from the order on."""
    nodes, since_s = len(job.segments[0].nodes), (job.start_s or 0.0) + (started_s(job) or 0.0)
    for order in job.resizes:
        if order.outcome == "done" and order.done_s is not None:
            at_s = max(since_s, order.done_s if order.kind == "grow" else order.ordered_s)
            yield nodes, at_s - since_s
            since_s = at_s
            nodes += order.count if order.kind == "grow" else -order.count
    yield nodes, (job.end_s or 0.0) - since_s


def resizes(records: Iterable[RunRecord]) -> Measured:
    """The costs of resizes, fitted to those of ``records``, from order to end as the scheduler saw it.

    What an order waited for the beginning of the computation does not count.
    """
    found: dict[str, list[tuple[int, float]]] = {"grow": [], "shrink": []}
    for job in (job for record in records for job in record.jobs):
        computes_s = (job.start_s or 0.0) + (started_s(job) or 0.0)
        for resize in job.resizes:
            if (seconds := took_s(resize)) is not None:
                waited_s = max(0.0, computes_s - resize.ordered_s)
                found[resize.kind].append((resize.count, max(0.0, seconds - waited_s)))
    return fit(found["grow"], found["shrink"])


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
    costs = replace(costs, delays=tuple(_delays(record, costs)) or costs.delays)
    found = [_replica(record, costs, random.Random(number)) for number in range(replicas)]
    return {name: [one[name] for one in found] for name in MEASURES}


def _replica(record: RunRecord, costs: Fitted, rng: random.Random) -> dict[str, float]:
    delays = costs.delays or (Delay(0.0, 0.0),)
    sims = [sim_job(job, costs, rng.choice(delays)) for job in record.jobs]
    result = Engine(record.nodes, get(record.policy), unending(record.policy)).run(sims)
    spans, node_s = [], 0.0
    for found in result.records.values():
        spans.append(span(found))
        node_s += sum(nodes * (to_s - from_s) for from_s, to_s, nodes in found.spans())
    return merit(spans, node_s, len(record.nodes))


def sim_job(job: JobRecord, costs: Fitted, delay: Delay) -> Simulated:
    """Make a simulated job of a real one that is late by ``delay``."""
    name = configuration(job)

    def speed(nodes: int) -> float:
        return 1 / costs.working_s(name, nodes)

    trace = TraceJob(
        job_id=job.job_id, name=job.name, user=job.user, job_class="malleable" if job.malleable else "rigid",
        nodes=job.nodes, min_nodes=job.min_nodes, max_nodes=job.max_nodes,
        walltime_s=job.walltime_s, submit_s=job.submit_s, runtime_s=1 / speed(job.nodes),
    )  # fmt: skip
    return trace, Dynamics(
        speedup=speed,
        start_delay_s=delay.launch_s,
        ready_delay_s=costs.ready_s,
        cost=costs.resizes,
        startup=partial(costs.startup_s, apart_s=delay.apart_s),
    )


def replay(records: Mapping[RunKey, RunRecord], costs: Fitted) -> list[Replayed[RunKey]]:
    """Simulate the batches of real runs; apart are those with slower resizes, which have their own costs of these."""
    slowly = replace(costs, resizes=resizes(record for key, record in records.items() if key.kind == "injected"))
    by_kind = {"batch": costs, "injected": slowly}
    return [
        Replayed(key, measures(record), simulated(record, by_kind[key.kind]), key.kind == "injected")
        for key, record in records.items()
        if key.kind in by_kind and all(job.state == "completed" for job in record.jobs)
    ]


def errors(those: Sequence[Replayed[RunKey]]) -> dict[str, tuple[float, float, float]]:
    """By measure the real mean, the simulated one, and its error in percent of the real one (0 of 0: none)."""
    real = {name: statistics.fmean(one.real[name] for one in those) for name in MEASURES}
    ours = {name: statistics.fmean(one.mean(name) for one in those) for name in MEASURES}
    return {name: (real[name], ours[name], change(real[name], ours[name]) or 0.0) for name in MEASURES}


# Each real run again, given of every job what it really took: does the simulator decide as the live scheduler did?
#
# A job's start takes as long as it did, its end is where it was on the sizes that it had, each of its orders takes as
# long as it did and fails where it did, and it takes no more orders from when its computation was over. Everything
# else, which job starts when on how many nodes and which is resized by how many, the simulator has to find itself. One
# decision that is another one changes what comes after it. So this tests the engine, the core and the policies beside
# the live scheduler, without the chance that is in starts; what the model of starts and resizes is worth, ``fidelity``
# says.

SAME_S: Final = 0.1
"""Decisions that are no farther apart are taken at the same time: a live scheduler hears of events later, and takes
its time."""
_SOON_S: Final = 1e-3

Step: TypeAlias = tuple[str, int, float]
"""What was decided of a job: ``start`` or an order's kind, how many nodes, and when."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """A real run beside its repetition.

    Attributes:
        key: Which run.
        decisions: Starts and orders of both runs; those that only one of them has count, too.
        same: How many of them are the same in both.
        apart_s: How far those are apart at most, in seconds.
    """

    key: RunKey
    decisions: int
    same: int
    apart_s: float


@dataclass(slots=True)
class _Taken:
    """What a job's orders took, one after the other; one that it never had takes what others took."""

    stops: ClassVar[bool] = False
    seconds: Iterator[tuple[int, float]]
    others: Cost

    def __call__(self, before: int, after: int, own: Overhead | None = None) -> float:
        change, taken_s = next(self.seconds, (0, 0.0))
        return taken_s if change == after - before else self.others(before, after, own)


def repeat(records: Mapping[RunKey, RunRecord], costs: Fitted) -> list[Repeated]:
    """Repeat the batches of real runs whose jobs all completed."""
    return [
        _compared(key, _real(record), _simulated(record, costs))
        for key, record in records.items()
        if key.kind != "scaling" and all(job.state == "completed" for job in record.jobs)
    ]


def _compared(key: RunKey, real: Mapping[int, Sequence[Step]], ours: Mapping[int, Sequence[Step]]) -> Repeated:
    apart = [
        abs(one[2] - other[2])
        for job_id, steps in real.items()
        for one, other in zip(steps, ours.get(job_id, ()), strict=False)
        if one[:2] == other[:2]
    ]
    same = [seconds for seconds in apart if seconds <= SAME_S]
    decisions = sum(max(len(real.get(job_id, ())), len(ours.get(job_id, ()))) for job_id in real.keys() | ours.keys())
    return Repeated(key, decisions, len(same), max(same, default=0.0))


def _real(record: RunRecord) -> dict[int, list[Step]]:
    """What the live scheduler decided of each job."""
    started = decided_s(record)
    return {
        job.job_id: [
            ("start", len(job.segments[0].nodes), started[job.job_id]),
            *((order.kind, order.count, order.ordered_s) for order in job.resizes),
        ]
        for job in record.jobs
    }


def _simulated(record: RunRecord, costs: Fitted) -> dict[int, list[Step]]:
    """What the simulator decides of each job."""
    found: dict[int, list[Step]] = {}

    def note(now: float, _: Sequence[Event], effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, StartJob | SendOrder):
                kind = "start" if isinstance(effect, StartJob) else effect.kind
                found.setdefault(effect.job_id, []).append((kind, len(effect.nodes), now))

    started = decided_s(record)
    sims = [_as_it_was(job, costs, started[job.job_id]) for job in record.jobs]
    reports = [event for job in record.jobs for event in _reports(job)]
    Engine(record.nodes, get(record.policy), unending(record.policy), observer=note).run(sims, reports)
    return found


def _as_it_was(job: JobRecord, costs: Fitted, decided: float) -> Simulated:
    start_s, startup_s = job.start_s or 0.0, started_s(job) or 0.0
    trace, dynamics = sim_job(job, costs, Delay(start_s - decided, 0.0))
    orders = [(order, order.done_s) for order in job.resizes if order.done_s is not None]
    took = [
        (order.count if order.kind == "grow" else -order.count, done_s - max(order.ordered_s, start_s + startup_s))
        for order, done_s in orders
    ]
    return structs.replace(trace, runtime_s=trace.runtime_s / pace(job, costs)), structs.replace(
        dynamics,
        startup=lambda _: startup_s,
        ready_delay_s=None if job.ready_s is None else job.ready_s - start_s,
        failing_orders=frozenset(number for number, (order, _) in enumerate(orders) if order.outcome != "done"),
        cost=_Taken(iter(took), costs.resizes),
    )


def _reports(job: JobRecord) -> Iterator[tuple[float, Event]]:
    """When a job reported that it takes no more orders, for its computation was over."""
    startup_s, seconds = started_s(job), (job.result or {}).get("seconds")
    if None not in (job.ready_s, startup_s, seconds) and job.end_s is not None and job.start_s is not None:
        computed_s = job.start_s + (startup_s or 0.0) + (seconds or 0.0)
        answered_s = max((order.done_s or order.ordered_s for order in job.resizes), default=0.0)
        yield min(max(computed_s, answered_s + _SOON_S), job.end_s - _SOON_S), MalleableEnded(job.job_id)
