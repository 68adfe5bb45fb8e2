"""Each real run again, told of every job what it really took: does the simulator decide as the live scheduler did?

A job's start takes as long as it did, its end is where it was on the sizes that it had, each of its orders takes as
long as it did and fails where it did, and it takes no more orders from when its computation was over. Everything else,
which job starts when on how many nodes and which is resized by how many, the simulator has to find itself. One decision
that is another one changes what comes after it. So this tests the engine, the core and the policies beside the live
scheduler, without the chance that is in starts; what the model of starts and resizes is worth, ``fidelity`` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from msgspec import structs

from scheduler_bridge.core.effects import Effect, SendOrder, StartJob
from scheduler_bridge.core.events import Event, MalleableEnded
from scheduler_bridge.experiments.own_runs.costs import decided_s
from scheduler_bridge.experiments.own_runs.fidelity import Delay, Fitted, pace, sim_job, started_s, unending
from scheduler_bridge.experiments.own_runs.plan import RunKey
from scheduler_bridge.policies import get
from scheduler_bridge.record import JobRecord, RunRecord
from scheduler_bridge.sim import Cost, Engine, SimJob
from scheduler_bridge.sim.costs import Overhead

SAME_S: Final = 0.1
"""Decisions that are no farther apart are taken at the same time: a live scheduler is told late, and takes its time."""
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
    told = [event for job in record.jobs for event in _told(job)]
    Engine(record.nodes, get(record.policy), unending(record.policy), observer=note).run(sims, told)
    return found


def _as_it_was(job: JobRecord, costs: Fitted, decided: float) -> SimJob:
    start_s, startup_s = job.start_s or 0.0, started_s(job) or 0.0
    sim = sim_job(job, costs, Delay(start_s - decided, 0.0))
    speedup, factor = sim.speedup, pace(job, costs)
    orders = [(order, order.done_s) for order in job.resizes if order.done_s is not None]
    took = [
        (order.count if order.kind == "grow" else -order.count, done_s - max(order.ordered_s, start_s + startup_s))
        for order, done_s in orders
    ]
    return structs.replace(
        sim,
        runtime_s=sim.runtime_s / factor,
        speedup=lambda nodes: factor * speedup(nodes),
        startup=lambda _: startup_s,
        ready_delay_s=None if job.ready_s is None else job.ready_s - start_s,
        failing_orders=frozenset(number for number, (order, _) in enumerate(orders) if order.outcome != "done"),
        cost=_Taken(iter(took), costs.resizes),
    )


def _told(job: JobRecord) -> Iterator[tuple[float, Event]]:
    """When a job told that it takes no more orders, for its computation was over."""
    startup_s, seconds = started_s(job), (job.result or {}).get("seconds")
    if None not in (job.ready_s, startup_s, seconds) and job.end_s is not None and job.start_s is not None:
        computed_s = job.start_s + (startup_s or 0.0) + (seconds or 0.0)
        answered_s = max((order.done_s or order.ordered_s for order in job.resizes), default=0.0)
        yield min(max(computed_s, answered_s + _SOON_S), job.end_s - _SOON_S), MalleableEnded(job.job_id)
