"""The waiting jobs in an order of a policy's, kept while jobs come and go."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

from scheduler_bridge.core.tracked import TrackedJob
from scheduler_bridge.core.waiting import IndexedLine, WaitingIndex
from scheduler_bridge.model import JobSpec, Need, QueueKey, UserKey


class RankedQueue(Sequence[JobSpec]):
    """The waiting jobs by ``key``; those with the same one stand as in the queue.

    Args:
        key: What they are sorted by, smallest first.
        jobs: All waiting jobs, by id.
    """

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
            index = self._lines[need] = WaitingIndex(need, self._specs, walltime_s)
        return index.walk(total_nodes)


class QueueByUser(RankedQueue):
    """The waiting jobs by a key of their users' accuracies, of which most changes leave the key as it is.

    Args:
        key: What the users are sorted by, smallest first.
        jobs: All waiting jobs, by id.
        accuracy: The users' accuracies, which change.
    """

    def __init__(self, key: UserKey, jobs: Mapping[int, TrackedJob], accuracy: Mapping[str, float]) -> None:
        self._known: dict[str, Any] = {}
        self._of_user = key
        self._accuracy = accuracy
        super().__init__(self._by_user, jobs)

    def _by_user(self, spec: JobSpec) -> Any:
        user = spec.user
        if user not in self._known:
            self._known[user] = self._of_user(self._accuracy.get(user))
        return self._known[user]

    def learn(self, user: str) -> None:
        """Give the user's jobs other places if the user's accuracy has changed so much."""
        if user in self._known and self._known[user] != self._of_user(self._accuracy.get(user)):
            specs = [spec for spec in self._specs if spec.user == user]
            for spec in specs:
                self.remove(spec.job_id)
            del self._known[user]
            for spec in specs:
                self.add(spec)
