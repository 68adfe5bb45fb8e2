"""The cluster as a policy sees it: immutable, whole nodes, counts instead of names; and walks along its queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from scheduler_bridge.model.job import JobSpec
from scheduler_bridge.model.reservation import Reservation


class RunningJob(msgspec.Struct, frozen=True, gc=False):
    """A job that holds nodes.

    It is no ``TrackedJob``: it never changes, and has numbers of nodes and predictions only, which policies decide by.

    Attributes:
        spec: What was submitted.
        nodes: Nodes that it holds, those on order to arrive and those still to be released included.
        start_s: When it started (when it was ordered to, while it is starting).
        expected_end_s: Start plus walltime; where walltimes are scaled, as predicted for the sizes that it had.
        max_nodes: Largest size now; below ``spec.max_nodes`` after the job offered nodes back.
        ready: Whether it takes orders at all (malleable handler registered, not ending).
        resizable_from_s: Earliest time of its next order (cooldown, or a failed order before).
        order: The kind of the order under way, if any.
        order_nodes: How many nodes that order moves.
        deferred: The job put the order off: it is not known when it will be carried out.
        last_resize: The kind of its last completed order that moved nodes, if any.
        turn: Its place among the starts: the one that started later has the larger one.
        cores: The cores of each of its nodes that it may use, where they are fewest; None: all.
        neighbours: The most other jobs on one of its nodes.
        is_host: Whether it was the first on all its nodes.
        kept_nodes: Those of its nodes that others still hold when it ends, as far as is known.
        may_share: Whether all its nodes are among those that the policy lets jobs share.
    """

    spec: JobSpec
    nodes: int
    start_s: float
    expected_end_s: float
    max_nodes: int
    ready: bool = False
    resizable_from_s: float = 0.0
    order: Literal["grow", "shrink", "workers"] | None = None
    order_nodes: int = 0
    deferred: bool = False
    last_resize: Literal["grow", "shrink"] | None = None
    turn: int = 0
    cores: int | None = None
    neighbours: int = 0
    is_host: bool = True
    kept_nodes: int = 0
    may_share: bool = True

    @property
    def shares(self) -> bool:
        """Whether it has not all of its nodes for itself; such a job keeps its nodes."""
        return self.cores is not None or self.neighbours > 0

    @property
    def releasing_nodes(self) -> int:
        """Nodes that a shrink under way is about to release; none if it is deferred."""
        return self.order_nodes if self.order == "shrink" and not self.deferred else 0

    def reclaimable_nodes(self, floor_nodes: int) -> int:
        """Nodes above ``floor_nodes`` that it could be asked to give back now or soon, besides those on their way."""
        if not self.ready or self.deferred or self.shares:
            return 0
        # a job that has lost nodes may be below its floor
        return max(0, self.nodes - self.releasing_nodes - floor_nodes)

    def end_at_s(self, nodes: int, now: float) -> float:
        """When it would end if it went on with ``nodes`` nodes from now on, by what the scheduler believes."""
        left_s = max(0.0, self.expected_end_s - now)
        return now + (left_s if nodes == self.nodes else left_s * (self.nodes / nodes) ** (1.0 - self.spec.rho))

    def takes_orders(self, now: float) -> bool:
        """Whether an order may be sent to it at ``now``."""
        return self.ready and self.order is None and self.resizable_from_s <= now

    def resizable(self, now: float) -> bool:
        """Whether it may be ordered to grow or to shrink at ``now``."""
        return self.takes_orders(now) and not self.shares


Key: TypeAlias = Callable[[RunningJob], Any]
"""Where a running job stands in an order: something to sort by (smallest first, then by the smaller job id); None: the
job is left out. A pure function; equal ones give the same order."""


class Index(Protocol):
    """What a policy keeps of the running jobs; it depends on them only, not on when or how often they were entered.

    It may take in more when it is asked, as long as it answers as one that was made anew.
    """

    def put(self, job_id: int, job: RunningJob | None, /) -> None:
        """Enter a job as it is now; None: it does not run any more. Called again whenever the job has changed."""


AnyIndex = TypeVar("AnyIndex", bound=Index)


QueueKey: TypeAlias = Callable[[JobSpec], Any]
"""Where a waiting job stands in an order: something to sort by. A pure function; equal ones give the same order."""

UserKey: TypeAlias = Callable[[float | None], Any]
"""Where a user's waiting jobs stand in an order: something to sort by, from the user's accuracy; None: no job of the
user's has ended yet. A pure function; equal ones give the same order."""


def aged(value: Any, spec: JobSpec, age_s: float) -> Any:
    """Where a job stands whose user's key is ``value``, see ``queue_by_user``: all age alike, so it stays the same."""
    return spec.submit_s + age_s * value if age_s else value


