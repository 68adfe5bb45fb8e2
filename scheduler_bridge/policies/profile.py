"""How many nodes are free from which time on, if every walltime and every reservation holds."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, islice
from typing import Final, TypeAlias

from scheduler_bridge.model import RunningJob

Span: TypeAlias = tuple[float, float]
"""From when until when, in seconds."""
MANY_JOBS: Final = 128
"""Up to this number they are looked at one by one, more of them in blocks."""
_BLOCK_JOBS: Final = 32

_ENOUGH: Final = 1 << 60
_NEVER: Final = -_ENOUGH


class Endings:
    """When running jobs are expected to end, and how many of their nodes come free then, in parallel: an index.

    Args:
        left: The nodes of a job that do, not below 0; None: the job is left out.

    Attributes:
        times_s: The times, in order, in seconds.
        nodes: The nodes.
    """

    def __init__(self, left: Callable[[RunningJob], int | None]) -> None:
        self._left = left
        self._known: dict[int, tuple[float, int]] = {}
        self.times_s: list[float] = []
        self.nodes: list[int] = []

    def put(self, job_id: int, job: RunningJob | None) -> None:
        """Enter the job as it is now, or leave it out."""
        before = self._known.get(job_id)
        if job is None and before is None:  # as mostly: it waits
            return
        nodes = None if job is None else self._left(job)
        entry = None if job is None or nodes is None else (job.expected_end_s, nodes)
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

    def releases(self, wanted: int, free: int, before_s: float) -> tuple[int, Iterator[tuple[float, int]]]:
        """The times and nodes, but those of whole blocks of jobs after which fewer than ``wanted`` nodes are free.

        Args:
            wanted: How many nodes are looked for.
            free: Nodes that are free anyway.
            before_s: Jobs that end later are not passed over.

        Returns:
            The nodes that are free after the jobs passed over; the times and nodes of the others, in order.
        """
        times_s, nodes, passed = self.times_s, self.nodes, 0
        for behind in range(_BLOCK_JOBS, len(nodes) + 1, _BLOCK_JOBS):
            then = free + sum(nodes[passed:behind])
            if then >= wanted or times_s[behind - 1] >= before_s:
                break
            passed, free = behind, then
        return free, zip(islice(times_s, passed, None), islice(nodes, passed, None), strict=True)


class Profile:
    """A step function from time to free nodes, from some time on.

    A search looks at one step after the other; what is taken changes the steps of its time and at most two more. Behind
    the last step stand two that end every search: one at which any number of nodes is free, and one at which none is.
    """

    def __init__(self, now: float, free: int, releases: Iterable[tuple[float, int]] | Endings = ()) -> None:
        if not isinstance(releases, Endings):
            ordered = sorted(releases)
            times_s, nodes = [time_s for time_s, _ in ordered], [nodes for _, nodes in ordered]
        else:
            times_s, nodes = releases.times_s, releases.nodes
        overdue = bisect_right(times_s, now)
        sums = accumulate(nodes[overdue:], initial=free + sum(nodes[:overdue]))
        # of the sums at one instant, the last one stays
        steps = dict(zip([now, *times_s[overdue:]], sums, strict=True))
        self._times = [*steps, math.inf, math.inf]
        self._levels = [*steps.values(), _ENOUGH, _NEVER]

    @property
    def in_the_end(self) -> int:
        """The nodes that are free for ever after some time."""
        return self._levels[-3]

    def forget(self, now: float) -> None:
        """Let it begin at ``now``, not before its beginning."""
        steps = bisect_right(self._times, now) - 1
        del self._times[:steps], self._levels[:steps]
        self._times[0] = now

    def raise_by(self, nodes: int) -> None:
        """Let this number of nodes more be free, always; a negative number makes them fewer."""
        self._levels[:-2] = [level + nodes for level in self._levels[:-2]]

    def room(self, start_s: float, end_s: float) -> int:
        """The nodes that are free all the time from ``start_s`` (not before the beginning) to ``end_s``."""
        first = self._at(start_s)
        return min(self._levels[first : max(first + 1, bisect_left(self._times, end_s, first))])

    def earliest(self, nodes: int, duration_s: float, from_s: float = -math.inf, until_s: float = math.inf) -> float:
        """The earliest time from which ``nodes`` nodes are free for ``duration_s``, or up to ``until_s``.

        Args:
            nodes: How many.
            duration_s: How long, in seconds.
            from_s: It is known that there is none before.
            until_s: Only a time before is looked for. The nodes may be taken from then on: a job that is promised them
                from ``until_s`` on looks for an earlier start.

        Returns:
            The time; infinite if there is none.
        """
        times, levels, step = self._times, self._levels, self._at(from_s)
        while True:
            while levels[step] < nodes:
                step += 1
            begin_s = times[step]
            if begin_s >= until_s:
                return math.inf
            end_s = min(begin_s + duration_s, until_s)
            while levels[step] >= nodes:
                step += 1
                if times[step] >= end_s:
                    return begin_s

    def since(self, nodes: int, time_s: float) -> float:
        """Since when ``nodes`` nodes are free without a break up to ``time_s``; infinite: just before they are not."""
        levels = self._levels
        step = before = bisect_left(self._times, time_s)
        while levels[step - 1] >= nodes:
            step -= 1
        return self._times[step] if step < before else math.inf

    def around(self, start_s: float, end_s: float, more_than: int) -> list[tuple[int, float, float]]:
        """How far which number of nodes is free without a break around the steps that a time has a part in, at most.

        Args:
            start_s: When that time begins, not before the beginning of the profile; in seconds.
            end_s: When it ends, later.
            more_than: Only more nodes than that count.

        Returns:
            The most nodes that are free in one of these steps, and since when and until when they are if they are in
            all of them; then likewise fewer nodes, each time the most that are free longer.
        """
        times, levels = self._times, self._levels
        first = self._at(start_s)
        behind = max(first + 1, bisect_left(times, end_s, first))
        level, found = max(levels[first:behind]), list[tuple[int, float, float]]()
        while level > more_than:
            while levels[first - 1] >= level:
                first -= 1
            while levels[behind] >= level:
                behind += 1
            found.append((level, times[first], times[behind]))
            level = max(levels[first - 1], levels[behind])
        return found

    def take(self, start_s: float, end_s: float, nodes: int) -> int:
        """Take ``nodes`` nodes from ``start_s`` to ``end_s``; a negative number gives them back.

        What lies before the beginning does not count.

        Returns:
            The nodes that are free all the time then, as ``room`` says.
        """
        times, levels = self._times, self._levels
        if start_s < times[0]:
            start_s = times[0]
        if end_s <= start_s:
            return self.room(start_s, start_s)
        first = bisect_left(times, start_s)
        if times[first] != start_s:
            times.insert(first, start_s)
            levels.insert(first, levels[first - 1])
        behind = bisect_left(times, end_s, first)
        if times[behind] != end_s:
            times.insert(behind, end_s)
            levels.insert(behind, levels[behind - 1])
        least = _ENOUGH
        for step in range(first, behind):
            level = levels[step] = levels[step] - nodes
            if level < least:
                least = level
        if levels[behind - 1] == levels[behind]:
            del times[behind], levels[behind]
        if levels[first - 1] == levels[first]:
            del times[first], levels[first]
        return least

    def _at(self, time_s: float) -> int:
        """The position of the step that has this time; of the first one for the time before."""
        return max(0, bisect_right(self._times, time_s) - 1)
