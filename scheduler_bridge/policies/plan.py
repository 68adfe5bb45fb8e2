"""The scratch pad of one pass: what the components of a policy have decided so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import TypeAlias, overload

from scheduler_bridge.model import Because, ClusterView, JobSpec, Key, Line, Need, Reason, Reservation, RunningJob
from scheduler_bridge.policies.base import Decision, Grow, Reserve, Share, Shrink, Stand, Start
from scheduler_bridge.policies.profile import MANY_JOBS, Endings, Profile

Floor: TypeAlias = Callable[[JobSpec], int]
"""The size down to which running malleable jobs may be asked to shrink."""


@cache
def reclaimable(floor: Floor) -> Callable[[RunningJob], int]:
    """Measure the nodes that a job could give back above ``floor``, now or after a pause."""
    return lambda job: job.reclaimable_nodes(floor(job.spec))


@cache
def shrinkable(floor: Floor) -> Key:
    """The jobs that are being shrunk, or could be above ``floor``."""

    def key(job: RunningJob) -> int | None:
        able = job.releasing_nodes > 0 or job.reclaimable_nodes(floor(job.spec)) > 0
        return 0 if able else None

    return key


@cache
def endings(floor: Floor | None, scaled: bool) -> Callable[[], Endings]:
    """Index what running jobs still hold when they end, if they give back before what is above ``floor``.

    Where walltimes are scaled, jobs that give back are left out, for that is when their ends change.
    """

    def left(job: RunningJob) -> int | None:
        given = 0 if job.order is None else job.releasing_nodes
        if floor is not None:
            given += job.reclaimable_nodes(floor(job.spec))
        return None if scaled and given > 0 else job.nodes - job.kept_nodes - given

    return partial(Endings, left)


class Waiting(Sequence[JobSpec]):
    """A queue (``all``) without the jobs that have started, looked through only as far as asked for."""

    def __init__(self, queue: Sequence[JobSpec], started: Container[int]) -> None:
        self.all = queue
        self._started = started

    def __iter__(self) -> Iterator[JobSpec]:
        for spec in self.all:  # compiled, an expression would go through all of them at once
            if spec.job_id not in self._started:
                yield spec

    def __len__(self) -> int:
        return sum([1 for _ in self])

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    @overload
    def __getitem__(self, index: int) -> JobSpec: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[JobSpec]: ...
    def __getitem__(self, index: int | slice) -> JobSpec | Sequence[JobSpec]:
        if index == 0 and (first := next(iter(self), None)) is not None:
            return first
        return tuple(self)[index]


class Plan:
    """Counts nodes while a pass decides; the view itself stays as it is.

    Nodes are in one of three piles: free now, being released (a shrink is under way), or held. ``soon`` counts the
    first two, less what is promised to jobs that wait for released nodes; ``usable`` is what may be used at once.

    Attributes:
        view: The cluster at the beginning of the pass.
        now: Time of the pass, in seconds.
        free: Free nodes that no decision of this pass uses.
        releasing: Nodes that were about to be released at the beginning of the pass.
        soon: Nodes that are free or about to be released, and promised to no job.
        reservations: Those made in this pass, the first blocked job's first.
        spare: Nodes that jobs running beyond the reservation may still take.
        stands: What the last pass promised stands, but for the reservations of this one.
    """

    __slots__ = (
        "_promised",
        "_resizes",
        "_shares",
        "_shrunk",
        "_starts",
        "free",
        "now",
        "releasing",
        "reservations",
        "soon",
        "spare",
        "stands",
        "view",
    )

    def __init__(self, view: ClusterView, now: float) -> None:
        self.view = view
        self.now = now
        self.free = free = view.free_nodes
        self.releasing = view.releasing_nodes
        self.soon = free + self.releasing
        self.reservations: list[Reservation] = []
        self.spare = 0
        self.stands = False
        self._starts: dict[int, tuple[JobSpec, int, Reason]] = {}
        self._shares: dict[int, Share] = {}
        self._resizes: dict[int, Grow | Shrink] = {}
        self._shrunk: dict[int, RunningJob] = {}
        self._promised: set[int] = set()

    @property
    def reservation(self) -> Reservation | None:
        """The first blocked job's, once there is one."""
        return self.reservations[0] if self.reservations else None

    @property
    def usable(self) -> int:
        """Nodes that are free now and promised to no job."""
        return max(0, min(self.free, self.soon))

    @property
    def shrunk(self) -> Sequence[tuple[RunningJob, int]]:
        """The jobs shrunk in this pass, with the nodes that they give."""
        return [(job, self._resizes[job_id].nodes) for job_id, job in self._shrunk.items()]

    @property
    def started(self) -> Iterable[tuple[JobSpec, int]]:
        """The jobs started in this pass, with their sizes."""
        return [(spec, nodes) for spec, nodes, _ in self._starts.values()]

    def start(self, spec: JobSpec, nodes: int, reason: Reason) -> None:
        """Start a waiting job."""
        self.free -= nodes
        self.soon -= nodes
        self._starts[spec.job_id] = (spec, nodes, reason)

    def share(self, decision: Share) -> None:
        """Start a waiting job on nodes of running ones."""
        self.free -= decision.free_nodes
        self.soon -= decision.free_nodes
        self._shares[decision.job_id] = decision

    def enlarge(self, spec: JobSpec, nodes: int) -> None:
        """Let a job that starts in this pass start with ``nodes`` more, which are idle: no order is sent."""
        _, before, why = self._starts[spec.job_id]
        self.start(spec, before + nodes, Because("{}; {}", (why, "larger because nodes are idle")))
        self.free += before
        self.soon += before

    def grow(self, job: RunningJob, nodes: int, reason: Reason) -> None:
        """Give free nodes to a running job."""
        self.free -= nodes
        self.soon -= nodes
        self._resizes[job.spec.job_id] = Grow(job.spec.job_id, nodes, reason)

    def shrink(self, job: RunningJob, nodes: int, reason: Reason, for_jobs: tuple[tuple[int, int], ...] = ()) -> None:
        """Take nodes from a running job, on top of what this pass takes from it already; see ``Shrink``."""
        before = self._resizes.get(job.spec.job_id)
        if isinstance(before, Shrink):
            nodes += before.nodes
            reason = reason if before.reason == reason else Because("{}; {}", (before.reason, reason))
            for_jobs = tuple(dict.fromkeys((*before.for_jobs, *for_jobs)))
            self.soon -= before.nodes
        self.soon += nodes
        self._resizes[job.spec.job_id] = Shrink(job.spec.job_id, nodes, reason, for_jobs)
        self._shrunk[job.spec.job_id] = job

    def shrink_instead(self, giver: RunningJob, other: RunningJob, nodes: int) -> None:
        """Take ``nodes`` of the nodes that this pass takes from ``other`` from ``giver``, for the same reason."""
        order = self._resizes.pop(other.spec.job_id)
        assert isinstance(order, Shrink)
        self.soon -= order.nodes
        del self._shrunk[other.spec.job_id]
        if order.nodes > nodes:
            self.shrink(other, order.nodes - nodes, order.reason, order.for_jobs)
        self.shrink(giver, nodes, order.reason, order.for_jobs)

    def promise(self, spec: JobSpec, nodes: int) -> None:
        """Keep ``nodes`` of those that are free or being released for a job that starts when they are all free."""
        self.soon -= nodes
        self._promised.add(spec.job_id)

    def is_promised(self, spec: JobSpec) -> bool:
        """Whether the job only waits for nodes that are being released."""
        return spec.job_id in self._promised

    @property
    def is_stuck(self) -> bool:
        """Whether the reserved job needs more than the nodes that are free or being released."""
        return self.reservation is not None and self.reservation.job_id not in self._promised

    def is_resized(self, job: RunningJob) -> bool:
        """Whether this pass resizes the job."""
        return job.spec.job_id in self._resizes

    def is_started(self, spec: JobSpec) -> bool:
        """Whether this pass starts the job."""
        return spec.job_id in self._starts or spec.job_id in self._shares

    def waiting(self, queue: Sequence[JobSpec]) -> Sequence[JobSpec]:
        """The jobs of ``queue`` that this pass has not started so far, in its order."""
        started = {**self._starts, **self._shares} if self._shares else self._starts
        return Waiting(queue, started) if started else queue

    def line(self, queue: Sequence[JobSpec], need: Need) -> Line:
        """A walk along ``queue``, or along what ``waiting`` made of it; it may meet jobs that have started since."""
        if queue is not self.view.queue and isinstance(queue, Waiting):  # to compare is quicker
            queue = queue.all
        return self.view.line(queue, need)

    def reserve(self, spec: JobSpec, nodes: int, *, floor: Floor | None) -> Reservation:
        """Find the earliest time at which ``nodes`` nodes are free if all walltimes hold.

        Nodes of jobs that end exactly then count, also as spare ones.

        Args:
            spec: The job to reserve for.
            nodes: How many nodes it needs.
            floor: Count nodes that malleable jobs hold above it as available from their next possible order on.
        """
        available, start_s, view = self.free + self.releasing, self.now, self.view
        index = view.index(endings(floor, view.scaled))
        steps: Iterable[tuple[float, int]] = zip(index.times_s, index.nodes)  # noqa: B905 - to be strict takes as long
        if floor is not None or self._starts or self.releasing or len(index.nodes) > MANY_JOBS:  # else: few rigid jobs
            at_once, later = (0, []) if floor is None else self._reclaimable(floor)
            others = sorted(later + self._others(floor), reverse=True)
            available, steps = index.releases(nodes, available + at_once, others[-1][0] if others else math.inf)
            steps = _merged(steps, others) if others else steps
        for time_s, released in steps:
            if time_s > start_s:
                if available >= nodes:
                    break
                start_s = time_s
            available += released
        return Reservation(spec.job_id, start_s if available >= nodes else math.inf, nodes, max(0, available - nodes))

    def profile(self) -> Profile:
        """The nodes free from now on if all walltimes hold; those about to be released count at once."""
        free, index = self.free + self.releasing, self.view.index(endings(None, self.view.scaled))
        if self.releasing and self.view.scaled:
            return Profile(self.now, free, [*zip(index.times_s, index.nodes, strict=True), *self._others(None)])
        started = sum([nodes for _, nodes, _ in self._starts.values()])
        profile = Profile(self.now, free + started, index)
        for spec, nodes, _ in self._starts.values():
            profile.take(self.now, self.now + self.view.walltime_s(spec, nodes), nodes)
        return profile

    def _others(self, floor: Floor | None) -> list[tuple[float, int]]:
        """When which number of nodes comes free with jobs that the index of endings leaves out, in no order.

        [D] Where walltimes are scaled, a job that can be shrunk is expected to end as late as it would at ``floor``: so
        to shrink it delays no reservation.
        """
        now, view = self.now, self.view
        found = [(now + view.walltime_s(spec, nodes), nodes) for spec, nodes, _ in self._starts.values()]
        if view.scaled:
            for job in view.releasing if floor is None else view.running_by(shrinkable(floor)):
                nodes = job.nodes - job.releasing_nodes
                nodes -= 0 if floor is None else job.reclaimable_nodes(floor(job.spec))
                found.append((job.end_at_s(max(1, nodes), now), nodes - job.kept_nodes))
        return found

    def _reclaimable(self, floor: Floor) -> tuple[int, list[tuple[float, int]]]:
        """The nodes above ``floor`` that can be taken back now, and when others can be."""
        measure = reclaimable(floor)
        later = [(job.resizable_from_s, nodes) for job in self.view.paused(self.now) if (nodes := measure(job))]
        return self.view.total(measure) - sum([nodes for _, nodes in later]), later

    def room(self, spec: JobSpec, nodes: int, *, at: int) -> int:
        """How many of ``nodes`` nodes a job that runs on ``at`` or more may take without delaying the reservation."""
        return self.room_until(self.now + self.view.walltime_s(spec, at), nodes)

    def room_until(self, end_s: float, nodes: int) -> int:
        """How many of ``nodes`` nodes may be taken now until ``end_s`` without delaying the reservation."""
        if not self.reservations or end_s <= self.reservations[0].start_s:
            return nodes
        return min(nodes, max(0, self.spare))

    def charge(self, spec: JobSpec, nodes: int, *, at: int) -> None:
        """Note that such a job takes ``nodes`` nodes, from the spare ones if it runs beyond the reservation."""
        self.charge_until(self.now + self.view.walltime_s(spec, at), nodes)

    def charge_until(self, end_s: float, nodes: int) -> None:
        """Note that ``nodes`` nodes are taken until ``end_s``."""
        if self.reservations and end_s > self.reservations[0].start_s:
            self.spare -= nodes

    def decisions(self) -> list[Decision]:
        """All that was decided: the reservations, then starts, then resizes."""
        found: list[Decision] = list(map(Reserve, self.reservations))
        if self.stands:
            found.insert(0, Stand())
        if self._starts:
            found += [Start(job_id, nodes, reason) for job_id, (_, nodes, reason) in self._starts.items()]
        if self._shares or self._resizes:
            found += [*self._shares.values(), *self._resizes.values()]
        return found


def _merged(steps: Iterable[tuple[float, int]], others: list[tuple[float, int]]) -> Iterator[tuple[float, int]]:
    """Both by time; ``others`` have the latest first."""
    for step in steps:
        while others and others[-1][0] <= step[0]:
            yield others.pop()
        yield step
    yield from reversed(others)
