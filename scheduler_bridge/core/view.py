"""The view that the core hands to policies: it answers from indices that follow the jobs that change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mypy_extensions import mypyc_attr

from scheduler_bridge.core.nodes import NodePool
from scheduler_bridge.core.queue_index import Order, QueueByUser, RankedQueue, Total, WaitingIndex, WaitingJobs, keep
from scheduler_bridge.core.tracked import TrackedJob
from scheduler_bridge.model import (
    AnyIndex,
    ClusterView,
    Index,
    JobSpec,
    Key,
    Line,
    Need,
    QueueKey,
    Reservation,
    RunningJob,
    UserKey,
)


@mypyc_attr(native_class=False)  # as its base
class LiveView(ClusterView):
    """The state as a policy sees it, for one pass; answers as ``ClusterView`` would, at the cost of what has changed.

    It is made of what ``SchedulerState`` keeps. An index is made when a policy first asks for it, and follows then.
    """

    __setattr__ = object.__setattr__  # it is not frozen as its base is
    __delattr__ = object.__delattr__  # with this one, too, attributes are set without a call
    releasing_nodes = 0  # an attribute, which policies ask for at each pass

    def __init__(
        self,
        pool: NodePool,
        queue: dict[int, TrackedJob],
        active: Mapping[int, TrackedJob],
        stale: dict[int, TrackedJob],
        promises: Mapping[int, Reservation],
        cores_per_node: int,
        scaled: bool,
    ) -> None:
        self._made_of = (pool, queue, active, stale, promises, cores_per_node, scaled)
        self._pool = pool
        self._active = active
        self._stale = stale
        self._promises = promises
        self._waiting = WaitingJobs(queue)
        vars(self).update(queue=self._waiting, cores_per_node=cores_per_node, scaled=scaled)
        self.arrived: tuple[JobSpec, ...] | None = None
        self._running: tuple[RunningJob, ...] | None = None
        self._orders: dict[Key, Order] = {}
        self._totals: dict[Callable[[RunningJob], int], Total] = {}
        self._kept: dict[Callable[[], Index], Any] = {}
        self._indices: list[Index] = []  # all of these three
        self._lines: dict[Need, WaitingIndex] = {}
        self._ranked: dict[QueueKey, RankedQueue] = {}
        self._by_user: dict[tuple[UserKey, float], QueueByUser] = {}
        self._queues: list[WaitingIndex | RankedQueue] = []  # all of these three
        self._releasing: dict[int, RunningJob] | None = None  # that are about to release nodes; None: not known

    def __reduce__(self) -> tuple[type[LiveView], tuple[object, ...]]:
        """Pickle what it looks at; indices, whose keys may be any functions, are made again when they are asked for."""
        return type(self), self._made_of

    def refresh(self, renewals: int, accuracy: Mapping[str, float], arrived: tuple[JobSpec, ...] | None = None) -> None:
        """Take in how things are; where all that is new has ``arrived``, indices follow only when they are used."""
        pool, known = self._pool, vars(self)
        known["total_nodes"] = pool.in_service  # what policies ask for most often
        known["free_nodes"] = pool.free
        known["renewals"] = renewals
        known["accuracy"] = accuracy
        known["arrived"] = arrived
        if arrived is None:
            self._follow()
        found = self._releasing
        if found is None:
            found = self._releasing = {job.spec.job_id: job for job in self.running if job.releasing_nodes > 0}
        known["releasing_nodes"] = sum([job.releasing_nodes for job in found.values()]) if found else 0

    def _follow(self) -> None:
        """Show everything as it is now: what has become of the stale jobs."""
        self._running = None
        queue, active, releasing = self._waiting.jobs, self._active, self._releasing
        queues, indices = self._queues, self._indices
        stale = self._stale
        for job_id, job in stale.items():
            if job_id in queue:
                for waiting in queues:
                    waiting.add(job.spec)
                running = None
            else:
                for waiting in queues:
                    waiting.remove(job_id)
                running = job.view() if job_id in active else None
            for index in indices:
                index.put(job_id, running)
            if releasing is not None:
                if running is not None and running.order is not None and running.releasing_nodes > 0:
                    releasing[job_id] = running
                elif job_id in releasing:
                    del releasing[job_id]
        for by_user in self._by_user.values():
            for job in stale.values():
                if job.outcome is not None:
                    by_user.learn(job.spec.user)
        stale.clear()

    def reorder(self) -> None:
        """Jobs of the queue have changed places: what depends on it is made anew when it is asked for."""
        for index in self._kept.values():
            self._indices.remove(index)
        self._kept.clear()
        for indices in (self._lines, self._ranked, self._by_user, self._queues):
            indices.clear()

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """What the last pass promised to jobs, or left standing."""
        return tuple(self._promises.values())

    def promised(self, job_id: int) -> Reservation | None:
        """What a job is promised."""
        return self._promises.get(job_id)

    # the running jobs -----------------------------------------------------------------------------------------------

    @property
    def running(self) -> Sequence[RunningJob]:
        """Jobs that hold nodes, in the order of their starts; put together when it is first asked for."""
        if self._running is None:
            self._running = tuple([job.view() for job in self._active.values()])
        return self._running

    @property
    def releasing(self) -> Sequence[RunningJob]:
        """The running jobs that are about to release nodes, in the order of their ids."""
        return [job for _, job in sorted(self._releasing.items())] if self._releasing else ()

    def total(self, measure: Callable[[RunningJob], int]) -> int:
        """The sum of a pure function over the running jobs."""
        if (total := self._totals.get(measure)) is None:
            total = keep(self._totals, measure, Total(measure, self.running), self._indices)
        return total.sum

    def running_by(self, key: Key) -> Sequence[RunningJob]:
        """The running jobs in the order of ``key``."""
        return self._order(key).jobs

    def paused(self, now: float) -> Sequence[RunningJob]:
        """The running jobs that take no order before some later time."""
        return self._order(_by_end_of_pause).beyond(now)

    def _order(self, key: Key) -> Order:
        if (order := self._orders.get(key)) is None:
            order = keep(self._orders, key, Order(key, self.running), self._indices)
        return order

    def index(self, make: Callable[[], AnyIndex]) -> AnyIndex:
        """What ``make`` makes, with all running jobs entered."""
        found: AnyIndex | None = self._kept.get(make)
        if found is None:
            found = ClusterView.index(self, make)
            keep(self._kept, make, found, self._indices)
        return found

    # the waiting jobs -----------------------------------------------------------------------------------------------

    def waiting(self, job_id: int) -> JobSpec | None:
        """The job, if it waits."""
        job = self._waiting.jobs.get(job_id)
        return None if job is None else job.spec

    def queue_by(self, key: QueueKey) -> Sequence[JobSpec]:
        """The waiting jobs in the order of ``key``."""
        if self._stale:
            self._follow()
        if (queue := self._ranked.get(key)) is None:
            queue = keep(self._ranked, key, RankedQueue(key, self._waiting.jobs), self._queues)
        return queue

    def queue_by_user(self, key: UserKey, age_s: float = 0.0) -> Sequence[JobSpec]:
        """The waiting jobs in the order of a key of their users, and of the time that they have waited."""
        if self._stale:
            self._follow()
        if (queue := self._by_user.get((key, age_s))) is None:
            made = QueueByUser(key, self._waiting.jobs, self.accuracy, age_s)
            queue = keep(self._by_user, (key, age_s), made, self._queues)
        return queue

    def line(self, queue: Sequence[JobSpec], need: Need) -> Line:
        """The jobs of ``queue``; only what the view itself has handed out is indexed."""
        if self._stale:
            self._follow()
        if queue is self._waiting:
            if (index := self._lines.get(need)) is None:
                index = keep(self._lines, need, WaitingIndex(need, queue, self.walltime_s), self._queues)
            return index.walk(self.total_nodes)
        if isinstance(queue, RankedQueue):
            return queue.line(need, self.total_nodes, self.walltime_s)
        return ClusterView.line(self, queue, need)


def _by_end_of_pause(job: RunningJob) -> float:
    return job.resizable_from_s
