"""The view that the core hands to policies: it answers from indices that follow the jobs that change."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, overload

from scheduler_bridge.core.nodes import NodePool
from scheduler_bridge.core.ranked import QueueByUser, RankedQueue
from scheduler_bridge.core.tracked import TrackedJob
from scheduler_bridge.core.waiting import WaitingIndex
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

_MOST_ORDERS: Final = 4
"""So many orders of the queue are kept; those that were asked for first go."""


class LiveView(ClusterView):
    """The state as a policy sees it, for one pass; answers as ``ClusterView`` would, at the cost of what has changed.

    An index is made when a policy first asks for it, and follows from then on.

    Args:
        pool: The nodes.
        queue: The waiting jobs, in the order of their submission.
        active: The jobs that hold nodes, in the order of their starts.
        stale: The jobs that have changed and that indices still show as they were, by id; others add to it.
        promises: The reservations, by job; others change them.
        cores_per_node: Cores of each node.
        scaled: Walltimes are predicted for the size at which a job runs.
    """

    __setattr__ = object.__setattr__  # it is not frozen as its base is
    __delattr__ = object.__delattr__  # with this one, too, attributes are set without a call

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
        self._pool = pool
        self._active = active
        self._stale = stale
        self._promises = promises
        self._queue = _Waiting(queue)
        self._running: tuple[RunningJob, ...] | None = None
        vars(self).update(queue=self._queue, cores_per_node=cores_per_node, scaled=scaled)
        self.arrived: tuple[JobSpec, ...] | None = None
        self._orders: dict[Key, _Order] = {}
        self._totals: dict[Callable[[RunningJob], int], _Total] = {}
        self._kept: dict[Callable[[], Index], Any] = {}
        self._indices: list[Index] = []  # all of these three
        self._lines: dict[Need, WaitingIndex] = {}
        self._ranked: dict[QueueKey, RankedQueue] = {}
        self._by_user: dict[UserKey, QueueByUser] = {}
        self._queues: list[WaitingIndex | RankedQueue] = []  # all of these three
        self._releasing: dict[int, RunningJob] | None = None  # that are about to release nodes; None: not known

    def __getstate__(self) -> dict[str, object]:
        """Pickle what it looks at; indices, whose keys may be any functions, are made again when they are asked for."""
        state = {**vars(self), "_orders": {}, "_totals": {}, "_indices": [], "_running": None, "_releasing": None}
        return {**state, "_kept": {}, "_lines": {}, "_ranked": {}, "_by_user": {}, "_queues": []}

    def refresh(
        self,
        renewals: int,
        accuracy: Mapping[str, float],
        arrived: tuple[JobSpec, ...] | None = None,
    ) -> None:
        """Take in how things are; where all that is new has ``arrived``, indices follow only when they are used."""
        pool = self._pool
        vars(self).update(  # what policies ask for most often
            total_nodes=pool.in_service,
            free_nodes=pool.free,
            renewals=renewals,
            accuracy=accuracy,
            arrived=arrived,
        )
        if arrived is None:
            self._running = None
            self._follow()

    def _follow(self) -> None:
        """Show the stale jobs in the indices as they are now."""
        queue, active, releasing = self._queue.jobs, self._active, self._releasing
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

    @property
    def releasing_nodes(self) -> int:
        """Nodes that are about to be released."""
        if self._releasing is not None and not self._releasing:  # as mostly
            return 0
        return sum([job.releasing_nodes for job in self._being_shrunk().values()])

    @property
    def releasing(self) -> Sequence[RunningJob]:
        """The running jobs that are about to release nodes, in the order of their ids."""
        return [job for _, job in sorted(found.items())] if (found := self._being_shrunk()) else ()

    def _being_shrunk(self) -> Mapping[int, RunningJob]:
        if self._releasing is None:
            self._releasing = {job.spec.job_id: job for job in self.running if job.releasing_nodes > 0}
        return self._releasing

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """What the last pass promised to jobs, or left standing."""
        return tuple(self._promises.values())

    def promised(self, job_id: int) -> Reservation | None:
        """What a job is promised."""
        return self._promises.get(job_id)

    def waiting(self, job_id: int) -> JobSpec | None:
        """The job, if it waits."""
        job = self._queue.jobs.get(job_id)
        return None if job is None else job.spec

    @property
    def running(self) -> Sequence[RunningJob]:
        """Jobs that hold nodes, in the order of their starts; put together when it is first asked for."""
        if self._running is None:
            self._running = tuple([job.view() for job in self._active.values()])
        return self._running

    def total(self, measure: Callable[[RunningJob], int]) -> int:
        """The sum of a pure function over the running jobs."""
        if (total := self._totals.get(measure)) is None:
            total = self._totals[measure] = _Total(measure, self.running)
            self._indices.append(total)
        return total.sum

    def running_by(self, key: Key) -> Sequence[RunningJob]:
        """The running jobs in the order of ``key``."""
        return self._order(key).jobs

    def paused(self, now: float) -> Sequence[RunningJob]:
        """The running jobs that take no order before some later time."""
        return self._order(_by_end_of_pause).beyond(now)

    def line(self, queue: Sequence[JobSpec], need: Need) -> Line:
        """The jobs of ``queue``; only what the view itself has handed out is indexed."""
        if self._stale:
            self._follow()
        if isinstance(queue, RankedQueue):
            return queue.line(need, self.total_nodes, self.walltime_s)
        if queue is not self._queue:
            return ClusterView.line(self, queue, need)
        if (index := self._lines.get(need)) is None:
            index = self._lines[need] = WaitingIndex(need, queue, self.walltime_s)
            self._queues.append(index)
        return index.walk(self.total_nodes)

    def queue_by(self, key: QueueKey) -> Sequence[JobSpec]:
        """The waiting jobs in the order of ``key``."""
        if self._stale:
            self._follow()
        if (queue := self._ranked.get(key)) is None:
            if len(self._ranked) == _MOST_ORDERS:  # as where the key follows the nodes in service
                self._queues.remove(self._ranked.pop(next(iter(self._ranked))))
            queue = self._ranked[key] = RankedQueue(key, self._queue.jobs)
            self._queues.append(queue)
        return queue

    def queue_by_user(self, key: UserKey) -> Sequence[JobSpec]:
        """The waiting jobs in the order of a key of their users."""
        if self._stale:
            self._follow()
        if (queue := self._by_user.get(key)) is None:
            queue = self._by_user[key] = QueueByUser(key, self._queue.jobs, self.accuracy)
            self._queues.append(queue)
        return queue

    def snapshot(self) -> ClusterView:
        """The view as it is now, to be kept."""
        return ClusterView(
            total_nodes=self.total_nodes,
            free_nodes=self.free_nodes,
            queue=tuple(self._queue),
            running=self.running,
            reservations=self.reservations,
            accuracy=dict(self.accuracy),
            cores_per_node=self.cores_per_node,
            scaled=self.scaled,
        )

    def reorder(self) -> None:
        """Jobs of the queue have changed places: what depends on it is made anew when it is asked for."""
        for index in self._kept.values():
            self._indices.remove(index)
        self._kept.clear()
        for indices in (self._lines, self._ranked, self._by_user, self._queues):
            indices.clear()

    def index(self, make: Callable[[], AnyIndex]) -> AnyIndex:
        """What ``make`` makes, with all running jobs entered; it follows from then on."""
        found = self._kept.get(make)
        if found is None:
            found = self._kept[make] = self._entered(make())
        return found

    def _entered(self, index: AnyIndex) -> AnyIndex:
        for job in self.running:
            index.put(job.spec.job_id, job)
        self._indices.append(index)
        return index

    def _order(self, key: Key) -> _Order:
        if (order := self._orders.get(key)) is None:
            order = self._orders[key] = _Order(key, self.running)
            self._indices.append(order)
        return order


def _by_end_of_pause(job: RunningJob) -> float:
    return job.resizable_from_s


class _Waiting(Sequence[JobSpec]):
    """The queue itself, without a copy."""

    def __init__(self, jobs: dict[int, TrackedJob]) -> None:
        self.jobs = jobs

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[JobSpec]:
        return (job.spec for job in self.jobs.values())

    def __reversed__(self) -> Iterator[JobSpec]:
        return (job.spec for job in reversed(self.jobs.values()))

    @overload
    def __getitem__(self, index: int) -> JobSpec: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[JobSpec]: ...
    def __getitem__(self, index: int | slice) -> JobSpec | Sequence[JobSpec]:
        if index == 0 and self.jobs:
            return next(iter(self))
        return tuple(self)[index]


class _Order:
    """Running jobs, sorted by a key and by id.

    Attributes:
        jobs: The jobs, in order.
    """

    def __init__(self, key: Key, running: Iterable[RunningJob]) -> None:
        self._key = key
        self._values: dict[int, Any] = {}
        self._ranks: list[tuple[Any, int]] = []  # value and id, in parallel to the jobs
        self.jobs: list[RunningJob] = []
        for job in running:
            self.put(job.spec.job_id, job)

    def put(self, job_id: int, job: RunningJob | None) -> None:
        """Enter the job as it is now, or leave it out."""
        value = None if job is None else self._key(job)
        before = self._values.get(job_id)
        if before is not None:
            position = bisect_left(self._ranks, (before, job_id))
            if job is not None and value == before:
                self.jobs[position] = job
                return
            del self._ranks[position], self.jobs[position], self._values[job_id]
        if job is not None and value is not None:
            position = bisect_left(self._ranks, (value, job_id))
            self._ranks.insert(position, (value, job_id))
            self.jobs.insert(position, job)
            self._values[job_id] = value

    def beyond(self, limit: float) -> list[RunningJob]:
        """The jobs whose value is above ``limit``."""
        return self.jobs[bisect_right(self._ranks, (limit, math.inf)) :]


class _Total:
    """A sum over running jobs."""

    def __init__(self, measure: Callable[[RunningJob], int], running: Iterable[RunningJob]) -> None:
        self._measure = measure
        self._parts = {job.spec.job_id: value for job in running if (value := measure(job))}
        self.sum = sum(self._parts.values())

    def put(self, job_id: int, job: RunningJob | None) -> None:
        """Count the job as it is now, or not at all."""
        value = 0 if job is None else self._measure(job)
        if value != (before := self._parts.get(job_id, 0)):
            self.sum += value - before
            self._parts[job_id] = value
            if not value:
                del self._parts[job_id]