@dataclass(frozen=True)
class ClusterView:
    """The whole state that a policy decides on.

    What the scheduler core hands out holds for the pass only, and answers the questions below from indices that it
    keeps up to date; ``snapshot`` keeps it. The answers are those of this class, which looks through all jobs. An index
    is found by the key or function that is asked with: a policy that asks with an equal one in each pass (a function of
    a module, a bound method, a cached closure) pays for what has changed, one that makes new ones pays for all jobs.

    Attributes:
        total_nodes: Nodes in service.
        free_nodes: Nodes in service that no job holds.
        queue: Waiting jobs in the order of their submission.
        running: Jobs that hold nodes, in the order of their starts.
        reservations: What the last pass promised to jobs, or left standing; some may have left the queue since.
        accuracy: Per user, how much of the walltime that was asked for the last jobs used: a mean from 0 to 1. Users
            whose jobs have not ended yet are missing.
        cores_per_node: Cores of each node, for policies that let jobs share nodes.
        scaled: Walltimes are predicted for the size at which a job runs, by its ``rho``; otherwise they are as
            submitted, whatever the size.
        arrived: The jobs submitted since the last pass, if nothing else has happened since and that pass only promised;
            they are the last ones of the queue. None: more has happened, or it is not known.
        renewals: How often all reservations were made anew; else they changed one by one.
    """

    total_nodes: int
    free_nodes: int
    queue: Sequence[JobSpec]
    running: Sequence[RunningJob]
    reservations: tuple[Reservation, ...] = ()
    accuracy: Mapping[str, float] = field(default_factory=dict)
    cores_per_node: int = 1
    scaled: bool = False
    arrived: tuple[JobSpec, ...] | None = None
    renewals: int = 0

    def walltime_s(self, spec: JobSpec, nodes: int) -> float:
        """How long the job may take on ``nodes`` nodes."""
        return spec.walltime_s if nodes == spec.nodes or not self.scaled else spec.walltime_at_s(nodes)

    def promised(self, job_id: int) -> Reservation | None:
        """What a job is promised."""
        return next((promise for promise in self.reservations if promise.job_id == job_id), None)

    def waiting(self, job_id: int) -> JobSpec | None:
        """The job, if it waits."""
        return next((spec for spec in self.queue if spec.job_id == job_id), None)

    @property
    def releasing_nodes(self) -> int:
        """Nodes that are about to be released."""
        return sum([job.releasing_nodes for job in self.releasing])

    @property
    def releasing(self) -> Sequence[RunningJob]:
        """The running jobs that are about to release nodes, in the order of their ids."""
        found = [job for job in self.running if job.releasing_nodes > 0]
        return sorted(found, key=lambda job: job.spec.job_id)

    def total(self, measure: Callable[[RunningJob], int]) -> int:
        """The sum of a pure function over the running jobs."""
        return sum([measure(job) for job in self.running])

    def running_by(self, key: Key) -> Sequence[RunningJob]:
        """The running jobs in the order of ``key``."""
        keyed = [(value, job.spec.job_id, job) for job in self.running if (value := key(job)) is not None]
        return [job for _, _, job in sorted(keyed)]

    def index(self, make: Callable[[], AnyIndex]) -> AnyIndex:
        """The index that ``make`` makes, with all running jobs entered."""
        index = make()
        for job in self.running:
            index.put(job.spec.job_id, job)
        return index

    def paused(self, now: float) -> Sequence[RunningJob]:
        """The running jobs that take no order before some later time."""
        return [job for job in self.running if job.resizable_from_s > now]

    def queue_by(self, key: QueueKey) -> Sequence[JobSpec]:
        """The waiting jobs in the order of ``key``, those with the same one in the order of the queue."""
        return sorted(self.queue, key=key)

    def queue_by_user(self, key: UserKey, age_s: float = 0.0) -> Sequence[JobSpec]:
        """The waiting jobs in the order of a key of their users, those with the same one in the order of the queue.

        Args:
            key: Of a user; a number where there is an ``age_s``.
            age_s: Seconds waited that count as much as 1 less in the key; 0: what was waited does not count.
        """
        return sorted(self.queue, key=lambda spec: aged(key(self.accuracy.get(spec.user)), spec, age_s))

    def line(self, queue: Sequence[JobSpec], need: Need) -> Line:
        """The jobs of ``queue``, which an order made of this view's, with the nodes that they need."""
        return PlainLine(queue, need, self.total_nodes, self.walltime_s)

    def snapshot(self) -> ClusterView:
        """The view as it is now, to be kept."""
        return replace(self, queue=tuple(self.queue), running=tuple(self.running))


# Walks along the queue, and the search for the next job that may start ------------------------------------------------

Need: TypeAlias = Callable[[JobSpec, int], int]
"""The fewest nodes that a job starts with, given the number of nodes in service: a pure function."""


class Line(Protocol):
    """A walk along the waiting jobs, the most urgent first. Every job is met at most once.

    Attributes:
        need: The nodes that the job found last needs.
    """

    need: int

    def next(self) -> JobSpec | None:
        """The next job, whatever it needs; None at the end."""

    def next_fitting(self, least: int, most: int, spare: int, now: float, by_s: float) -> JobSpec | None:
        """The next job that needs ``least`` to ``most`` nodes, and at most ``spare`` of them unless it ends in time.

        In time is a job that starts ``now`` on the nodes that it needs, and ends by its walltime not after ``by_s``.
        Jobs on the way are passed.
        """


class PlainLine:
    """A walk that looks at every job."""

    def __init__(
        self, queue: Sequence[JobSpec], need: Need, total_nodes: int, walltime_s: Callable[[JobSpec, int], float]
    ) -> None:
        self.need = 0
        self._walltime_s = walltime_s
        self._jobs: Iterator[JobSpec] = iter(queue)
        self._need = need
        self._total_nodes = total_nodes

    def next(self) -> JobSpec | None:
        """The next job."""
        spec = next(self._jobs, None)
        if spec is not None:
            self.need = self._need(spec, self._total_nodes)
        return spec

    def next_fitting(self, least: int, most: int, spare: int, now: float, by_s: float) -> JobSpec | None:
        """The next job that fits."""
        while (spec := self.next()) is not None:
            if least <= self.need <= most and (self.need <= spare or now + self._walltime_s(spec, self.need) <= by_s):
                return spec
        return None
