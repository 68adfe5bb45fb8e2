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
"""So many are looked at one by one, more of them in blocks."""
_BLOCK_JOBS: Final = 32

_STEPS: Final = 48
"""So many steps make a block when it is new; one with twice as many is divided."""


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
            wanted: So many nodes are looked for.
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


class _Block:
    """Some steps, one after the other.

    Attributes:
        times: When they begin, in seconds.
        levels: The free nodes, less ``base``.
        base: Free nodes in all of them.
        least: The lowest of the levels.
        most: The highest.
    """

    __slots__ = ("base", "least", "levels", "most", "times")

    def __init__(self, times: list[float], levels: list[int], base: int = 0) -> None:
        self.times = times
        self.levels = levels
        self.base = base
        self.least = min(levels)
        self.most = max(levels)

    def measure(self) -> None:
        """Find the lowest and the highest level after some have changed."""
        self.least, self.most = min(self.levels), max(self.levels)

    def part(self, start_s: float, end_s: float) -> tuple[int, int]:
        """The positions of the steps that this time has a part in, at least one."""
        first = max(0, bisect_right(self.times, start_s) - 1)
        return first, max(first + 1, bisect_left(self.times, end_s, first))

    def take(self, first: int, behind: int, nodes: int) -> int:
        """Take nodes in some steps; return the fewest that are left there."""
        changed = [level - nodes for level in self.levels[first:behind]]
        self.levels[first:behind] = changed
        self.measure()
        return self.base + min(changed)


