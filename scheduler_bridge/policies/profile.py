"""How many nodes are free from which time on, if every walltime and every reservation holds."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate


class Profile:
    """A step function from time to free nodes, from ``now`` on.

    Args:
        now: Where it begins, in seconds.
        free: Nodes free at ``now``.
        releases: When (seconds) which number of nodes comes free.
    """

    def __init__(self, now: float, free: int, releases: Iterable[tuple[float, int]]) -> None:
        ordered = sorted(releases)
        sums = accumulate([nodes for _, nodes in ordered], initial=free)
        # of the sums at one instant, the last one stays
        steps = dict(zip([now, *[max(now, time_s) for time_s, _ in ordered]], sums, strict=True))
        self._times = list(steps)
        self._free = list(steps.values())
        self._since: dict[int, float] = {}  # when so many nodes are first free, at the earliest, however shortly

    def room(self, start_s: float, end_s: float) -> int:
        """The nodes that are free all the time from ``start_s`` (not before the beginning) to ``end_s``."""
        first = bisect_right(self._times, start_s) - 1
        return min(self._free[first : max(first + 1, bisect_left(self._times, end_s))])

    def earliest(self, nodes: int, duration_s: float) -> float:
        """The earliest time from which ``nodes`` nodes are free for ``duration_s``; infinite if there is none."""
        times, free = self._times, self._free
        steps, known_s = len(free), self._since.get(nodes)
        index = 0 if known_s is None else bisect_left(times, known_s)
        while index < steps:
            if free[index] < nodes:
                index += 1
                continue
            start_s = times[index]
            if known_s is None:
                known_s = self._since[nodes] = start_s
            end_s = start_s + duration_s
            index += 1
            while index < steps and times[index] < end_s and free[index] >= nodes:
                index += 1
            if index == steps or times[index] >= end_s:
                return start_s
        return math.inf

    def take(self, start_s: float, end_s: float, nodes: int) -> int:
        """Take ``nodes`` nodes from ``start_s`` to ``end_s``; a negative number gives them back.

        Returns:
            The nodes that are free all the time then, as ``room`` says.
        """
        if nodes < 0:
            self._since.clear()
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
