"""Nodes that several jobs share: who may use which cores of which, and how long that makes the jobs take.

Cores have ids, from 0 on, and a set of them is a bitset. The paper counts cores; which ones they are is ours [D]: a job
that makes room keeps its lowest ids and gives its highest, a newcomer takes the highest of those that no job may use,
and what comes back is added. So with two jobs on a node each has one range, the same one on all nodes that they share.

Predictions follow the worst model [2019 paper, section 3.4; D, for its equations give totals]: a job is as fast as on
the node where it has the fewest cores, and it ends when the sum of elapsed time x rate is the time that it asked for.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mypy_extensions import mypyc_attr

from scheduler_bridge.core.events import InvariantError
from scheduler_bridge.core.tracked import Shares, TrackedJob
from scheduler_bridge.model import EVERY_NODE, NodeFilter, Reason
from scheduler_bridge.model.allocation import highest

_TICKS_PER_S: Final = 1e6
"""Predicted ends are rounded up to such ticks, so that no job is over its time by an error of rounding."""


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
@dataclass(slots=True, eq=False)
class Stack:
    """Nodes that the same jobs share.

    Attributes:
        ranks: Which nodes.
        cores: Which cores of each of them a job may use, by job, in the order in which they came. The first is the
            host: cores that no other job may use are its as soon as it can take them.
    """

    ranks: int
    cores: dict[int, int]

    @property
    def host(self) -> int:
        """The job that came first."""
        return next(iter(self.cores))

    def count(self, job_id: int) -> int:
        """How many cores of each of the nodes the job may use."""
        return self.cores[job_id].bit_count()


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
@dataclass(slots=True, eq=False)
class Change:
    """What a job is ordered to do with its part of a stack: take these cores, which no other may use, or give them."""

    stack: Stack
    cores: int
    takes: bool

    def after(self, before: int) -> int:
        """The cores that the job has when it has done so."""
        return before | self.cores if self.takes else before & ~self.cores


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
@dataclass(slots=True)
class _Progress:
    """Seconds of the time that it is to take that are left at ``since_s``, and how many pass in a second."""

    left_s: float
    since_s: float
    rate: float
    total_s: float
    """What it is to take with all cores: its walltime, or what is expected for its size."""
    soon: tuple[float, float] | None = None
    """From when on it is expected to be how fast, once it has taken the cores that it is ordered to."""


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
@dataclass(slots=True)
class Claim:
    """A newcomer that waits for its mates.

    Attributes:
        cores: How many each mate gives of each of its nodes.
        waits_for: The mates that have not done so yet.
        mates: All of them.
        reason: Why the newcomer starts so.
    """

    cores: int
    waits_for: set[int]
    mates: tuple[int, ...]
    reason: Reason


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
@dataclass(slots=True)
class Sharing:
    """All that the core knows about shared nodes.

    Attributes:
        all_cores: Cores of a node.
        by_job: The stacks that each job is in; empty while no node is shared.
        jobs_per_node: How many jobs the policy lets share a node.
        nodes: Which nodes it lets jobs share.
        every_node: These are all nodes.
        claims: The newcomers that wait for their mates.
        ordered: What jobs are ordered to take or give, by job.
        unsettled: Jobs to which spare cores may have to be given.
        moved: Jobs whose cores or neighbours have changed since the last predictions.
    """

    all_cores: int
    by_job: dict[int, list[Stack]] = field(default_factory=dict)
    jobs_per_node: int = 1
    nodes: NodeFilter = EVERY_NODE
    every_node: bool = True
    claims: dict[int, Claim] = field(default_factory=dict)
    ordered: dict[int, list[Change]] = field(default_factory=dict)
    unsettled: set[int] = field(default_factory=set)
    moved: set[int] = field(default_factory=set)
    _progress: dict[int, _Progress] = field(default_factory=dict)

    def declare(self, jobs_per_node: int, nodes: NodeFilter) -> None:
        """Let this number of jobs share a node, or as many as do so already, and these nodes be shared from now on."""
        self.jobs_per_node = max([jobs_per_node, *(len(stack.cores) for stack in self)])
        self.nodes, self.every_node = nodes, nodes.is_all

    def claimed(self, stack: Stack) -> bool:
        """Whether the spare cores of a stack are kept for a newcomer."""
        return any(job_id in self.claims for job_id in stack.cores)

    def __iter__(self) -> Iterator[Stack]:
        """Every stack, once."""
        return iter({id(stack): stack for stacks in self.by_job.values() for stack in stacks}.values())

    def of(self, job_id: int) -> list[Stack]:
        """The stacks that the job is in; its other nodes are its own."""
        return self.by_job.get(job_id, [])

    @property
    def every_core(self) -> int:
        """The ids of all cores of a node."""
        return (1 << self.all_cores) - 1

    def spare(self, stack: Stack) -> int:
        """Which cores of each node of a stack no job may use."""
        used = 0
        for cores in stack.cores.values():
            used |= cores
        return self.every_core & ~used

    def is_host(self, job_id: int) -> bool:
        """Whether the job came first on all its nodes."""
        return all(stack.host == job_id for stack in self.of(job_id))

    def connected(self, job_ids: Iterable[int]) -> list[int]:
        """The jobs themselves, those that share nodes with them, with these, and so on; by id."""
        found: set[int] = set()
        new = set(job_ids)
        while new:
            found |= new
            new = {other for job_id in new for stack in self.of(job_id) for other in stack.cores} - found
        return sorted(found)

    def fewest(self, job_id: int) -> int:
        """The fewest cores of one of its nodes that the job may use."""
        return min([stack.count(job_id) for stack in self.of(job_id)], default=self.all_cores)

    def per_node(self, job: TrackedJob, changes: Sequence[Change] = ()) -> list[tuple[int, int]]:
        """What a job may use, after ``changes``, as (ranks, cores of each of them)."""
        alone, found = job.allocation.ranks, []
        for stack in self.of(job.spec.job_id):
            alone &= ~stack.ranks
            cores = stack.cores[job.spec.job_id]
            for change in changes:
                if change.stack is stack:
                    cores = change.after(cores)
            found.append((stack.ranks, cores))
        return [*found, (alone, self.every_core)] if alone else found

    # who is where ---------------------------------------------------------------------------------------------------

    def join(self, guest: int, host: TrackedJob) -> list[Stack]:
        """Put a new job onto all nodes of ``host``, without any cores so far; return the stacks that it joins."""
        host_id = host.spec.job_id
        stacks = self.by_job.setdefault(host_id, [])
        alone = host.allocation.ranks
        for stack in stacks:
            alone &= ~stack.ranks
        if alone:
            stacks.append(Stack(alone, {host_id: self.every_core}))
        for stack in stacks:
            stack.cores[guest] = 0
            self.by_job.setdefault(guest, []).append(stack)
        return list(stacks)

    def seat(self, job_id: int, count: int) -> None:
        """Let a job that has joined use this number of the spare cores of its nodes.

        Raises:
            InvariantError: There are not as many.
        """
        for stack in self.of(job_id):
            spare = self.spare(stack)
            if spare.bit_count() < count:
                raise InvariantError(f"a core is in two allocations: job {job_id} is to get {count} cores of {stack}")
            stack.cores[job_id] = highest(spare, count)

    def change(self, job_id: int, change: Change) -> None:
        """The job has done what it was ordered to; of the cores to take, those that are still spare are its."""
        stack = change.stack
        if job_id in stack.cores:
            taken = self.spare(stack) if change.takes else 0
            before = stack.cores[job_id]
            stack.cores[job_id] = change.after(before) & (before | taken)

    def leave(self, job_id: int, ranks: int) -> set[int]:
        """Take a job off nodes; return the jobs that stay on them."""
        stay: set[int] = set()
        for shared in list(self.of(job_id)):
            if not (gone := shared.ranks & ranks):
                continue
            stack = shared if gone == shared.ranks else self._split(shared, gone)
            del stack.cores[job_id]
            self.by_job[job_id].remove(stack)
            stay.update(stack.cores)
        if not self.by_job.get(job_id, True):
            del self.by_job[job_id]
        return stay

    def _split(self, stack: Stack, ranks: int) -> Stack:
        """Return another stack of ``ranks`` with the same jobs; their orders about the rest still hold."""
        part = Stack(ranks, dict(stack.cores))
        stack.ranks &= ~ranks
        for job_id in part.cores:
            self.by_job[job_id].append(part)
        return part

    def dissolve(self, job_id: int) -> None:
        """Forget the stacks that the job has for itself, with all cores."""
        left = [stack for stack in self.of(job_id) if len(stack.cores) > 1 or self.spare(stack)]
        if left:
            self.by_job[job_id] = left
        else:
            self.by_job.pop(job_id, None)

    # how long it takes ----------------------------------------------------------------------------------------------

    def forget(self, job_id: int) -> None:
        """Forget how far a job has come, whose end needs no prediction any more."""
        self._progress.pop(job_id, None)
        self.moved.discard(job_id)

    def run_on(self, job: TrackedJob, now: float) -> None:
        """Note how far a job has come by ``now``, if it goes on faster or slower from now on."""
        known, total_s = self._progress.get(job.spec.job_id), job.spec.walltime_s + job.later_s
        if job.started_s is None:
            known = self._progress[job.spec.job_id] = _Progress(total_s, now, 1.0, total_s)
        elif known is None or known.since_s < job.started_s:
            known = self._progress[job.spec.job_id] = _Progress(total_s, job.started_s, 1.0, total_s)
        rate = self.fewest(job.spec.job_id) / self.all_cores
        if rate != known.rate:
            known.left_s -= known.rate * (now - known.since_s)
            known.since_s, known.rate = now, rate

    def shares(self, jobs: Iterable[TrackedJob], now: float, growing: Container[int]) -> dict[int, Shares]:
        """What sharing makes of ``jobs``, with which all their neighbours are.

        Those in ``growing`` are about to take the spare cores of the nodes whose hosts they are.
        """
        by_id = {job.spec.job_id: job for job in jobs}
        for job_id in by_id:
            self._progress[job_id].soon = (now, self._soon(job_id)) if job_id in growing else None
        ends: dict[int, float] = {}
        for job in by_id.values():
            self._end(job, by_id, ends)
        found = {}
        for job_id, job in by_id.items():
            start_s = job.started_s if job.started_s is not None else job.start_ordered_s
            late_s = ends[job_id] - ((start_s or 0.0) + self._progress[job_id].total_s)
            stacks = self.of(job_id)
            fewest = self.fewest(job_id)
            found[job_id] = Shares(
                extension_s=max(0.0, math.ceil(late_s * _TICKS_PER_S) / _TICKS_PER_S),
                cores=fewest if fewest < self.all_cores else None,
                neighbours=max([len(stack.cores) - 1 for stack in stacks], default=0),
                is_host=self.is_host(job_id),
                kept_nodes=sum([s.ranks.bit_count() for s in stacks if _last(s, ends) != job_id]),
            )
        return found

    def _soon(self, job_id: int) -> float:
        """How fast a job is with all cores that no other job may use."""
        stacks = self.of(job_id)
        cores = [s.count(job_id) + (self.spare(s).bit_count() if s.host == job_id else 0) for s in stacks]
        return min(cores, default=self.all_cores) / self.all_cores

    def _end(self, job: TrackedJob, jobs: dict[int, TrackedJob], ends: dict[int, float]) -> float:
        """When the job ends if it takes the time that it asked for; guests give their cores back at their ends.

        That it may get the cores of a host that ends is not counted on.
        """
        job_id = job.spec.job_id
        if job_id in ends:
            return ends[job_id]
        hosted = [stack for stack in self.of(job_id) if stack.host == job_id]
        guests = {guest for stack in hosted for guest in stack.cores} - {job_id}
        guest_ends = {guest: self._end(jobs[guest], jobs, ends) for guest in guests}
        as_guest = min([s.count(job_id) for s in self.of(job_id) if s.host != job_id], default=self.all_cores)
        known = self._progress[job_id]
        time_s, left_s, rate = known.since_s, known.left_s, known.rate
        if known.soon is not None:
            left_s -= rate * (known.soon[0] - time_s)
            time_s, rate = known.soon
        for end_s in sorted(set(guest_ends.values())):
            if rate > 0 and time_s + left_s / rate <= end_s:
                break
            left_s -= rate * max(0.0, end_s - time_s)
            time_s = max(time_s, end_s)
            taken = [sum([s.count(o) for o in s.cores if guest_ends.get(o, 0.0) > end_s]) for s in hosted]
            rate = min(as_guest, self.all_cores - max(taken)) / self.all_cores
        ends[job_id] = time_s + max(0.0, left_s) / rate if rate > 0 else time_s + left_s
        return ends[job_id]


def _last(stack: Stack, ends: dict[int, float]) -> int:
    """The job that ends last on the nodes of a stack; the host if it is among several."""
    return max(stack.cores, key=lambda job_id: ends[job_id])
