"""The indices behind the view of the core against a view made afresh, after every batch of events."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from scheduler_bridge import policies
from scheduler_bridge.core import SchedulerCore, Settings
from scheduler_bridge.core.events import (
    CancelJob,
    Event,
    GrowCompleted,
    JobEnded,
    JobInterrupted,
    JobMoved,
    JobStarted,
    JobSubmitted,
    JobWithdrawn,
    MalleableEnded,
    MalleableReady,
    NodeDown,
    NodeDrained,
    NodesLost,
    NodeUp,
    ResizeDeferred,
    ResizeFailed,
    ShrinkCompleted,
    WorkersChanged,
)
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.core.tracked import JobState, TrackedJob
from scheduler_bridge.model import ClusterView, JobClass, JobSpec, RunningJob
from scheduler_bridge.policies.compose import at_minimum, at_preferred
from scheduler_bridge.policies.plan import endings, reclaimable, shrinkable
from scheduler_bridge.policies.profile import Endings
from scheduler_bridge.policies.sharing_candidates import Candidates, Mate, Slowdowns, Terms

NODES = tuple(f"n{index}" for index in range(8))
SEEDS = 6
BATCHES = 150
KEYS = (shrinkable(at_minimum), shrinkable(at_preferred))
MEASURES = (reclaimable(at_minimum), reclaimable(at_preferred))
ENDINGS = [endings(floor, scaled) for floor in (None, at_minimum, at_preferred) for scaled in (False, True)]
PARAMETERS: dict[str, dict[str, object]] = {
    "sd-policy": {"max_slowdown": "inf", "jobs_per_node": 3, "mates": 3, "free_nodes": "yes"}
}


def afresh(state: SchedulerState) -> ClusterView:
    """What the policies are to see, from the jobs and nodes themselves."""
    for job in state.active.values():
        job.seen = None
    free = [node for node in state.pool.names if state.pool.state(node) == "idle"]
    down = [node for node in state.pool.names if state.pool.state(node) in ("down", "draining")]
    return ClusterView(
        total_nodes=len(state.pool) - len(down),
        free_nodes=len(free),
        queue=tuple(job.spec for job in state.queue.values()),
        running=tuple(job.view() for job in state.active.values()),
        reservations=tuple(state.reservations.values()),
        accuracy=dict(state.accuracy),
        cores_per_node=state.settings.cores_per_node,
        scaled=state.settings.walltime == "scaled",
    )


def walk(view: ClusterView, queue: Sequence[JobSpec], arguments: tuple[Any, ...] | None) -> list[tuple[int, int]]:
    """The ids and needs of the jobs that a walk meets, all of them or those that fit."""
    line, met = view.line(queue, _need), []
    while (spec := line.next() if arguments is None else line.next_fitting(*arguments)) is not None:
        met.append((spec.job_id, line.need))
    return met


def releases(view: ClusterView, make: Callable[[], Endings]) -> list[tuple[float, int]]:
    index = view.index(make)
    assert index.times_s == sorted(index.times_s)
    return sorted(zip(index.times_s, index.nodes, strict=True))


def contents(candidates: Candidates) -> tuple[list[int], list[list[int]], list[list[Mate]]]:
    """The offers, the partners and the possible mates of all sizes."""
    mates = [sorted(candidates.mates(cores, 40.0, 0.0, None, 8), key=by_mate) for cores in candidates.offers]
    return candidates.offers, [sorted(candidates.partners(nodes)) for nodes in range(1, 9)], mates


def by_mate(mate: Mate) -> int:
    return mate.job_id


def compare_below(limit: float, live: ClusterView, plain: ClusterView) -> None:
    """Candidates whose limit is lowered are those that were made with the lower one, but for useless partners."""
    lowered, made = live.index(ANY_CANDIDATES), plain.index(partial(Candidates, replace(TERMS, limit=limit)))
    lowered.lower(limit)
    for found in (lowered, lowered.without([])):
        (offers, partners, candidates), (same_offers, some, same_candidates) = contents(found), contents(made)
        assert (offers, candidates) == (same_offers, same_candidates)
        assert all(set(few) <= set(many) for few, many in zip(some, partners, strict=True))


TERMS = Terms(limit=50.0, factor=0.5, cores_per_rank=1, jobs_per_node=3, all_cores=4)
CANDIDATES = partial(Candidates, TERMS)
ANY_CANDIDATES = partial(Candidates, replace(TERMS, limit=math.inf))


def by_work(spec: JobSpec) -> float:
    return spec.walltime_s // 100 * spec.nodes


def by_accuracy(accuracy: float | None) -> int:
    return 5 if accuracy is None else int(10 * accuracy)


def by_id(job: RunningJob) -> int:
    return job.spec.job_id


def _need(spec: JobSpec, total_nodes: int) -> int:
    return min(spec.nodes, max(spec.min_nodes, total_nodes))


def compare(core: SchedulerCore, now: float, rng: random.Random) -> None:
    """Ask both views everything."""
    live, plain = core._state.view(), afresh(core._state)
    lookups = live._lookups
    assert live.snapshot() == plain
    assert live.releasing_nodes == plain.releasing_nodes
    assert list(live.releasing) == list(plain.releasing)
    for measure in [*MEASURES, *lookups._totals]:
        assert live.total(measure) == plain.total(measure)
    for key in [*KEYS, *lookups._orders]:
        assert list(live.running_by(key)) == list(plain.running_by(key))
    assert sorted(live.paused(now), key=by_id) == sorted(plain.paused(now), key=by_id)
    for make in ENDINGS:
        assert releases(live, make) == releases(plain, make)
    assert contents(live.index(CANDIDATES)) == contents(plain.index(CANDIDATES))
    mean = plain.index(Slowdowns).mean
    assert live.index(Slowdowns).mean == mean
    for limit in (mean, rng.uniform(1.0, 2.0), 50.0):
        compare_below(limit, live, plain)
    turns = [job.turn for job in plain.running]
    assert turns == sorted(set(turns))
    for index in lookups._lines.values():
        assert index.least_need == min([need for block in index.blocks for need in block.needs], default=1 << 60)
    orders = [(live.queue_by(key), plain.queue_by(key)) for key in [by_work, *lookups._ranked]]
    by_user = [(by_accuracy, 0.0), (by_accuracy, 30.0), *lookups._by_user]
    orders += [(live.queue_by_user(*asked), plain.queue_by_user(*asked)) for asked in by_user]
    # keys that are new each time cost time, and leave nothing behind
    orders.append((live.queue_by(partial(by_work)), plain.queue_by(by_work)))
    assert live.total(partial(MEASURES[0])) == plain.total(MEASURES[0])
    assert list(live.running_by(partial(by_id))) == list(plain.running_by(by_id))
    running = [len(kept) for kept in (lookups._totals, lookups._orders, lookups._kept)]
    waiting = [len(kept) for kept in (lookups._lines, lookups._ranked, lookups._by_user)]
    assert max(running + waiting) <= 8
    assert (len(lookups._indices), len(lookups._queues)) == (sum(running), sum(waiting))
    least = rng.randint(1, 4)
    for arguments in (None, (1, 8, 8, now, math.inf), (least, least + 2, 2, now, now + rng.randint(1, 200))):
        assert walk(live, live.queue, arguments) == walk(plain, plain.queue, arguments)
        for ranked, afresh_ranked in orders:
            assert list(ranked) == list(afresh_ranked)
            assert walk(live, ranked, arguments) == walk(plain, afresh_ranked, arguments)


class Jobs:
    """Pretended jobs: what they, users and nodes do next is drawn; several things may happen at one instant."""

    def __init__(self, core: SchedulerCore, rng: random.Random) -> None:
        self.core, self.rng = core, rng
        self.specs: dict[int, JobSpec] = {}
        self.withdrawn: set[int] = set()

    def batch(self) -> list[Event]:
        """What happens next; what is gone may come again at once."""
        rng, state = self.rng, self.core._state
        events: list[Event] = [self.node()] if rng.random() < 0.15 else []
        for job in rng.sample(list(state.jobs.values()), min(len(state.jobs), rng.randint(0, 3))):
            events += self.life(job)
        if rng.random() < 0.5:
            events += [JobSubmitted(self.spec(len(self.specs)))]
        if self.withdrawn and rng.random() < 0.3:
            events.append(JobSubmitted(self.specs[self.withdrawn.pop()]))
        return events

    def spec(self, job_id: int) -> JobSpec:
        rng = self.rng
        low, nodes, high = sorted(rng.randint(1, 6) for _ in range(3))
        if rng.random() < 0.3:
            low = high = nodes
        job_class: JobClass = "rigid" if low == high else "malleable"
        walltime_s = float(rng.randint(50, 500))
        self.specs[job_id] = JobSpec(
            job_id, "j", rng.choice("ab"), job_class, nodes, low, high, walltime_s, 7.0 * job_id
        )
        return self.specs[job_id]

    def node(self) -> Event:
        node = self.rng.choice(NODES)
        events: list[Event] = [NodeUp(node), NodeUp(node), NodeDown(node), NodeDrained(node)]
        return self.rng.choice(events)

    def life(self, job: TrackedJob) -> list[Event]:
        """What the job does, or what is done with it."""
        rng, job_id = self.rng, job.spec.job_id
        draw = rng.random()
        match job.state:
            case JobState.QUEUED if draw < 0.1:
                self.withdrawn.add(job_id)
                return [JobWithdrawn(job_id)]
            case JobState.QUEUED if draw < 0.2:
                return [JobMoved(job_id, rng.choice([None, *self.core.waiting]))]
            case JobState.QUEUED | JobState.CLAIMING:
                return [CancelJob(job_id)] if draw > 0.9 else []
            case JobState.STARTING if draw < 0.8:
                return [JobStarted(job_id), MalleableReady(job_id)] if job.spec.is_malleable else [JobStarted(job_id)]
            case JobState.ENDED:
                return [JobSubmitted(job.spec)] if draw < 0.05 else []
            case JobState.GROWING | JobState.SHRINKING | JobState.ADJUSTING if draw < 0.7:
                return [self.answer(job)]
            case JobState.GROWING | JobState.SHRINKING | JobState.ADJUSTING | JobState.RUNNING if draw > 0.9:
                return [JobInterrupted(job_id, "place 0 was lost")]
            case JobState.RUNNING if draw < 0.1 and job.spec.is_malleable:
                return [MalleableEnded(job_id) if draw < 0.05 else MalleableReady(job_id)]
            case JobState.RUNNING if draw < 0.2 and len(job.allocation) > 1:
                return [NodesLost(job_id, self.core._state.pool.name(job.allocation)[-1:], "died")]
            case JobState.RUNNING if draw < 0.3:
                return [CancelJob(job_id)]
            case JobState.RUNNING if draw < 0.7:
                return []
        again = [JobSubmitted(job.spec)] if rng.random() < 0.3 else []
        return [JobEnded(job_id, rng.choice(["completed", "failed", "lost"])), *again]

    def answer(self, job: TrackedJob) -> Event:
        order, job_id, rng = job.order, job.spec.job_id, self.rng
        assert order is not None
        if rng.random() < 0.3:
            answers: list[Event] = [ResizeDeferred(job_id, order.order, "no"), ResizeFailed(job_id, order.order, "no")]
            return rng.choice(answers)
        if order.kind == "workers":
            return WorkersChanged(job_id, order.order)
        if order.kind == "grow":
            return GrowCompleted(job_id, order.order, order.nodes[: rng.randint(0, len(order.nodes))])
        held = self.core._state.pool.name(job.allocation)
        return ShrinkCompleted(job_id, order.order, tuple(rng.sample(held[1:], order.count)))


@pytest.mark.parametrize("policy", policies.names())
def test_what_a_policy_is_shown_is_what_is_there(policy: str) -> None:
    for seed in range(SEEDS):
        rng = random.Random(f"{seed} {policy}")
        settings = Settings(
            cooldown_s=rng.choice([0.0, 20.0]), cores_per_node=4, walltime=rng.choice(["fixed", "scaled"])
        )
        core = SchedulerCore(NODES, policies.get(policy, **PARAMETERS.get(policy, {})), settings)
        jobs, now = Jobs(core, rng), 0.0
        for _ in range(BATCHES):
            now += rng.choice([0.0, 1.0, 10.0])
            core.handle_batch(jobs.batch(), now)
            core.check()
            compare(core, now, rng)
