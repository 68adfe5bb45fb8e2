"""What is to happen, by time."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias, TypeVar

from scheduler_bridge.core.events import Event, JobEnded
from scheduler_bridge.sim.models import SimJob
from scheduler_bridge.sim.running import Change, Release, Run, Wish

What: TypeAlias = Event | Change | Wish | Release
_T = TypeVar("_T")

_FEW: Final = 1000
"""Below so many entries nobody cares how many of them are outdated."""


class Agenda:
    """What is to happen, the earliest first, in the order in which it was entered.

    Each change of a job's speed outdates what was predicted for it. Outdated entries never come up, and are thrown away
    before they are most of all: where jobs are resized often, they would take more memory than all else.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, What, Run | None, int]] = []
        self._serial = 0
        self._most = _FEW

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, time_s: float, what: What, run: Run | None) -> None:
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

    def pop(self, by_s: float) -> tuple[float, What, Run | None] | None:
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

    def __init__(self, jobs: Iterable[SimJob], *, prompt: bool) -> None:
        self.prompt = prompt
        self._jobs = iter(jobs)
        self._next: SimJob | None = next(self._jobs, None)
        self.next_s = math.inf if self._next is None else self._next.spec.submit_s

    def pop(self) -> SimJob:
        """Take the next one.

        Raises:
            ValueError: There is none, or the one after it is submitted before it.
        """
        sim = self._next
        if sim is None:
            raise ValueError("all jobs are submitted")
        self._next = next(self._jobs, None)
        self.next_s = math.inf if self._next is None else self._next.spec.submit_s
        if self.next_s < sim.spec.submit_s:
            raise ValueError(f"job {sim.spec.job_id} comes before one that is submitted earlier, at {self.next_s} s")
        return sim


def taken(line: deque[_T]) -> Iterator[_T]:
    """Take everything out of ``line``, one after the other."""
    while line:
        yield line.popleft()


def _is_outdated(what: What, run: Run, version: int) -> bool:
    return run.over or (version != run.version and isinstance(what, JobEnded | Wish))
