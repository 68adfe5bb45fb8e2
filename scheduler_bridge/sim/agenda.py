"""The events to come of a simulation, by time, and the jobs that are yet to be submitted."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias, TypeVar

from scheduler_bridge.core.events import Event, JobEnded
from scheduler_bridge.sim.jobs import Change, Release, Run, Simulated, Wish

Occurrence: TypeAlias = Event | Change | Wish | Release
_T = TypeVar("_T")

_FEW: Final = 1000
"""With fewer entries, outdated ones are not worth looking for."""


class Agenda:
    """What is to happen, the earliest first, in the order in which it was entered.

    Each change of a job's speed outdates what was predicted for it. Outdated entries never come up, and are thrown away
    before they are most of all: where jobs are resized often, they would take more memory than all else.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Occurrence, Run | None, int]] = []
        self._serial = 0
        self._most = _FEW

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, time_s: float, what: Occurrence, run: Run | None) -> None:
        """Let ``what`` happen at ``time_s``, unless the job's speed changes before if it is a prediction."""
        self._serial += 1
        heapq.heappush(self._heap, (time_s, self._serial, what, run, run.version if run else 0))
        if len(self._heap) > self._most:
            self._heap = [
                entry for entry in self._heap if (run := entry[3]) is None or not _is_outdated(entry[2], run, entry[4])
            ]
            heapq.heapify(self._heap)
            self._most = max(_FEW, 2 * len(self._heap))

    def next_s(self) -> float:
        """When the next thing happens; infinite if there is none."""
        heap = self._heap
        while heap:
            time_s, _, what, run, version = heap[0]
            if run is None or not _is_outdated(what, run, version):
                return time_s
            heapq.heappop(heap)
        return math.inf

    def pop(self, by_s: float) -> tuple[float, Occurrence, Run | None] | None:
        """Take out the next thing, and say when it happens; None if that is later than ``by_s``."""
        heap = self._heap
        while heap and heap[0][0] <= by_s:
            time_s, _, what, run, version = heapq.heappop(heap)
            if run is None or not _is_outdated(what, run, version):
                return time_s, what, run
        return None


class Submissions:
    """Jobs in the order of submission, and of one instant in that of their ids; none comes after another one.

    Args:
        jobs: They. Where each is made when it is its turn, those to come take no memory.
        prompt: None of them starts with a delay.

    Attributes:
        next_s: When the next one is submitted; infinite if there is none.
    """

    def __init__(self, jobs: Iterable[Simulated], *, prompt: bool) -> None:
        self.prompt = prompt
        self._jobs = iter(jobs)
        self._next: Simulated | None = next(self._jobs, None)
        self.next_s = math.inf if self._next is None else self._next[0].submit_s

    def pop(self) -> Simulated:
        """Take the next one.

        Raises:
            ValueError: There is none, or the one after it is submitted before it.
        """
        taken = self._next
        if taken is None:
            raise ValueError("all jobs are submitted")
        self._next = next(self._jobs, None)
        self.next_s = math.inf if self._next is None else self._next[0].submit_s
        if self.next_s < taken[0].submit_s:
            raise ValueError(f"job {taken[0].job_id} comes before one that is submitted earlier, at {self.next_s} s")
        return taken


def taken(line: deque[_T]) -> Iterator[_T]:
    """Take everything out of ``line``, one after the other."""
    while line:
        yield line.popleft()


def _is_outdated(what: Occurrence, run: Run, version: int) -> bool:
    return run.over or (version != run.version and isinstance(what, JobEnded | Wish))


class HeldBack:
    """Jobs that come after others, which are held back until these have ended, as by the live scheduler.

    Args:
        jobs: All jobs, in the order of submission.

    Attributes:
        free: Those that come after no other.
        kept: Those that still wait for others, by id.

    Raises:
        ValueError: A job comes after one that there is not, or two have the same id.
    """

    def __init__(self, jobs: Iterable[Simulated]) -> None:
        self.free: deque[Simulated] = deque()
        self.kept: dict[int, Simulated] = {}
        self._missing: dict[int, set[int]] = {}
        self._followers: dict[int, list[int]] = {}
        there = set()
        for simulated in jobs:
            job = simulated[0]
            if job.job_id in there:
                raise ValueError(f"two jobs have the id {job.job_id}")
            there.add(job.job_id)
            before = set(job.comes_after)
            if not before:
                self.free.append(simulated)
                continue
            self.kept[job.job_id], self._missing[job.job_id] = simulated, before
            for other in before:
                self._followers.setdefault(other, []).append(job.job_id)
        if unknown := self._followers.keys() - there:
            other = min(unknown)
            raise ValueError(f"job {self._followers[other][0]} comes after job {other}, which there is not")

    def ended(self, job_id: int, *, completed: bool, now: float) -> Iterator[tuple[float, Release]]:
        """A job has ended: yield when which jobs are submitted, and why they are cancelled at once, if they are."""
        for follower in self._followers.pop(job_id, ()):
            if follower not in self.kept:
                continue  # it has no hope any more
            job, dynamics = self.kept[follower]
            self._missing[follower].discard(job_id)
            if not completed and job_id in job.after_ok:
                del self.kept[follower]
                yield max(job.submit_s, now), Release(job, dynamics, f"job {job_id} did not complete")
            elif not self._missing[follower]:
                del self.kept[follower]
                yield max(job.submit_s, now + job.think_s), Release(job, dynamics, "")
