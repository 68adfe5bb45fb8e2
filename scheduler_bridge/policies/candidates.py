"""Which waiting jobs may start earlier than they are promised, after nodes have come free."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from operator import attrgetter, or_
from typing import Final

from scheduler_bridge.model import JobSpec
from scheduler_bridge.policies.profile import Profile

_CLASSES: Final = 100
"""Of needs and of lengths, four from one power of two to the next."""
_MOST: Final = 2.0 ** (_CLASSES / 4)
_PART: Final = 4
_PARTS: Final = 256
"""Jobs are told from each other by their starts in parts of so many; more where there would be more parts."""
_ROUNDING_S: Final = 1e-3
"""Sums of times are off by less."""
_START: Final = attrgetter("start_s")


class Slot:
    """A waiting job and what is promised to it.

    Attributes:
        spec: The job.
        need: The nodes that it needs.
        length_s: How long it may take on them, in seconds.
        start_s: When it is promised them; infinite: nothing is promised.
        bit: The set of this job alone, as ``Candidates`` has it.
    """

    __slots__ = ("bit", "length_s", "need", "spec", "start_s")

    def __init__(self, spec: JobSpec, need: int, length_s: float) -> None:
        self.spec = spec
        self.need = need
        self.length_s = length_s
        self.start_s = math.inf
        self.bit = 0


class Candidates:
    """The waiting jobs that a pass has to consider: no other one can start earlier than it is promised.

    A job that could not start earlier when it was last considered can do so now only if nodes have come free, and only
    in one of two ways. It slides: its nodes are free just before its promised start, and some have come free there. Or
    it jumps: they are free without a break for as long as it takes, by its promised start, and some have come free
    during that. So when nodes come free, two kinds of jobs become candidates: those that are promised a start in that
    time or at its end, and those that begin later and are no longer than some number of nodes, no fewer than they need,
    is free around that time. Those whose turn is over come to it in the next pass.

    A set of jobs is a number with one bit for each, lower ones for those earlier in the queue. Sets are kept for all
    jobs up to some need, and up to some length, so that finding who fits takes a few operations on numbers, however
    many jobs wait. They are a little too large: whether a candidate can start earlier is found in the profile.

    Attributes:
        freed: From when until when (seconds) nodes came free that nobody has looked at, and no more than how many were
            free all that time before.
    """

    def __init__(self) -> None:
        self.freed: list[tuple[float, float, int]] = []
        self._line: list[Slot] = []  # by their bits, also those that wait no more
        self._by_start: list[Slot] = []  # sorted, and what follows made of it, when a pass first needs it
        self._starts_s: list[float] = []
        self._begun: list[int] = []  # the first parts of them, as sets
        self._part = _PART
        self._needs = [0] * _CLASSES
        self._lengths = [0] * _CLASSES
        self._waiting = 0
        self._unpromised = 0
        self._due = 0  # in this pass
        self._coming = 0  # those whose turn it has not been
        self._again = 0  # due in the next pass
        self._placed: list[Slot] = []  # since the starts were sorted
        self._jumping = 0  # may jump, not before the time that follows
        self._jump_s = math.inf
        self._profile = Profile(0.0, 0)
        self._now = -math.inf

    @property
    def is_sparse(self) -> bool:
        """Whether so many jobs have ceased to wait that it is less work to begin anew."""
        return len(self._line) > 2 * len(self._by_start) + _CLASSES

    def add(self, slot: Slot) -> None:
        """Let a job wait, last in the queue, that is promised nothing."""
        slot.bit = 1 << len(self._line)
        self._line.append(slot)
        self._by_start.append(slot)
        self._waiting |= slot.bit
        self._unpromised |= slot.bit
        for sets, key in ((self._needs, slot.need), (self._lengths, slot.length_s)):
            first = _class(key)
            sets[first:] = [jobs | slot.bit for jobs in sets[first:]]

    def remove(self, slot: Slot) -> None:
        """Let a job wait no more."""
        self._by_start.remove(slot)
        self._waiting &= ~slot.bit
        self._unpromised &= ~slot.bit

    def drop(self, slot: Slot) -> None:
        """Consider a job in the next pass, since its promise does not hold, or is for now."""
        self._unpromised |= slot.bit

    def place(self, slot: Slot) -> None:
        """Note that a job has been promised a start."""
        self._unpromised &= ~slot.bit
        self._placed.append(slot)

    def turns(self, profile: Profile, now: float) -> Iterator[Slot]:
        """Return those that a pass has to consider, in the order of the queue, while it goes on.

        Args:
            profile: The nodes that are free, as the pass changes it.
            now: What came free before does not count.
        """
        self._profile, self._now = profile, now
        self._due, self._coming, self._again = self._again | self._unpromised, -1, 0
        for slot in self._placed:
            if profile.since(slot.need, slot.start_s) < math.inf:
                self._due |= slot.bit
        self._due &= self._waiting
        self._placed, self._starts_s = [], []
        self._jumping &= self._waiting
        if not self._jumping:
            self._jump_s = math.inf
        while True:
            for start_s, end_s, before in self.freed:
                if end_s > now:
                    self._open(max(start_s, now), end_s, before)
            self.freed.clear()
            if not (bit := self._due & -self._due):
                break
            self._due ^= bit
            self._coming = -bit << 1
            yield self._line[bit.bit_length() - 1]

    def _open(self, start_s: float, end_s: float, before: int) -> None:
        """Find who may start earlier for the nodes that have come free, more than there were before."""
        if not self._starts_s:
            self._sort()
        starts_s, found, since_s = self._starts_s, 0, start_s
        for nodes, since_s, until_s in self._profile.around(start_s, end_s, before):
            found |= self._needs[_class(nodes)] & self._lengths[_class(until_s - since_s + _ROUNDING_S)]
        found &= self._waiting & ~self._begun[bisect_right(starts_s, since_s) // self._part]
        if found:
            self._jumping |= found
            self._jump_s = min(self._jump_s, since_s)
        for slot in self._by_start[bisect_right(starts_s, start_s) : bisect_right(starts_s, end_s)]:
            found |= slot.bit
        self._due |= found & self._coming
        self._again |= found & ~self._coming

    def _sort(self) -> None:
        """Sort the jobs by their starts; those that move later in the pass have had their turn then."""
        self._by_start.sort(key=_START)
        self._starts_s = [slot.start_s for slot in self._by_start]
        bits = [slot.bit for slot in self._by_start]
        self._part = part = max(_PART, len(bits) // _PARTS)
        parts = [sum(bits[first : first + part]) for first in range(0, len(bits), part)]
        self._begun = list(accumulate(parts, or_, initial=0))

    def earlier(self, slot: Slot) -> float:
        """When a job can start instead of when it is promised; infinite: it stays there."""
        start_s = self._profile.since(slot.need, slot.start_s)
        if slot.bit & self._jumping:
            self._jumping ^= slot.bit
            start_s = min(start_s, self._profile.earliest(slot.need, slot.length_s, self._jump_s, slot.start_s))
        return start_s


def _class(key: float) -> int:
    """The class of a need, or of a length."""
    if key <= 1:
        return 0
    return int(4 * math.log2(key)) if key < _MOST else _CLASSES - 1
