"""Indices of the waiting and of the running jobs, which follow the jobs that change."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, overload

from scheduler_bridge.core.tracked import TrackedJob
from scheduler_bridge.model import AnyIndex, Index, JobSpec, Key, Need, QueueKey, RunningJob, UserKey, aged

# The queue in blocks that know their smallest jobs, so that a search passes whole blocks over -------------------------

_BLOCK_JOBS: Final = 32
_NOBODY: Final = 1 << 60
"""More nodes than any job needs."""


class _Block:
    """Some neighbours in the queue, with what they need."""

    __slots__ = ("ids", "least_need", "least_walltime_s", "most_need", "needs", "specs", "walltimes_s")

    def __init__(self) -> None:
        self.specs: list[JobSpec] = []
        self.ids: list[int] = []
        self.needs: list[int] = []
        self.walltimes_s: list[float] = []
        self.least_need = self.most_need = 0
        self.least_walltime_s = 0.0

    def insert(self, index: int, spec: JobSpec, need: int, walltime_s: float) -> None:
        if not self.specs or need < self.least_need:
            self.least_need = need
        if not self.specs or walltime_s < self.least_walltime_s:
            self.least_walltime_s = walltime_s
        if need > self.most_need:
            self.most_need = need
        self.specs.insert(index, spec)
        self.ids.insert(index, spec.job_id)
        self.needs.insert(index, need)
        self.walltimes_s.insert(index, walltime_s)

    def remove(self, job_id: int) -> int:
        """Take a job out; return what it needed."""
        index = self.ids.index(job_id)
        need, walltime_s = self.needs.pop(index), self.walltimes_s.pop(index)
        del self.specs[index], self.ids[index]
        if self.specs:
            if need in (self.least_need, self.most_need):
                self.least_need, self.most_need = min(self.needs), max(self.needs)
            if walltime_s == self.least_walltime_s:
                self.least_walltime_s = min(self.walltimes_s)
        return need


class WaitingIndex:
    """The waiting jobs in the order of a queue, searchable by what they need.

    Attributes:
        blocks: The jobs, in order.
        least_need: The nodes that the smallest job needs; very many if there is none.
    """

    def __init__(self, need: Need, queue: Iterable[JobSpec], walltime_s: Callable[[JobSpec, int], float]) -> None:
        self._need = need
        self._walltime_s = walltime_s
        self._total_nodes = -1
        self._block_of: dict[int, _Block] = {}
        self.blocks: list[_Block] = []
        self.least_need = _NOBODY
        for spec in queue:
            self._append(spec, 0)  # the needs follow at the first walk

    def add(self, spec: JobSpec) -> None:
        """Add a job at the end, if it is not there."""
        if spec.job_id not in self._block_of:
            self._append(spec, self._need(spec, self._total_nodes))

    def insert(self, spec: JobSpec, behind: int | None) -> None:
        """Add a job, which is not there, right behind another one; None: before all others."""
        if not self.blocks:
            self.blocks.append(_Block())
        block = self.blocks[0] if behind is None else self._block_of[behind]
        index = 0 if behind is None else block.ids.index(behind) + 1
        self._enter(block, index, spec, self._need(spec, self._total_nodes))
        if len(block.specs) > 4 * _BLOCK_JOBS:
            self._rebuild()

    def remove(self, job_id: int) -> None:
        """Take a job out, if it is there."""
        if (block := self._block_of.pop(job_id, None)) is None:
            return
        need = block.remove(job_id)
        if not block.specs:
            self.blocks.remove(block)
        if need == self.least_need and (not block.specs or block.least_need > need):
            self.least_need = min([block.least_need for block in self.blocks], default=_NOBODY)
        if len(self.blocks) > 8 and len(self.blocks) * _BLOCK_JOBS > 4 * len(self._block_of):
            self._rebuild()

    def walk(self, total_nodes: int) -> IndexedLine:
        """Begin a walk; ``total_nodes`` are in service."""
        if total_nodes != self._total_nodes:
            self._total_nodes = total_nodes
            self._rebuild()
        return IndexedLine(self.blocks, self.least_need)

    def _append(self, spec: JobSpec, need: int) -> None:
        if not self.blocks or len(self.blocks[-1].specs) == _BLOCK_JOBS:
            self.blocks.append(_Block())
        self._enter(self.blocks[-1], len(self.blocks[-1].specs), spec, need)

    def _enter(self, block: _Block, index: int, spec: JobSpec, need: int) -> None:
        block.insert(index, spec, need, self._walltime_s(spec, need or spec.nodes))
        self._block_of[spec.job_id] = block
        if need < self.least_need:
            self.least_need = need

    def _rebuild(self) -> None:
        specs = [spec for block in self.blocks for spec in block.specs]
        self.blocks.clear()
        self.least_need = _NOBODY
        for spec in specs:
            self._append(spec, self._need(spec, self._total_nodes))


class IndexedLine:
    """A walk along the blocks; see ``Line``."""

    __slots__ = ("_block", "_blocks", "_index", "_least_need", "need")

    def __init__(self, blocks: list[_Block], least_need: int) -> None:
        self.need = 0
        self._blocks = blocks
        self._least_need = least_need
        self._block = self._index = 0

    def next(self) -> JobSpec | None:
        """The next job, whatever it needs; None at the end."""
        while self._block < len(self._blocks):
            block, index = self._blocks[self._block], self._index
            if index < len(block.specs):
                self._index = index + 1
                self.need = block.needs[index]
                return block.specs[index]
            self._block += 1
            self._index = 0
        return None

    def next_fitting(self, least: int, most: int, spare: int, now: float, by_s: float) -> JobSpec | None:
        """The next job that needs ``least`` to ``most`` nodes, and at most ``spare`` of them unless it ends in time."""
        blocks, start = self._blocks, self._index
        behind = len(blocks) if self._least_need <= most else 0  # else no job's turn comes
        for position in range(self._block, behind):
            block = blocks[position]
            lowest = block.least_need
            if (
                lowest <= most
                and (lowest <= spare or now + block.least_walltime_s <= by_s)
                and block.most_need >= least
            ):
                walltimes_s = block.walltimes_s
                for index, need in enumerate(block.needs[start:] if start else block.needs, start):
                    if least <= need <= most and (need <= spare or now + walltimes_s[index] <= by_s):
                        self._block, self._index = position, index + 1
                        self.need = need
                        return block.specs[index]
            start = 0
        self._block, self._index = len(blocks), 0
        return None


# The queue in an order of a policy's, kept while jobs come and go -----------------------------------------------------


class RankedQueue(Sequence[JobSpec]):
    """The waiting jobs by ``key``; those with the same one stand as in the queue."""

    def __init__(self, key: QueueKey, jobs: Mapping[int, TrackedJob]) -> None:
        self._key = key
        self._jobs = jobs
        self._lines: dict[Need, WaitingIndex] = {}
        ranked = sorted([((key(job.spec), job.place), job.spec) for job in jobs.values()], key=lambda pair: pair[0])
        self._ranks = [rank for rank, _ in ranked]
        self._specs = [spec for _, spec in ranked]
        self._rank_of: dict[int, tuple[Any, int]] = {spec.job_id: rank for rank, spec in ranked}

    def __len__(self) -> int:
        return len(self._specs)

    def __iter__(self) -> Iterator[JobSpec]:
        return iter(self._specs)

    @overload
    def __getitem__(self, index: int) -> JobSpec: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[JobSpec]: ...
    def __getitem__(self, index: int | slice) -> JobSpec | Sequence[JobSpec]:
        return self._specs[index]

    def add(self, spec: JobSpec) -> None:
        """Add a job, if it is not there."""
        job_id = spec.job_id
        if job_id in self._rank_of:
            return
        rank = self._rank_of[job_id] = self._key(spec), self._jobs[job_id].place
        position = bisect_left(self._ranks, rank)
        behind = self._specs[position - 1].job_id if position else None
        self._ranks.insert(position, rank)
        self._specs.insert(position, spec)
        for line in self._lines.values():
            line.insert(spec, behind)

    def remove(self, job_id: int) -> None:
        """Take a job out, if it is there."""
        if (rank := self._rank_of.pop(job_id, None)) is None:
            return
        position = bisect_left(self._ranks, rank)
        del self._ranks[position], self._specs[position]
        for line in self._lines.values():
            line.remove(job_id)

    def line(self, need: Need, total_nodes: int, walltime_s: Callable[[JobSpec, int], float]) -> IndexedLine:
        """Begin a walk; see ``ClusterView.line``."""
        if (index := self._lines.get(need)) is None:
            if len(self._lines) == _MOST_KEPT:
                del self._lines[next(iter(self._lines))]
            index = self._lines[need] = WaitingIndex(need, self._specs, walltime_s)
        return index.walk(total_nodes)


class QueueByUser(RankedQueue):
    """The waiting jobs by a key of their users' accuracies, of which most changes leave the key as it is."""

    def __init__(
        self, key: UserKey, jobs: Mapping[int, TrackedJob], accuracy: Mapping[str, float], age_s: float
    ) -> None:
        self._known: dict[str, Any] = {}
        self._of_user = key
        self._accuracy = accuracy
        self._age_s = age_s
        super().__init__(self._by_user, jobs)

    def _by_user(self, spec: JobSpec) -> Any:
        user = spec.user
        if user not in self._known:
            self._known[user] = self._of_user(self._accuracy.get(user))
        return aged(self._known[user], spec, self._age_s)

    def learn(self, user: str) -> None:
        """Give the user's jobs other places if the user's accuracy has changed so much."""
        if user in self._known and self._known[user] != self._of_user(self._accuracy.get(user)):
            specs = [spec for spec in self._specs if spec.user == user]
            for spec in specs:
                self.remove(spec.job_id)
            del self._known[user]
            for spec in specs:
                self.add(spec)


