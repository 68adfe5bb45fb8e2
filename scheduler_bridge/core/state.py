"""The scheduler core's whole state, and the steps that change it consistently."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from mypy_extensions import mypyc_attr

from scheduler_bridge.core.events import Effect, KillJob, OrderKind, Outcome, SendOrder
from scheduler_bridge.core.node_sharing import Sharing
from scheduler_bridge.core.nodes import NodePool
from scheduler_bridge.core.settings import Settings
from scheduler_bridge.core.tracked import JobState, PendingOrder, Step, TrackedJob
from scheduler_bridge.core.view import LiveView
from scheduler_bridge.model import AdvanceReservation, Allocation, JobSpec, Reason, Reservation
from scheduler_bridge.policies import Decision, Policy
from scheduler_bridge.policies.base import jobs_per_node, shared_nodes

_STEP_OF: Final[dict[OrderKind, Step]] = {"grow": Step.GROW, "shrink": Step.SHRINK, "workers": Step.ADJUST}
_HISTORY_JOBS: Final = 10
"""The jobs of a user that count for the accuracy of the walltimes [2016 paper]."""


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
@dataclass(slots=True)
class Booking:
    """A reservation that is not over, and the jobs that it has started (``inside``), ended ones included."""

    spec: AdvanceReservation
    ranks: int
    started: bool = False
    inside: set[int] = field(default_factory=set)


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
@dataclass(slots=True)
class SchedulerState:
    """Everything that decides what the core does next.

    Attributes:
        settings: The parameters.
        pool: The nodes.
        prompt_starts: Jobs run at the instant at which they are ordered to start.
        jobs: Every job ever accepted.
        queue: The waiting ones, in the order of their places: as submitted, unless they were moved.
        active: Those that hold nodes, in the order of their starts.
        reservations: Made in the last pass, or still standing, by job, in the order in which the policy named them.
        renewals: How often they were all made anew.
        bookings: The advance reservations that are not over, by name.
        past_use: Per user, the used parts of the walltimes of the last jobs.
        accuracy: Per user, their mean.
        next_order: Number of the next order.
        next_place: Place in the queue of the next job that is submitted.
        next_turn: Place among the starts of the next job that is ordered to start.
        changed: Something happened since the last pass that may allow a decision, besides submissions.
        arrived: The jobs submitted since the last pass.
        calm: Since the last pass, and in it, nothing happened to any job but submissions.
        touched: Jobs changed by the present batch, by id.
        over: Jobs that have ended in the present batch.
        stale: Jobs changed since the view was last brought up to date, by id.
        counted: Nodes that jobs hold, as the invariants have counted them.
        sharing: Who shares nodes with whom.
        evolving_requests: Nodes that evolving jobs asked for in the present batch.
        shrunk: The jobs that have shrunk since something else happened than answers to orders.
        deadlines: When to look at a job again (walltime over, cooldown over), a heap; may hold stale entries.
        next_pass_s: When the next periodic pass is due.
        skips: Leave periodic passes out of which it is known that they decide nothing.
        idle_until_s: Passes decide nothing before that time, if nothing happens.
        armed_s: The earliest wake-up that was asked for and has not come yet.
        anomalies: Reports that contradict what the core knows, the latest last; they changed nothing.
        tolerant: What a policy does wrong is left out, and raises nothing.
        failure: What it did wrong in the last pass.
        answers: What the policy decided in the last batch, pass by pass, if the state is tolerant.
        script: Answers that are taken instead of the policy's in the next batch.
    """

    settings: Settings
    pool: NodePool
    prompt_starts: bool = False
    jobs: dict[int, TrackedJob] = field(default_factory=dict)
    queue: dict[int, TrackedJob] = field(default_factory=dict)
    active: dict[int, TrackedJob] = field(default_factory=dict)
    reservations: dict[int, Reservation] = field(default_factory=dict)
    renewals: int = 0
    bookings: dict[str, Booking] = field(default_factory=dict)
    past_use: dict[str, deque[float]] = field(default_factory=dict)
    accuracy: dict[str, float] = field(default_factory=dict)
    next_order: int = 1
    next_place: int = 0
    next_turn: int = 0
    changed: bool = False
    arrived: list[JobSpec] = field(default_factory=list)
    calm: bool = False
    over: list[TrackedJob] = field(default_factory=list)
    touched: dict[int, TrackedJob] = field(default_factory=dict)
    stale: dict[int, TrackedJob] = field(default_factory=dict)
    counted: int = 0
    evolving_requests: dict[int, int] = field(default_factory=dict)
    shrunk: set[int] = field(default_factory=set)
    deadlines: list[tuple[float, int]] = field(default_factory=list)
    next_pass_s: float | None = None
    skips: bool = False
    idle_until_s: float = -math.inf
    armed_s: float | None = None
    anomalies: deque[str] = field(default_factory=lambda: deque(maxlen=100))
    tolerant: bool = False
    failure: str = ""
    answers: list[list[Decision]] = field(default_factory=list)
    script: deque[list[Decision]] = field(default_factory=deque)
    sharing: Sharing = field(init=False)
    _view: LiveView = field(init=False)

    def __post_init__(self) -> None:
        self.sharing = Sharing(self.settings.cores_per_node)
        self.adopt(self.settings)

    def adopt(self, settings: Settings) -> None:
        """Go on with these parameters; nodes are shared as before."""
        before_s, self.settings = self.settings.walltime_grace_s, settings
        if settings.pass_interval_s is None:
            self.next_pass_s = None
        if settings.walltime_grace_s != before_s:
            for job in self.active.values():
                if job.started_s is not None:
                    self.watch(job, job.expected_end_s + settings.walltime_grace_s)
        cores, scaled = settings.cores_per_node, settings.walltime == "scaled"
        self.stale.clear()  # the indices of the new view do not know them yet
        self._view = LiveView(self.pool, self.queue, self.active, self.stale, self.reservations, cores, scaled)

    def declare(self, policy: Policy) -> None:
        """Let jobs share nodes as ``policy`` wants it."""
        before = self.sharing.nodes
        self.sharing.declare(jobs_per_node(policy), shared_nodes(policy))
        if self.sharing.nodes != before:
            for job in self.active.values():
                self._filter(job)
                job.seen, self.stale[job.spec.job_id] = None, job

    def _filter(self, job: TrackedJob) -> None:
        """See whether the job has nodes that are lent, or that jobs may not share for another reason."""
        nodes, job.lent = self.sharing.nodes, job.allocation.ranks & self.pool.lent
        job.may_share = not job.lent and (
            self.sharing.every_node or all(node in nodes for node in self.pool.name(job.allocation))
        )

    def view(self) -> LiveView:
        """The state as a policy sees it, until the next batch of events."""
        self._view.refresh(self.renewals, self.accuracy)
        return self._view

    def view_of_pass(self) -> LiveView:
        """The state as the policy sees it in the pass that begins."""
        quiet = self.calm and not self.changed and self.settings.user_nodes is None  # else policies see another view
        arrived = tuple(self.arrived) if quiet else None
        self._view.refresh(self.renewals, self.accuracy, arrived)
        self.arrived.clear()
        self.changed, self.calm = False, True
        return self._view

    def reservation_of(self, job_id: int) -> Reservation | None:
        """The job's own reservation; else the first one, which is what it waits for."""
        return self.reservations.get(job_id) or next(iter(self.reservations.values()), None)

    def renew(self, promises: Iterable[Reservation]) -> None:
        """Take all reservations back, and make these; the pass may make others."""
        self.reservations.clear()
        self.renewals += 1
        for promise in promises:
            self.reservations[promise.job_id] = promise

    def note(self, job: TrackedJob) -> None:
        """Note that ``job`` has changed."""
        self.calm = False
        job.seen = None
        if self.pool.lent or not self.sharing.every_node:
            self._filter(job)
        job_id = job.spec.job_id
        self.touched[job_id] = self.stale[job_id] = job

    def touch(self, job: TrackedJob) -> None:
        """Note that ``job`` has changed and that a decision may follow."""
        self.note(job)
        self.changed = True

    def enqueue(self, job: TrackedJob) -> None:
        """Put a job that was submitted at the end of the queue."""
        job_id = job.spec.job_id
        if (before := self.jobs.get(job_id)) is not None:
            job.counted = before.counted  # What it held until this very batch is yet to be taken off the sum.
        job.place, self.next_place = self.next_place, self.next_place + 1
        self.jobs[job_id] = self.queue[job_id] = job
        if job_id in self.stale:  # It left the queue in this very batch: indices still have it in its old place.
            self._view.reorder()
        self.touched[job_id] = self.stale[job_id] = job
        self.arrived.append(job.spec)

    def requeue(self, job: TrackedJob) -> None:
        """Put a job back into its place in the queue."""
        behind = {job_id: other for job_id, other in self.queue.items() if other.place > job.place}
        for job_id in behind:
            del self.queue[job_id]
        self.queue[job.spec.job_id] = job
        self.queue.update(behind)
        self._view.reorder()
        self.touch(job)

    def expect(self, job: TrackedJob) -> None:
        """Say how much later than by its walltime the job, which starts on what it holds, will have ended."""
        spec, nodes = job.spec, job.allocation.size
        if nodes != spec.nodes and self.settings.walltime == "scaled":
            job.later_s, job.bound = spec.walltime_at_s(nodes) - spec.walltime_s, False

    def expect_again(self, job: TrackedJob, before: int, now: float) -> None:
        """Say so anew for a job that had ``before`` nodes until now."""
        after = job.allocation.size
        if self.settings.walltime == "scaled" and after != before:
            left_s = max(0.0, job.expected_end_s - now)
            job.later_s += left_s * ((before / after) ** (1.0 - job.spec.rho) - 1.0)
            job.bound = False

    def move(self, job: TrackedJob, ahead_of: int | None) -> None:
        """Put a waiting job before another one, or last; what was promised to waiting jobs holds no more."""
        self.renew(())
        del self.queue[job.spec.job_id]
        line = list(self.queue.values())
        line.insert(next((index for index, other in enumerate(self.queue) if other == ahead_of), len(line)), job)
        for place, other in zip(sorted([other.place for other in line]), line, strict=True):
            other.place = place
        self.requeue(job)

    def withdraw(self, job: TrackedJob) -> None:
        """Forget a waiting job."""
        job_id = job.spec.job_id
        del self.queue[job_id], self.jobs[job_id]
        self.touched.pop(job_id, None)
        self.reservations.pop(job_id, None)
        self.stale[job_id] = job
        self.changed = True

    def activate(self, job: TrackedJob) -> None:
        """Let a job that was ordered to start be the last one of those that hold nodes."""
        self.active[job.spec.job_id] = job
        job.turn, self.next_turn = self.next_turn, self.next_turn + 1

    def run(self, job: TrackedJob, now: float) -> None:
        """Let the walltime of a job that was ordered to start begin; that of one that is started anew goes on."""
        job.step(Step.STARTED)
        self.note(job)
        if job.started_s is None:
            job.started_s = now
            self.watch(job, job.expected_end_s + self.settings.walltime_grace_s)

    def watch(self, job: TrackedJob, time_s: float) -> None:
        """Look at ``job`` again at ``time_s``."""
        heapq.heappush(self.deadlines, (time_s, job.spec.job_id))

    def send(
        self, job: TrackedJob, kind: OrderKind, about: Allocation, count: int, note: Reason, ids: tuple[int, ...] = ()
    ) -> list[Effect]:
        """Give a job its next order, about these nodes; ``ids``: of the cores of each of them that it is to use."""
        job.step(_STEP_OF[kind])
        number, nodes = self.next_order, self.pool.name(about)
        job.order = PendingOrder(number, kind, nodes, about.ranks, count, core_ids=ids)
        job.note = note
        self.next_order += 1
        self.note(job)
        return [SendOrder(job.spec.job_id, number, kind, nodes, count, ids)]

    def kill(self, job: TrackedJob, outcome: Outcome, reason: str) -> list[Effect]:
        """Order a job that holds nodes to end; a job on its way out keeps its first reason."""
        if job.state is JobState.ENDING:
            return []
        job.step(Step.KILL)
        job.kill = (outcome, reason)
        job.note = f"ordered to end: {reason}"
        self.touch(job)
        return [KillJob(job.spec.job_id, reason)]

    def note_use(self, user: str, part: float) -> None:
        """Keep what a user's job used of its walltime. [D] Failed, cancelled and lost jobs say nothing about it."""
        if (used := self.past_use.get(user)) is None:
            used = self.past_use[user] = deque(maxlen=_HISTORY_JOBS)
        used.append(part)
        self.accuracy[user] = sum(used) / len(used)
