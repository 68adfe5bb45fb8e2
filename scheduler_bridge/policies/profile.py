"""How many nodes are free from which time on, if every walltime and every reservation holds."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate

from scheduler_bridge.model import RunningJob


class Endings:
    """When running jobs are expected to end, and how many of their nodes come free then, in parallel: an index.

    Attributes:
        times_s: The times, in order, in seconds.
        nodes: The nodes.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, int]] = {}
        self.times_s: list[float] = []
        self.nodes: list[int] = []

    def put(self, job_id: int, job: RunningJob | None) -> None:
        """Enter the job as it is now, or leave it out."""
        entry = None if job is None else (job.expected_end_s, job.nodes - job.kept_nodes)
        before = self._known.get(job_id)
        if entry == before:
            return
        if before is not None:
            position = self.nodes.index(before[1], bisect_left(self.times_s, before[0]))
            del self.times_s[position], self.nodes[position], self._known[job_id]
        if entry is not None:
            position = bisect_left(self.times_s, entry[0])
            self.times_s.insert(position, entry[0])
            self.nodes.insert(position, entry[1])
            self._known[job_id] = entry


class Profile:
    """A step function from time to free nodes, from ``now`` on.

    Args:
        now: Where it begins, in seconds.
        free: Nodes free at ``now``.
        releases: When (seconds) which number of nodes comes free.
    """

    def __init__(self, now: float, free: int, releases: Iterable[tuple[float, int]] | Endings) -> None:
        if not isinstance(releases, Endings):
            ordered = sorted(releases)
            times_s, nodes = [time_s for time_s, _ in ordered], [nodes for _, nodes in ordered]
        else:
            times_s, nodes = releases.times_s, releases.nodes
        overdue = bisect_right(times_s, now)
        sums = accumulate(nodes[overdue:], initial=free + sum(nodes[:overdue]))
        # of the sums at one instant, the last one stays
        steps = dict(zip([now, *times_s[overdue:]], sums, strict=True))
        self._times = list(steps)
        self._free = list(steps.values())
        self._since: dict[int, float] = {}  # so many nodes are not free before

    def room(self, start_s: float, end_s: float) -> int:
        """The nodes that are free all the time from ``start_s`` (not before the beginning) to ``end_s``."""
        first = bisect_right(self._times, start_s) - 1
        return min(self._free[first : max(first + 1, bisect_left(self._times, end_s))])

    def earliest(self, nodes: int, duration_s: float) -> float:
        """The earliest time from which ``nodes`` nodes are free for ``duration_s``; infinite if there is none."""
        times, free = self._times, self._free
        index = self._first(nodes)
        while index < len(free):
            behind = bisect_left(times, times[index] + duration_s, index + 1)
            if min(free[index:behind]) >= nodes:
                return times[index]
            index = behind - 1
            while free[index] >= nodes:  # who starts before the last step with too few nodes meets it, too
                index -= 1
            index += 1
            while index < len(free) and free[index] < nodes:
                index += 1
        return math.inf

    def first(self, nodes: int) -> float:
        """When ``nodes`` nodes are free for the first time, however shortly; infinite if they never are."""
        index = self._first(nodes)
        return self._times[index] if index < len(self._times) else math.inf

    def _first(self, nodes: int) -> int:
        times, free = self._times, self._free
        known_s = self._since.get(nodes)
        index, steps = 0 if known_s is None else bisect_left(times, known_s), len(free)
        while index < steps and free[index] < nodes:
            index += 1
        self._since[nodes] = times[index] if index < steps else math.inf
        return index

    def take(self, start_s: float, end_s: float, nodes: int) -> int:
        """Take ``nodes`` nodes from ``start_s`` to ``end_s``; a negative number gives them back.

        Returns:
            The nodes that are free all the time then, as ``room`` says.
        """
        if nodes < 0:
            for size, since_s in self._since.items():
                if since_s > start_s:
                    self._since[size] = start_s
        first = self._step(start_s, 0)
        behind = self._step(end_s, first)
        left = [free - nodes for free in self._free[first:behind]]
        self._free[first:behind] = left
        return min(left) if left else self._free[first]

    def _step(self, time_s: float, first: int) -> int:
        """The position of the step, not before ``first``, that begins at ``time_s``; makes one if there is none."""
        times = self._times
        index = bisect_left(times, time_s, first)
        if index == len(times) or times[index] != time_s:
            times.insert(index, time_s)
            self._free.insert(index, self._free[index - 1])
        return index
