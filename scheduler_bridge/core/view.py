"""The view that the core hands to policies: it answers from indices that follow the jobs that change."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from scheduler_bridge.core.nodes import NodePool
from scheduler_bridge.core.tracked import TrackedJob
from scheduler_bridge.core.waiting import WaitingIndex
from scheduler_bridge.model import ClusterView, JobSpec, Key, Line, Need, Reservation, RunningJob


class LiveView(ClusterView):
    """The state as a policy sees it, for one pass; answers as ``ClusterView`` would, at the cost of what has changed.

    An index is made when a policy first asks for it, and follows from then on.

    Args:
        pool: The nodes.
        queue: The waiting jobs, in the order of their submission.
        active: The jobs that hold nodes, in the order of their starts.
    """

    def __init__(self, pool: NodePool, queue: Mapping[int, TrackedJob], active: Mapping[int, TrackedJob]) -> None:
        self._pool = pool
        self._active = active
        self._queue = _Waiting(queue)
        self._running: tuple[RunningJob, ...] | None = None
        self._promises: tuple[Reservation, ...] = ()
        self._accuracy: Mapping[str, float] = {}
        self._orders: dict[Key, _Order] = {}
        self._totals: dict[Callable[[RunningJob], int], _Total] = {}
        self._lines: dict[Need, WaitingIndex] = {}

    def refresh(
        self, stale: Mapping[int, TrackedJob], reservations: tuple[Reservation, ...], accuracy: Mapping[str, float]
    ) -> None:
        """Take in what has become of the ``stale`` jobs."""
        self._running = None
        self._promises, self._accuracy = reservations, accuracy
        orders, totals, lines = self._orders.values(), self._totals.values(), self._lines.values()
        for job_id, job in stale.items():
            if lines:
                waits = job_id in self._queue.jobs
                for line in lines:
                    line.put(job.spec, waits=waits)
            running = job.view() if job_id in self._active else None
            for order in orders:
                order.put(job_id, running)
            for total in totals:
                total.put(job_id, running)

    @property
    def total_nodes(self) -> int:
        """Nodes in service."""
        return self._pool.in_service

    @property
    def free_nodes(self) -> int:
        """Nodes in service that nobody holds."""
        return self._pool.free

    @property
    def queue(self) -> Sequence[JobSpec]:
        """Waiting jobs in the order of their submission."""
        return self._queue

    @property
    def running(self) -> Sequence[RunningJob]:
        """Jobs that hold nodes, in the order of their starts; put together when it is first asked for."""
        if self._running is None:
            self._running = tuple([job.view() for job in self._active.values()])
        return self._running

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """What the last pass promised to jobs."""
        return self._promises

    @property
    def accuracy(self) -> Mapping[str, float]:
        """Per user, how much of the walltime that was asked for the last jobs used."""
        return self._accuracy

    def total(self, measure: Callable[[RunningJob], int]) -> int:
        """The sum of a pure function over the running jobs."""
        if (total := self._totals.get(measure)) is None:
            total = self._totals[measure] = _Total(measure, self.running)
        return total.sum

    def running_by(self, key: Key) -> Iterable[RunningJob]:
        """The running jobs in the order of ``key``, found as they are asked for."""
        return self._order(key).jobs()

    def paused(self, now: float) -> Sequence[RunningJob]:
        """The running jobs that take no order before some later time."""
        return self._order(_by_end_of_pause).beyond(now)

    def line(self, queue: Sequence[JobSpec], need: Need) -> Line:
        """The jobs of ``queue``; only the view's own queue is indexed."""
        if queue is not self._queue:
            return super().line(queue, need)
        if (index := self._lines.get(need)) is None:
            index = self._lines[need] = WaitingIndex(need, queue)
        return index.walk(self._pool.in_service)

    def snapshot(self) -> ClusterView:
        """The view as it is now, to be kept."""
        return ClusterView(
            total_nodes=self.total_nodes,
            free_nodes=self.free_nodes,
            queue=tuple(self._queue),
            running=self.running,
            reservations=self._promises,
            accuracy=self._accuracy,
        )

    def _order(self, key: Key) -> _Order:
        if (order := self._orders.get(key)) is None:
            order = self._orders[key] = _Order(key, self.running)
        return order


def _by_end_of_pause(job: RunningJob) -> float:
    return job.resizable_from_s


class _Waiting(Sequence[JobSpec]):
    """The queue itself, without a copy."""

    def __init__(self, jobs: Mapping[int, TrackedJob]) -> None:
        self.jobs = jobs

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[JobSpec]:
        return (job.spec for job in self.jobs.values())

    @overload
    def __getitem__(self, index: int) -> JobSpec: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[JobSpec]: ...
    def __getitem__(self, index: int | slice) -> JobSpec | Sequence[JobSpec]:
        if index == 0 and self.jobs:
            return next(iter(self))
        return tuple(self)[index]


class _Order:
    """Running jobs, sorted by a key and by id."""

    def __init__(self, key: Key, running: Iterable[RunningJob]) -> None:
        self._key = key
        self._entries: list[tuple[Any, int, RunningJob]] = sorted(
            [(value, job.spec.job_id, job) for job in running if (value := key(job)) is not None]
        )
        self._values = {job_id: value for value, job_id, _ in self._entries}

    def put(self, job_id: int, job: RunningJob | None) -> None:
        """Enter the job as it is now, or leave it out."""
        value = None if job is None else self._key(job)
        before = self._values.get(job_id)
        entries = self._entries
        if before is not None:
            position = bisect_left(entries, (before, job_id))
            if job is not None and value == before:
                entries[position] = (value, job_id, job)
                return
            del entries[position], self._values[job_id]
        if job is not None and value is not None:
            entries.insert(bisect_left(entries, (value, job_id)), (value, job_id, job))
            self._values[job_id] = value

    def jobs(self) -> Iterator[RunningJob]:
        """The jobs, in order."""
        return (job for _, _, job in self._entries)

    def beyond(self, limit: float) -> list[RunningJob]:
        """The jobs whose value is above ``limit``, the highest first."""
        found: list[RunningJob] = []
        for value, _, job in reversed(self._entries):
            if value <= limit:
                break
            found.append(job)
        return found


class _Total:
    """A sum over running jobs."""

    def __init__(self, measure: Callable[[RunningJob], int], running: Iterable[RunningJob]) -> None:
        self._measure = measure
        self._parts = {job.spec.job_id: value for job in running if (value := measure(job))}
        self.sum = sum(self._parts.values())

    def put(self, job_id: int, job: RunningJob | None) -> None:
        """Count the job as it is now, or not at all."""
        before = self._parts.pop(job_id, 0)
        value = 0 if job is None else self._measure(job)
        if value:
            self._parts[job_id] = value
        self.sum += value - before