class Profile:
    """A step function from time to free nodes, from some time on.

    The steps stand in blocks, so that what concerns many of them costs as much as there are blocks.

    Args:
        now: Where it begins, in seconds.
        free: Nodes free at ``now``.
        releases: When (seconds) which number of nodes comes free.
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
        times, levels = list(steps), list(steps.values())
        self._begins = times[::_STEPS]  # of the blocks
        self._blocks = [_Block(times[i : i + _STEPS], levels[i : i + _STEPS]) for i in range(0, len(times), _STEPS)]

    @property
    def in_the_end(self) -> int:
        """The nodes that are free for ever after some time."""
        block = self._blocks[-1]
        return block.base + block.levels[-1]

    def forget(self, now: float) -> None:
        """Let it begin at ``now``, not before its beginning."""
        if (blocks := self._block(now)) > 0:
            del self._blocks[:blocks], self._begins[:blocks]
        block = self._blocks[0]
        if (steps := bisect_right(block.times, now) - 1) > 0:
            del block.times[:steps], block.levels[:steps]
            block.measure()
        block.times[0] = self._begins[0] = now

    def raise_by(self, nodes: int) -> None:
        """Let so many more nodes be free, always; a negative number makes them fewer."""
        for block in self._blocks:
            block.base += nodes

    def room(self, start_s: float, end_s: float) -> int:
        """The nodes that are free all the time from ``start_s`` (not before the beginning) to ``end_s``."""
        return min(self._levels(start_s, end_s))

    def most(self, start_s: float, end_s: float) -> int:
        """The most nodes that are free at some time from ``start_s`` (not before the beginning) to ``end_s``."""
        return max(self._levels(start_s, end_s))

    def _levels(self, start_s: float, end_s: float) -> list[int]:
        """The fewest and the most free nodes in each block, of the steps that this time has a part in."""
        first_block = self._block(start_s)
        found = []
        for block in self._blocks[first_block : max(first_block + 1, bisect_left(self._begins, end_s))]:
            first, behind = block.part(start_s, end_s)
            if behind - first == len(block.times):
                found += [block.base + block.least, block.base + block.most]
            else:
                levels = block.levels[first:behind]
                found += [block.base + min(levels), block.base + max(levels)]
        return found

    def earliest(self, nodes: int, duration_s: float, from_s: float = -math.inf) -> float:
        """The earliest time from which ``nodes`` nodes are free for ``duration_s``; infinite if there is none.

        Args:
            nodes: How many.
            duration_s: How long, in seconds.
            from_s: It is known that there is none before.
        """
        begin_s = self._next(nodes, from_s, free=True)
        while begin_s < math.inf:
            end_s = self._next(nodes, begin_s, free=False)
            if begin_s + duration_s <= end_s:
                break
            begin_s = self._next(nodes, end_s, free=True)
        return begin_s

    def sooner(self, nodes: int, duration_s: float, from_s: float, start_s: float) -> float:
        """The earliest time at which a job could start that is promised ``nodes`` nodes from ``start_s`` on.

        Its own nodes are not free from then on, so that they need to be free until then only.

        Args:
            nodes: How many.
            duration_s: How long the job takes, in seconds.
            from_s: It is known that it cannot start before.
            start_s: Its promised start.

        Returns:
            The time, before ``start_s``; infinite if there is none.
        """
        begin_s = self._next(nodes, from_s, free=True)
        while begin_s < start_s:
            end_s = self._next(nodes, begin_s, free=False)
            if end_s >= min(begin_s + duration_s, start_s):
                return begin_s
            begin_s = self._next(nodes, end_s, free=True)
        return math.inf

    def since(self, nodes: int, time_s: float) -> float:
        """Since when ``nodes`` nodes are free without a break up to ``time_s``; infinite: just before they are not."""
        begin_s = math.inf
        index = bisect_left(self._begins, time_s) - 1
        while index >= 0:
            block = self._blocks[index]
            level = nodes - block.base
            if block.least < level:
                levels, times = block.levels, block.times
                step = bisect_left(times, time_s) - 1 if begin_s == math.inf else len(times) - 1
                while step >= 0:
                    if levels[step] < level:
                        return begin_s
                    begin_s = times[step]
                    step -= 1
            begin_s = block.times[0]
            index -= 1
        return begin_s

    def around(self, start_s: float, end_s: float) -> list[Span]:
        """How far nodes are free without a break around a time at most, for 1, 2, 4, 8 and so on of them.

        Args:
            start_s: When that time begins, not before the beginning of the profile; in seconds.
            end_s: When it ends, later.

        Returns:
            Since when and until when so many are free, if they are from ``start_s`` to ``end_s``; up to the highest
            power of two of which as many are free at some time between.
        """
        found = list[Span]()
        for power in reversed(range(max(0, self.most(start_s, end_s)).bit_length())):
            start_s = min(start_s, self.since(1 << power, start_s))
            end_s = max(end_s, self._next(1 << power, end_s, free=False))
            found.append((start_s, end_s))
        return found[::-1]

    def _next(self, nodes: int, from_s: float, *, free: bool) -> float:
        """When the first step begins that has not ended by ``from_s``, and has ``nodes`` nodes free, or has not."""
        blocks = self._blocks
        index = self._block(from_s)
        step = max(0, bisect_right(blocks[index].times, from_s) - 1)
        while index < len(blocks):
            block = blocks[index]
            level = nodes - block.base
            if block.most >= level if free else block.least < level:
                levels = block.levels
                while step < len(levels):
                    if (levels[step] >= level) == free:
                        return block.times[step]
                    step += 1
            index, step = index + 1, 0
        return math.inf

    def take(self, start_s: float, end_s: float, nodes: int) -> int:
        """Take ``nodes`` nodes from ``start_s`` to ``end_s``; a negative number gives them back.

        What lies before the beginning does not count.

        Returns:
            The nodes that are free all the time then, as ``room`` says.
        """
        start_s = max(start_s, self._begins[0])
        if end_s <= start_s:
            return self.room(start_s, start_s)
        index = self._block(start_s)
        if self._begins[index] < start_s and (index + 1 == len(self._begins) or end_s < self._begins[index + 1]):
            return self._take_within(index, start_s, end_s, nodes)
        self._divide(start_s)
        self._divide(end_s)
        blocks = self._blocks[self._block(start_s) : bisect_left(self._begins, end_s)]
        rooms = []
        for position, block in enumerate(blocks):
            first, behind = 0, len(block.times)
            if position == 0 or position == len(blocks) - 1:
                first, behind = block.part(start_s, end_s)
            if behind - first < len(block.times):
                rooms.append(block.take(first, behind, nodes))
            else:
                block.base -= nodes
                rooms.append(block.base + block.least)
        self._join(end_s)
        self._join(start_s)
        return min(rooms)

    def _take_within(self, index: int, start_s: float, end_s: float, nodes: int) -> int:
        """Do so behind the beginning of a block and before its end, as mostly."""
        block = self._blocks[index]
        times, levels = block.times, block.levels
        first = bisect_left(times, start_s)
        if first == len(times) or times[first] != start_s:
            times.insert(first, start_s)
            levels.insert(first, levels[first - 1])
        behind = bisect_left(times, end_s, first)
        if behind == len(times) or times[behind] != end_s:
            times.insert(behind, end_s)
            levels.insert(behind, levels[behind - 1])
        changed = [level - nodes for level in levels[first:behind]]
        levels[first:behind] = changed
        if changed[-1] == levels[behind]:
            del times[behind], levels[behind]
        if changed[0] == levels[first - 1]:
            del times[first], levels[first]
        if len(times) >= 2 * _STEPS:
            self._halve(index)
        else:
            block.measure()
        return block.base + min(changed)

    def _block(self, time_s: float) -> int:
        """The position of the block that has this time; of the first one for the time before."""
        return max(0, bisect_right(self._begins, time_s) - 1)

    def _divide(self, time_s: float) -> None:
        """Let a step begin at ``time_s``."""
        index = self._block(time_s)
        block = self._blocks[index]
        position = bisect_left(block.times, time_s)
        if position < len(block.times) and block.times[position] == time_s:
            return
        block.times.insert(position, time_s)
        block.levels.insert(position, block.levels[position - 1])
        if len(block.times) >= 2 * _STEPS:
            self._halve(index)

    def _halve(self, index: int) -> None:
        """Make two blocks of one."""
        block = self._blocks[index]
        behind = _Block(block.times[_STEPS:], block.levels[_STEPS:], block.base)
        del block.times[_STEPS:], block.levels[_STEPS:]
        block.measure()
        self._blocks.insert(index + 1, behind)
        self._begins.insert(index + 1, behind.times[0])

    def _join(self, time_s: float) -> None:
        """Let no step begin at ``time_s``, where one does, if as many nodes are free before."""
        index = self._block(time_s)
        block = self._blocks[index]
        position = bisect_left(block.times, time_s)
        level = block.base + block.levels[position]
        if position > 0:
            if block.base + block.levels[position - 1] == level:
                del block.times[position], block.levels[position]
        elif index > 0 and self._blocks[index - 1].base + self._blocks[index - 1].levels[-1] == level:
            del block.times[0], block.levels[0]
            if block.times:
                block.measure()
                self._begins[index] = block.times[0]
            else:
                del self._blocks[index], self._begins[index]
