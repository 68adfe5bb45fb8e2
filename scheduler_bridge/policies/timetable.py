"""Who holds which number of nodes until when, or is promised them: kept from pass to pass."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from operator import attrgetter, or_
from typing import Final

from scheduler_bridge.model import ClusterView, JobSpec, RunningJob
from scheduler_bridge.policies.compose import StartSize
from scheduler_bridge.policies.profile import Profile, Span

ALWAYS: Span = (-math.inf, math.inf)
_PATIENCE: Final = 100


class Timetable:
    """An index of running jobs that takes in the waiting ones and their reservations, too, when a pass begins.

    That costs what has changed since the last pass, unless all was promised anew meanwhile. What a pass decides is
    entered at once; if it was not carried out, the next one finds that, and takes in everything anew. If no pass begins
    for long, it forgets all but the running jobs.

    Args:
        profile: What the running jobs leave free; by default it follows them.

    Attributes:
        profile: What running jobs, and all reservations, leave free; less than nothing where they contradict.
        slots: The waiting jobs, in the order of the queue.
        candidates: Those of them that the next pass has to consider.
        tight: When nodes have been taken since that were promised, unless others have come free.
        soonest_s: No reservation begins before.
        follows: All that was promised before, and holds, was known already.
    """

    def __init__(self, profile: Profile | None = None) -> None:
        self.profile = Profile(0.0, 0) if profile is None else profile
        self.slots: dict[int, Slot] = {}
        self.candidates = Candidates()
        self.tight: list[Span] = []
        self.soonest_s = math.inf
        self.follows = False
        self._given = profile is not None
        self._begun = self._given
        self._unasked = 0  # changes of jobs since the last pass
        self._running: dict[int, tuple[float, int]] = {}  # expected ends, and nodes that come free then
        self._held = 0
        self._size = 0  # nodes free and held
        self._total_nodes = -1
        self._renewals = -1
        self._changed: dict[int, None] = {}  # in the order in which they did
        self._promised: dict[int, None] = {}  # by the last pass
        self._started: list[Slot] = []  # by the last pass

    def put(self, job_id: int, job: RunningJob | None) -> None:
        """Enter the job as it is now, or leave it out."""
        if job_id in self.slots:
            self._changed[job_id] = None
        self._run(job_id, None if job is None else (job.expected_end_s, job.nodes - job.kept_nodes))
        self._unasked += 1
        if self._begun and self._unasked > len(self._running) + _PATIENCE:  # it is less work to begin anew
            self._begun, self._renewals = False, -1
            for some in (self.slots, self._changed, self._promised):
                some.clear()
            self.tight.clear()
            self.candidates = Candidates()

    def _run(self, job_id: int, after: tuple[float, int] | None) -> None:
        """Let the job run until a time on a number of nodes, or not at all."""
        before = self._running.get(job_id)
        if after == before:
            return
        if before is not None:
            self._held -= before[1]
            del self._running[job_id]
        if after is not None:
            self._held += after[1]
            self._running[job_id] = after
        if not self._begun:
            return
        since_s = -math.inf
        if before is not None and after is not None and before[1] == after[1]:
            since_s = min(before[0], after[0])  # only its end has moved
        if before is not None and before[0] > since_s:
            self._free(since_s, before[0], before[1])
        if after is not None and after[0] > since_s and self.profile.take(since_s, after[0], after[1]) < 0:
            self.tight.append((since_s, after[0]))

    def begin(self, view: ClusterView, queue: Sequence[JobSpec], size: StartSize, now: float) -> None:
        """Take in how things are at the beginning of a pass."""
        if not self._begun:
            self._begun, self._size = True, view.free_nodes + self._held
            self.profile = Profile(now, view.free_nodes, [(end_s, nodes) for end_s, nodes in self._running.values()])
        self._unasked = 0
        self.profile.forget(now)
        self.follows = self._catch_up(view) and not self.candidates.is_sparse
        if not self._given and (more := view.free_nodes + self._held - self._size):
            self._size += more
            self.profile.raise_by(more)
            if more > 0:
                self.candidates.freed.append((*ALWAYS, 0))
            else:
                self.tight.append(ALWAYS)
        new: Sequence[JobSpec] = ()
        if self.follows:
            new = _last(queue, len(queue) - len(self.slots))
            self.follows = self.slots.keys().isdisjoint([spec.job_id for spec in new])
        if not self.follows:
            self._renew(view)
            new = queue
        for spec in new:
            need = size.need(spec, view.total_nodes)
            slot = self.slots[spec.job_id] = Slot(spec, need, view.walltime_s(spec, need))
            self.candidates.add(slot)
        if not self.follows:
            for promise in view.reservations:
                known = self.slots.get(promise.job_id)
                if known is not None and known.need == promise.nodes:
                    self.move(known, promise.start_s)
                    self.candidates.place(known)

    def _catch_up(self, view: ClusterView) -> bool:
        """Let jobs go that wait no more; return whether all else is as the last pass left it."""
        follows = view.renewals == self._renewals and view.total_nodes == self._total_nodes
        for slot in self._started:
            if view.waiting(slot.spec.job_id) is slot.spec:
                self._run(slot.spec.job_id, None)  # that pass was not carried out
                follows = False
        for job_id in {**self._changed, **self._promised}:
            if (known := self.slots.get(job_id)) is None:
                continue
            if view.waiting(job_id) is not known.spec:
                if known.start_s < math.inf:
                    self._free(known.start_s, known.start_s + known.length_s, known.need)
                self.candidates.remove(known)
                del self.slots[job_id]
            else:
                promise = view.promised(job_id)
                follows = follows and known.start_s == (math.inf if promise is None else promise.start_s)
        self._changed.clear()
        self._promised.clear()
        self._started.clear()
        return follows

    def _renew(self, view: ClusterView) -> None:
        """Forget all waiting jobs."""
        for slot in self.slots.values():
            self.move(slot, math.inf)
        self.slots.clear()
        self.candidates = Candidates()
        self.candidates.freed.append((*ALWAYS, 0))
        self.tight, self.soonest_s = [ALWAYS], math.inf
        self._total_nodes = view.total_nodes

    def move(self, slot: Slot, start_s: float) -> int:
        """Promise the job another start, or nothing (infinite); return how many nodes are free beside it then."""
        if slot.start_s < math.inf:
            self.profile.take(slot.start_s, slot.start_s + slot.length_s, -slot.need)
        slot.start_s = start_s
        if start_s == math.inf:
            return 0
        self.soonest_s = min(self.soonest_s, start_s)
        return self.profile.take(start_s, start_s + slot.length_s, slot.need)

    def advance(self, slot: Slot, start_s: float) -> None:
        """Promise the job an earlier start, from which on nodes are free.

        When it holds its nodes before and after, nothing changes.
        """
        before_s, end_s = slot.start_s, start_s + slot.length_s
        slot.start_s = start_s
        self.soonest_s = min(self.soonest_s, start_s)
        self.profile.take(start_s, min(end_s, before_s), slot.need)
        self._free(max(end_s, before_s), before_s + slot.length_s, slot.need)
        self.candidates.place(slot)

    def _free(self, start_s: float, end_s: float, nodes: int) -> None:
        """Give nodes back, and let those be considered who could use them."""
        room = self.profile.take(start_s, end_s, -nodes)
        self.candidates.freed.append((start_s, end_s, room - nodes))

    def start(self, slot: Slot, end_s: float, nodes: int) -> None:
        """Let the job, which is promised nothing, run from now until ``end_s`` on ``nodes`` nodes."""
        self._run(slot.spec.job_id, (end_s, nodes))
        self._started.append(slot)

    def end(self, view: ClusterView, changed: Iterable[Slot], *, stands: bool) -> None:
        """Take down what the pass has decided: who is promised something else, and whether all other promises stand."""
        for slot in self._started:
            self.candidates.remove(slot)
            del self.slots[slot.spec.job_id]
        self._promised = {slot.spec.job_id: None for slot in (changed if stands else self.slots.values())}
        if not stands:
            self._renewals = view.renewals + 1
        self.tight = []


def left(start_s: float, end_s: float, taken_s: float, until_s: float) -> list[Span]:
    """What is left of a span if another one is taken from it."""
    before, behind = (start_s, min(end_s, taken_s)), (max(start_s, until_s), end_s)
    return [span for span in (before, behind) if span[0] < span[1]]


def _last(queue: Sequence[JobSpec], count: int) -> list[JobSpec]:
    return list(islice(reversed(queue), max(0, count)))[::-1]


# Candidates: waiting jobs that may start earlier than they are promised -----------------------------------------------

_CLASSES: Final = 100
"""Of needs and of lengths, four from one power of two to the next."""
_MOST: Final = 2.0 ** (_CLASSES / 4)
_PART: Final = 4
_PARTS: Final = 256
"""Jobs are distinguished by their starts in parts of this number; larger ones where there would be more parts."""
_ROUNDING_S: Final = 1e-3
"""Sums of times are off by less."""
_START: Final = attrgetter("start_s")


@dataclass(slots=True, eq=False)
class Slot:
    """A waiting job and what is promised to it.

    Attributes:
        start_s: When it is promised them; infinite: nothing is promised.
        bit: The set of this job alone, as ``Candidates`` has it.
    """

    spec: JobSpec
    need: int
    length_s: float
    start_s: float = math.inf
    bit: int = 0


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
        freed: From when until when (seconds) nodes came free that no pass has looked at, and no more than how many were
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
        """Whether most jobs have ceased to wait, so that it is less work to begin anew."""
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
        """Return those that a pass has to consider, in the order of the queue, while it changes ``profile``."""
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
    if key <= 1:
        return 0
    return int(4 * math.log2(key)) if key < _MOST else _CLASSES - 1
