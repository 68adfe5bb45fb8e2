"""The scheduler: events in, effects out."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from scheduler_bridge.core import (
    advance_reservations,
    co_scheduling,
    handlers,
    history,
    invariants,
    limits,
    orders,
    snapshot,
)
from scheduler_bridge.core.events import Effect, Event, Outcome, WakeAt, batch_rank
from scheduler_bridge.core.history import Explanation, Histories, Moment, Remembered
from scheduler_bridge.core.nodes import NodePool
from scheduler_bridge.core.settings import Settings
from scheduler_bridge.core.snapshot import ReservationStatus, Snapshot
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.core.tracked import LIVE, JobState, PendingOrder
from scheduler_bridge.model import AdvanceReservation, Allocation
from scheduler_bridge.policies import Decision, Policy
from scheduler_bridge.policies.base import stands_until


class SchedulerCore:
    """Decides for one cluster. Pure and deterministic: the same events at the same times give the same effects.

    The caller reports what happens as events and carries the effects out. Reports that contradict what the core knows
    change nothing and are kept in ``anomalies``; reports that come too late, about a job that ended meanwhile, change
    nothing either. Methods raise ``KeyError`` for a job that the core does not know.

    Args:
        nodes: All nodes of the cluster, in the order in which they are to be used.
        policy: What decides.
        settings: Intervals and pauses.
        remember: The jobs whose histories are kept, for ``explanation``; it costs time and memory.
        prompt_starts: Jobs run at the instant at which they are ordered to start, and no ``JobStarted`` is reported for
            them; those that share nodes report it all the same.
        skip_idle_passes: Leave periodic passes out that would decide nothing, as far as the policy knows
            (``policies.base.stands_until``). The driver then reports each wake-up at its very time.
        tolerant: What the policy does wrong is left out, and said by ``policy_failure``: nothing is raised for it.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        policy: Policy,
        settings: Settings | None = None,
        *,
        remember: Remembered = frozenset(),
        prompt_starts: bool = False,
        skip_idle_passes: bool = False,
        tolerant: bool = False,
    ) -> None:
        self._state = SchedulerState(
            settings or Settings(), NodePool(nodes), prompt_starts, skips=skip_idle_passes, tolerant=tolerant
        )
        self._state.declare(policy)
        self._policy = policy
        self._histories = Histories(remember)
        self._now = float("-inf")

    @property
    def policy(self) -> Policy:
        """What decides."""
        return self._policy

    def use(self, policy: Policy, settings: Settings) -> None:
        """Let another policy decide from the next event on, whatever that is; nodes keep their cores and jobs.

        The limit on users' nodes stays, too.
        """
        self._policy = policy
        before = self._state.settings
        self._state.adopt(replace(settings, cores_per_node=before.cores_per_node, user_nodes=before.user_nodes))
        self._state.declare(policy)
        self._state.changed = True

    def save(self) -> tuple[SchedulerState, Histories, float]:
        """Return the whole state, to be pickled at once: it changes with the next event."""
        return self._state, self._histories, self._now

    @classmethod
    def resume(cls, saved: tuple[SchedulerState, Histories, float], policy: Policy) -> SchedulerCore:
        """Return a core that goes on where another one was saved."""
        core = cls((), policy)
        core._state, core._histories, core._now = saved
        return core

    @property
    def past_use(self) -> dict[str, list[float]]:
        """Per user, the used parts of the walltimes of the last jobs, the latest last."""
        return {user: list(used) for user, used in self._state.past_use.items()}

    def learn(self, past_use: Mapping[str, Iterable[float]]) -> None:
        """Begin with what is known of users from before; ``past_use`` of another core, as a rule."""
        for user, used in past_use.items():
            for part in used:
                self._state.note_use(user, part)
        self._state.view().reorder()  # some orders follow what is known of users

    @property
    def pool(self) -> NodePool:
        """The nodes: which there are, and who holds them; others than the core only look."""
        return self._state.pool

    @property
    def settings(self) -> Settings:
        """The parameters that hold now."""
        return self._state.settings

    @property
    def lent(self) -> tuple[str, ...]:
        """The nodes that are lent."""
        return self._state.pool.name(Allocation((self._state.pool.lent & self._state.pool.ranks,)))

    @property
    def idle_lent(self) -> tuple[str, ...]:
        """Those of them that no job holds."""
        return self._state.pool.name(Allocation((self._state.pool.idle_lent,)))

    @property
    def room_for_lent(self) -> int:
        """How many lent nodes more the jobs could use."""
        return handlers.room_for_lent(self._state) - self._state.pool.idle_lent.bit_count()

    @property
    def waiting(self) -> Iterable[int]:
        """The ids of the waiting jobs, in the order in which they are considered."""
        return self._state.queue

    def state(self, job_id: int) -> JobState:
        """Where a job is in its life."""
        return self._state.jobs[job_id].state

    def nodes_of(self, job_id: int) -> tuple[str, ...]:
        """The nodes that a job holds, those on order to arrive included."""
        return self._state.pool.name(self._state.jobs[job_id].allocation)

    def order(self, job_id: int) -> PendingOrder | None:
        """The order that a job has not answered yet."""
        return self._state.jobs[job_id].order

    def ended(self, job_id: int) -> tuple[Outcome, str] | None:
        """How a job ended and why; None if it has not."""
        job = self._state.jobs[job_id]
        return (job.outcome, job.reason) if job.outcome is not None else None

    @property
    def anomalies(self) -> tuple[str, ...]:
        """The last reports that contradicted what the core knew."""
        return tuple(self._state.anomalies)

    @property
    def policy_failure(self) -> str:
        """What the policy did wrong in the last pass; empty: nothing."""
        return self._state.failure

    def failed_answers(self) -> list[list[Decision]]:
        """Hand out, once, what the policy decided in the last batch, pass by pass, if it did something wrong in it."""
        answers, self._state.answers = self._state.answers, []
        return answers if self._state.failure else []

    def repeat(self, failure: str, answers: Iterable[list[Decision]]) -> None:
        """Take these answers of a policy that failed in the next batch: it may have been repaired since."""
        self._state.failure = failure
        self._state.script = deque(answers)

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event at ``now`` (seconds); see ``handle_batch``."""
        return self.handle_batch((event,), now)

    def handle_batch(self, events: Iterable[Event], now: float) -> list[Effect]:
        """Take all events of one instant and decide once.

        Ends come before submissions, cancellations last, whatever their order in ``events``.

        Raises:
            ValueError: ``now`` lies before an earlier call's.
            InfeasibleDecisionError: The policy decided what cannot be done, and the core is not tolerant.
            InvariantError: The state contradicts itself.
        """
        if now < self._now:
            raise ValueError(f"time went back from {self._now} s to {now} s")
        self._now = now
        state = self._state
        state.touched.clear()
        state.over.clear()
        state.answers.clear()
        effects: list[Effect] = []
        pass_s = math.inf if state.next_pass_s is None else due_pass_s(state, now)
        batch = list(events)
        if len(batch) > 1:
            batch.sort(key=batch_rank)
        for event in batch:
            effects += handlers.apply(state, event, now)
        if not state.calm:
            state.idle_until_s = -math.inf
        if state.armed_s is None or state.armed_s <= now or pass_s <= now:  # else nothing is due
            effects += ring_alarms(state, now)
        if state.sharing.unsettled or state.sharing.moved:
            effects += co_scheduling.settle(state, now)
        if state.pool.leaving:
            effects += handlers.vacate(state, now)
        if remembers := self._histories.remembered:
            self._histories.note(state, now)
        if state.changed or state.arrived:
            effects += self._pass(state, now)
            if remembers:
                self._histories.note(state, now)
                self._histories.note_waits(state, self._policy, now)
        state.script.clear()
        effects += arm_alarm(state)
        invariants.check_touched(state)
        return effects

    def _pass(self, state: SchedulerState, now: float) -> list[Effect]:
        """Let the policy decide, and carry it out."""
        view, interval_s = state.view_of_pass(), state.settings.pass_interval_s
        if not state.script:
            state.failure = ""
        if state.bookings:
            state.idle_until_s = -math.inf
            effects = advance_reservations.decide(state, self._policy, now)
        else:
            policy = limits.under(state, self._policy)
            decisions = policy.decide(view, now)
            idle = interval_s is not None and state.skips and orders.are_known(state, decisions)
            effects = orders.carry_out(state, decisions, now)
            if interval_s is not None:
                state.idle_until_s = stands_until(policy, view, now) if idle else -math.inf
        if state.failure:
            state.changed = True  # what comes next need not be about jobs: a restart, after the policy's repair
        if state.evolving_requests:
            effects += handlers.grant_evolving_requests(state, now)
        if state.pool.lent:
            effects += handlers.lend(state, now)
        if interval_s is not None:
            state.next_pass_s = now + interval_s if state.queue or state.active else None
        return effects

    @property
    def alarm_s(self) -> float | None:
        """When the core is to be woken, as things are; None: never. What it asked for last may be out of date."""
        return earliest_due_s(self._state)

    def core_ids(self, job_id: int) -> tuple[int, ...]:
        """Which cores of each of its nodes, in their order, a job may use, as bitsets of their ids."""
        return co_scheduling.core_ids(self._state, self._state.jobs[job_id])

    def check(self) -> None:
        """Check the whole state, node by node and job by job; an ``InvariantError`` if something does not hold."""
        invariants.check_all(self._state)

    def endings(self) -> Iterator[tuple[int, Outcome | None, float | None]]:
        """How and when (seconds) every job ended, by id; None for those that have not."""
        return ((job_id, job.outcome, job.ended_s) for job_id, job in self._state.jobs.items())

    def advance(self) -> tuple[ReservationStatus, ...]:
        """The advance reservations that are not over, the next one first."""
        return snapshot.advance(self._state)

    def reservation(self, name: str) -> AdvanceReservation | None:
        """The advance reservation of this name, if it is not over."""
        booking = self._state.bookings.get(name)
        return None if booking is None else booking.spec

    def forget(self) -> list[tuple[int, Outcome | None, float | None]]:
        """Forget the jobs that have ended in the last batch, and say how and when (seconds) they did, by id."""
        jobs, found = self._state.jobs, []
        for job in self._state.over:
            job_id = job.spec.job_id
            if jobs.get(job_id) is job:  # else its like was submitted again at once
                del jobs[job_id]
                found.append((job_id, job.outcome, job.ended_s))
        return found

    def snapshot(self, most_waiting: int | None = None) -> Snapshot:
        """A read-only picture of all nodes and jobs; of those that wait, only the first ``most_waiting``, or all."""
        return snapshot.take(self._state, self._policy, self._now, most_waiting)

    def explain(self, job_id: int) -> str:
        """Why the job waits, or what was last decided about it and why, or how it ended."""
        found = self.explanation(job_id)
        return f"job {job_id} is {found.state}: {found.text}"

    def moments(self, job_id: int) -> tuple[Moment, ...]:
        """What was decided about a job, also one that was withdrawn; empty if that is not remembered."""
        return self._histories.of(job_id)

    def explanation(self, job_id: int) -> Explanation:
        """Why the job is where it is, and how that came about if its history is remembered."""
        return history.explain(self._state, self._policy, self._histories, job_id, self._now)


# Alarms: what is due by time alone, and the wake-ups that are asked for -----------------------------------------------


def ring_alarms(state: SchedulerState, now: float) -> list[Effect]:
    """Do what is due at ``now``: end the jobs over their walltime; allow a pass where a pause or interval is over."""
    effects = advance_reservations.begin_and_end(state, now) if state.bookings else []
    while state.deadlines and state.deadlines[0][0] <= now:
        _, job_id = heapq.heappop(state.deadlines)
        job = state.jobs.get(job_id)
        if job is None or job.state not in LIVE:  # Over, or, after a node was lost, waiting again or withdrawn.
            continue
        state.changed = True
        if job.state is JobState.ADJUSTING or job_id in state.sharing.moved:
            continue  # Its end is predicted anew, when it has answered or in this very batch.
        if job.bound and job.started_s is not None and job.expected_end_s + state.settings.walltime_grace_s <= now:
            effects += state.kill(job, "timeout", f"over its walltime of {job.spec.walltime_s:g} s")
    if state.next_pass_s is not None and state.next_pass_s <= now:
        state.changed = True
    if state.armed_s is not None and state.armed_s <= now:
        state.armed_s = None
    return effects


def due_pass_s(state: SchedulerState, now: float) -> float:
    """When the next periodic pass is due, counting those before ``now`` as made that would have decided nothing."""
    if state.next_pass_s is None:
        return math.inf
    interval_s = state.settings.pass_interval_s
    while interval_s is not None and state.next_pass_s < min(now, state.idle_until_s):
        state.next_pass_s += interval_s  # as the passes themselves would have put it, also to the last bit
    return state.next_pass_s


def arm_alarm(state: SchedulerState) -> list[Effect]:
    """Ask to be woken at the earliest thing due, unless that was asked for already."""
    if state.armed_s is not None and state.deadlines and state.armed_s <= state.deadlines[0][0]:
        next_pass_s = state.next_pass_s
        if (next_pass_s is None or state.armed_s <= next_pass_s) and not state.bookings:
            return []
    due_s = earliest_due_s(state)
    if due_s is None or (state.armed_s is not None and state.armed_s <= due_s):
        return []
    state.armed_s = due_s
    return [WakeAt(due_s)]


def earliest_due_s(state: SchedulerState) -> float | None:
    """When the earliest thing is due by time alone; None: nothing is."""
    deadlines, jobs = state.deadlines, state.jobs
    while deadlines and ((job := jobs.get(deadlines[0][1])) is None or job.state not in LIVE):
        heapq.heappop(deadlines)
    if state.next_pass_s is None and not state.bookings:  # as mostly
        return deadlines[0][0] if deadlines else None
    times = [deadlines[0][0]] if deadlines else []
    if state.next_pass_s is not None and state.idle_until_s < math.inf:
        times.append(max(state.next_pass_s, state.idle_until_s))
    times += [booking.spec.end_s if booking.started else booking.spec.start_s for booking in state.bookings.values()]
    return min(times, default=None)
