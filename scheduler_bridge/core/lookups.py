"""What policies look things up in: it follows the jobs that change."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, overload

from scheduler_bridge.core.ranked import QueueByUser, RankedQueue
from scheduler_bridge.core.tracked import TrackedJob
from scheduler_bridge.core.waiting import IndexedLine, WaitingIndex
from scheduler_bridge.model import AnyIndex, Index, JobSpec, Key, Need, QueueKey, RunningJob, UserKey

_MOST_ORDERS: Final = 4
"""So many orders of the queue are kept; those that were asked for first go."""


class Lookups:
    """Indices of the running and of the waiting jobs, each made when a policy first asks for it.

    Args:
        queue: The waiting jobs, in the order of their submission.
        active: The jobs that hold nodes, in the order of their starts.
        stale: The jobs that have changed and that indices still show as they were, by id; others add to it.

    Attributes:
        queue: The waiting jobs.
    """

    def __init__(
        self, queue: dict[int, TrackedJob], active: Mapping[int, TrackedJob], stale: dict[int, TrackedJob]
    ) -> None:
        self._active = active
        self._stale = stale
        self.queue = WaitingJobs(queue)
        self._running: tuple[RunningJob, ...] | None = None
        self._orders: dict[Key, _Order] = {}
        self._totals: dict[Callable[[RunningJob], int], _Total] = {}
        self._kept: dict[Callable[[], Index], Any] = {}
        self._indices: list[Index] = []  # all of these three
        self._lines: dict[Need, WaitingIndex] = {}
        self._ranked: dict[QueueKey, RankedQueue] = {}
        self._by_user: dict[UserKey, QueueByUser] = {}
        self._queues: list[WaitingIndex | RankedQueue] = []  # all of these three
        self._releasing: dict[int, RunningJob] | None = None  # that are about to release nodes; None: not known

    def follow(self) -> None:
        """Show everything as it is now: what has become of the stale jobs."""
        self._running = None
        queue, active, releasing = self.queue.jobs, self._active, self._releasing
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
    def running(self) -> Sequence[RunningJob]:
        """The jobs that hold nodes, in the order of their starts; put together when they are first asked for."""
        if self._running is None:
            self._running = tuple([job.view() for job in self._active.values()])
        return self._running

    def total(self, measure: Callable[[RunningJob], int]) -> int:
        """The sum of a pure function over the running jobs."""
        if (total := self._totals.get(measure)) is None:
            total = self._totals[measure] = _Total(measure, self.running)
            self._indices.append(total)
        return total.sum

    def running_by(self, key: Key) -> list[RunningJob]:
        """The running jobs in the order of ``key``."""
        return self._order(key).jobs

    def paused(self, now: float) -> list[RunningJob]:
        """The running jobs that take no order before some later time."""
        return self._order(_by_end_of_pause).beyond(now)

    def line(self, need: Need, total_nodes: int, walltime_s: Callable[[JobSpec, int], float]) -> IndexedLine:
        """Begin a walk through the queue; see ``ClusterView.line``."""
        if self._stale:
            self.follow()
        if (index := self._lines.get(need)) is None:
            index = self._lines[need] = WaitingIndex(need, self.queue, walltime_s)
            self._queues.append(index)
        return index.walk(total_nodes)

    def line_of(
        self, queue: RankedQueue, need: Need, total_nodes: int, walltime_s: Callable[[JobSpec, int], float]
    ) -> IndexedLine:
        """Begin a walk through an order of the queue that is kept here."""
        if self._stale:
            self.follow()
        return queue.line(need, total_nodes, walltime_s)

    def queue_by(self, key: QueueKey) -> RankedQueue:
        """The waiting jobs in the order of ``key``."""
        if self._stale:
            self.follow()
        if (queue := self._ranked.get(key)) is None:
            if len(self._ranked) == _MOST_ORDERS:  # as where the key follows the nodes in service
                self._queues.remove(self._ranked.pop(next(iter(self._ranked))))
            queue = self._ranked[key] = RankedQueue(key, self.queue.jobs)
            self._queues.append(queue)
        return queue

    def queue_by_user(self, key: UserKey, accuracy: Mapping[str, float]) -> RankedQueue:
        """The waiting jobs in the order of a key of their users, whose accuracies change."""
        if self._stale:
            self.follow()
        if (queue := self._by_user.get(key)) is None:
            queue = self._by_user[key] = QueueByUser(key, self.queue.jobs, accuracy)
            self._queues.append(queue)
        return queue

    def reorder(self) -> None:
        """Jobs of the queue have changed places: what depends on it is made anew when it is asked for."""
        for index in self._kept.values():
            self._indices.remove(index)
        self._kept.clear()
        for indices in (self._lines, self._ranked, self._by_user, self._queues):
            indices.clear()

    def index(self, make: Callable[[], AnyIndex]) -> AnyIndex:
        """What ``make`` makes, with all running jobs entered."""
        found: AnyIndex | None = self._kept.get(make)
        if found is None:
            found = self._kept[make] = make()
            for job in self.running:
                found.put(job.spec.job_id, job)
            self._indices.append(found)
        return found

    def _order(self, key: Key) -> _Order:
        if (order := self._orders.get(key)) is None:
            order = self._orders[key] = _Order(key, self.running)
            self._indices.append(order)
        return order


def _by_end_of_pause(job: RunningJob) -> float:
    return job.resizable_from_s


class WaitingJobs(Sequence[JobSpec]):
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