# All indices of a view ------------------------------------------------------------------------------------------------

_Kept = TypeVar("_Kept")
_MOST_KEPT: Final = 8
"""The most indices of a kind that are kept. Policies ask with fewer keys, unless they make new ones in each pass."""


class Lookups:
    """Indices of the running and of the waiting jobs, each made when a policy first asks for it."""

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
        self._by_user: dict[tuple[UserKey, float], QueueByUser] = {}
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
            total = _keep(self._totals, measure, _Total(measure, self.running), self._indices)
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
            index = _keep(self._lines, need, WaitingIndex(need, self.queue, walltime_s), self._queues)
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
            queue = _keep(self._ranked, key, RankedQueue(key, self.queue.jobs), self._queues)
        return queue

    def queue_by_user(self, key: UserKey, age_s: float, accuracy: Mapping[str, float]) -> RankedQueue:
        """The waiting jobs in the order of a key of their users, whose accuracies change."""
        if self._stale:
            self.follow()
        if (queue := self._by_user.get((key, age_s))) is None:
            made = QueueByUser(key, self.queue.jobs, accuracy, age_s)
            queue = _keep(self._by_user, (key, age_s), made, self._queues)
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
            found = make()
            for job in self.running:
                found.put(job.spec.job_id, job)
            _keep(self._kept, make, found, self._indices)
        return found

    def _order(self, key: Key) -> _Order:
        if (order := self._orders.get(key)) is None:
            order = _keep(self._orders, key, _Order(key, self.running), self._indices)
        return order


def _keep(kept: dict[Any, _Kept], key: object, index: _Kept, following: list[Any]) -> _Kept:
    """Let an index follow from now on; if there are too many of its kind, the one that was made first goes.

    Without that, a policy whose key is a new function in each pass would leave an index behind in each, and all of them
    would follow every change.
    """
    if len(kept) == _MOST_KEPT:
        following.remove(kept.pop(next(iter(kept))))
    kept[key] = index
    following.append(index)
    return index


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
    """Running jobs, sorted by a key and by id."""

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
        return self.jobs[bisect_right(self._ranks, (limit, math.inf)) :]


class _Total:
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
