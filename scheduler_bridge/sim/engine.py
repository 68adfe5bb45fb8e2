"""An event heap that carries out the core's effects with job models."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, assert_never

from scheduler_bridge.core import Explanation, Remembered, SchedulerCore, Settings
from scheduler_bridge.core.effects import (
    Effect,
    KeepNodes,
    KillJob,
    NodeLeft,
    Refuse,
    RefuseReservation,
    SendOrder,
    StartJob,
    WakeAt,
)
from scheduler_bridge.core.events import (
    Event,
    EvolvingRequest,
    GrowCompleted,
    JobEnded,
    JobStarted,
    JobSubmitted,
    MalleableReady,
    Outcome,
    ResizeFailed,
    ShrinkCompleted,
    WakeUp,
    WorkersChanged,
)
from scheduler_bridge.policies import Policy
from scheduler_bridge.sim.agenda import Agenda
from scheduler_bridge.sim.answering import answers
from scheduler_bridge.sim.models import JobRecord, SimJob
from scheduler_bridge.sim.result import Observer, Progress, SimResult, node_names
from scheduler_bridge.sim.running import Change, Run, SharingModel, Wish, share, without
from scheduler_bridge.sim.sizes import Sizes

_PROGRESS_BATCHES: Final = 500
_MAX_BATCHES: Final = 10_000
"""So many at one instant, each after the jobs have answered the one before, are taken for an endless loop."""


def _check_ids(job_ids: Iterable[int]) -> None:
    met: set[int] = set()
    for job_id in job_ids:
        if job_id in met:
            raise ValueError(f"two jobs have the id {job_id}")
        met.add(job_id)


class Engine:
    """Simulates one cluster until nothing is left to happen.

    Args:
        nodes: The cluster's nodes; a number makes ``n0000``, ``n0001`` and so on.
        policy: What decides.
        settings: The core's parameters.
        observer: Sees every batch.
        check: Check the core's whole state after every batch.
        remember: The jobs whose histories are kept, for ``SimResult.explanations``.
        tick_s: The scheduler sees what has happened, and decides, at multiples of this time only; 0: at once.
        progress: Told now and then when it is and how many jobs are over.
        sharing: How fast jobs are that have not all cores of their nodes [2019 paper, section 3.4]: ``ideal``: as many
            cores as they use, compared with all of their nodes'; ``worst``: as on the node where they use fewest.
        forgets: ``core`` knows nothing of jobs that have ended, which saves memory.

    Raises:
        ValueError: ``tick_s`` is negative.
    """

    def __init__(
        self,
        nodes: int | Sequence[str],
        policy: Policy,
        settings: Settings | None = None,
        *,
        observer: Observer | None = None,
        check: bool = False,
        remember: Remembered = frozenset(),
        tick_s: float = 0.0,
        progress: Progress | None = None,
        sharing: SharingModel = "ideal",
        forgets: bool = False,
    ) -> None:
        if tick_s < 0:
            raise ValueError(f"tick_s is {tick_s}, must not be negative")
        names = node_names(nodes) if isinstance(nodes, int) else nodes
        self._make_core = partial(SchedulerCore, names, policy, settings, remember=remember)
        self._remember = remember
        self._core: SchedulerCore
        self._prompt = False
        self._started: list[Event] = []  # by the last batch, without a delay
        self._observer = observer
        self._check = check
        self._tick_s = tick_s
        self._sharing = sharing
        self._forgets = forgets
        self._cores_per_node = (settings or Settings()).cores_per_node
        self._user_nodes = (settings or Settings()).user_nodes
        self._progress = progress
        self._over = 0
        self._here_s, self._here = math.nan, 0  # the instant, and its batches after the first
        self._wake_s = math.inf  # the earliest time that the core asked for
        self._now = 0.0
        self._batches = self._events = 0
        self._submissions: deque[SimJob] = deque()
        self._agenda = Agenda()
        self._at_once: list[tuple[Event | Change | Wish, Run, int]] = []  # of this instant, for its next batch
        self._sims: dict[int, SimJob] = {}  # of the jobs that wait
        self._runs: dict[int, Run] = {}
        self._records: dict[int, JobRecord] = {}

    def run(self, jobs: Iterable[SimJob], disturbances: Iterable[tuple[float, Event]] = ()) -> SimResult:
        """Run ``jobs`` and let ``disturbances`` (time in seconds, event) happen.

        Jobs of one instant are submitted in the order of their ids, whatever their order in ``jobs``.

        Raises:
            ValueError: Two jobs have the same id.
        """
        self._submissions.extend(sorted(jobs, key=lambda sim: (sim.spec.submit_s, sim.spec.job_id)))
        del jobs  # what a job is like is forgotten when it is over
        _check_ids(sim.spec.job_id for sim in self._submissions)
        self._prompt = not any(sim.start_delay_s for sim in self._submissions)
        # with a tick, passes are made later than they are due
        self._core = self._make_core(prompt_starts=self._prompt, skip_idle_passes=not self._tick_s)
        for time_s, event in disturbances:
            self._push(time_s, event)
        while self._at_once or self._submissions or self._wake_s < math.inf or len(self._agenda) > 0:
            self._step()
        self._note_ends(self._core.endings())
        return SimResult(self._records, self._now, self._batches, self._events, self._explanations())

    @property
    def core(self) -> SchedulerCore:
        """The scheduler, as it is now: after ``run`` as it was at the end."""
        return self._core

    def _explanations(self) -> dict[int, Explanation]:
        kept = self._records if self._remember == "all" else self._remember
        return {job_id: self._core.explanation(job_id) for job_id in kept if job_id in self._records}

    def _push(self, time_s: float, event: Event | Change | Wish, run: Run | None = None) -> None:
        if run is not None and time_s == self._now:
            self._at_once.append((event, run, run.version))
            return
        self._agenda.push(time_s, event, run)

    def _step(self) -> None:
        """Hand everything that happens at the next instant to the core, and do what it wants."""
        events = self._next_events()
        if not events:
            return
        now = self._now
        effects = self._core.handle_batch(events, now)
        self._batches += 1
        self._events += len(events)
        if now == self._here_s:
            self._settle()
        else:
            self._here_s, self._here = now, 0
        if self._progress is not None and self._batches % _PROGRESS_BATCHES == 0:
            self._progress(self._now, self._over)
        if self._check:
            self._core.check()
        if self._observer is not None:
            self._observer(now, events, effects)
        for effect in effects:
            if isinstance(effect, StartJob):  # the most frequent
                self._start(effect)
            else:
                self._do(effect)
        if self._forgets and (over := self._core.forget()):
            self._note_ends(over)
        if self._started:
            if self._observer is not None:
                self._observer(self._now, self._started, ())
            self._started.clear()

    def _settle(self) -> None:
        """Count the batches of this instant: a policy that takes back what it did would go on for ever."""
        self._here += 1
        if self._here >= _MAX_BATCHES:
            name = self._core.policy.name
            raise RuntimeError(f"{name} does not come to an end at {self._now} s: {self._here} passes")

    def _next_events(self) -> list[Event]:
        """What happens next: what the last batch brought about at once, or all that falls on the next instant."""
        events: list[Event] = []
        if self._at_once:
            due, self._at_once = self._at_once, []
            for event, at_once, version in due:
                self._add(event, at_once, version, events)
            return events
        agenda, submissions = self._agenda, self._submissions
        now = agenda.next_s()
        if submissions and submissions[0].spec.submit_s < now:
            now = submissions[0].spec.submit_s
        if self._wake_s <= now:  # unless the jobs that it wanted to look at have ended since
            alarm_s = self._core.alarm_s
            self._wake_s = math.inf if alarm_s is None else alarm_s
            now = min(now, self._wake_s)
        if now == math.inf:  # what was left is outdated
            return events
        if self._tick_s:
            now = max(now, math.ceil(now / self._tick_s) * self._tick_s)  # rounding must not put it before the event
        while submissions and submissions[0].spec.submit_s <= now:
            sim = submissions.popleft()
            if self._user_nodes is not None and sim.spec.min_nodes > self._user_nodes:  # nobody would take it
                self._records[sim.spec.job_id] = JobRecord(sim.spec, refused=True)
            else:
                events.append(self._submit(sim))
        while (found := agenda.pop(now)) is not None:
            self._now, event, run = found
            self._add(event, run, run.version if run is not None else 0, events)
        self._now = now
        if self._wake_s <= now:
            self._wake_s = math.inf
            events.append(WakeUp())
        return events

    def _submit(self, sim: SimJob) -> Event:
        spec = sim.spec
        self._sims[spec.job_id], self._records[spec.job_id] = sim, JobRecord(spec)
        return JobSubmitted(spec)

    def _add(self, event: Event | Change | Wish, run: Run | None, version: int, events: list[Event]) -> None:
        """Let ``event`` happen, and add what the scheduler sees of it."""
        if run is not None and isinstance(event, JobEnded):  # by far the most frequent
            if version == run.version and not run.over:
                self._end(run)
                events.append(event)
            return
        if isinstance(event, EvolvingRequest):
            run = self._runs.get(event.job_id)  # only a job that runs can ask
            if run is None:
                return
        if run is None:
            assert not isinstance(event, Change | Wish)
            events.append(event)
        elif isinstance(event, Change):
            if not run.over:
                self._go_on(run, event.nodes)
        elif isinstance(event, Wish):
            if not run.over and version == run.version:
                events.append(EvolvingRequest(event.job_id, run.sim.wishes[run.wishes][1]))
                run.wishes += 1
                self._foresee_wish(run)
        elif not run.over:
            self._happens(event, run)
            events.append(event)

    def _happens(self, event: Event, run: Run) -> None:
        """Let the job live through ``event``."""
        record = self._records[run.sim.spec.job_id]
        match event:
            case JobStarted():
                self._begin(run, record)
            case GrowCompleted(nodes=nodes):
                run.nodes += nodes
                record.grows += 1
                self._arrived(run, record)
                record.sizes.append(self._now, len(run.nodes))
                self._go_on(run, len(run.nodes))
            case ShrinkCompleted(nodes=nodes):
                run.nodes = without(run.nodes, nodes)
                record.shrinks += 1
                record.sizes.append(self._now, len(run.nodes))
                self._go_on(run, len(run.nodes))
            case WorkersChanged():
                self._use(run, run.told_cores, record)
            case ResizeFailed():
                self._arrived(run, record)
                if run.rate == 0:
                    self._go_on(run, len(run.nodes))
            case _:
                pass

    def _end(self, run: Run) -> None:
        """Nothing of the job is left."""
        job_id = run.sim.spec.job_id
        record = self._records[job_id]
        run.over = True
        self._runs.pop(job_id, None)
        self._over += 1
        record.end_s = self._now
        if run.growing is not None:
            self._arrived(run, record)
        if record.start_s is None:
            record.reserve(run.told_s, self._now, len(run.nodes))

    def _begin(self, run: Run, record: JobRecord) -> None:
        """The job computes from now on."""
        record.start_s = self._now
        record.reserve(run.told_s, self._now, len(run.nodes))
        if record.sizes:  # it has run before
            record.sizes = Sizes()
        record.sizes.append(self._now, len(run.nodes))
        if run.sim.startup is not None:
            run.computes_s = self._now + run.sim.startup(len(run.nodes))
            self._push(run.computes_s, Change(run.sim.spec.job_id, len(run.nodes)), run)
        if run.cores:
            self._use(run, run.cores, record)
        else:
            self._go_on(run, len(run.nodes))

    def _use(self, run: Run, cores: tuple[int, ...], record: JobRecord) -> None:
        """Go on with so many cores of each node."""
        run.cores = cores
        if cores:
            record.shares += ((self._now, sum(cores) / (len(cores) * self._cores_per_node)),)
        self._go_on(run, len(run.nodes))

    def _arrived(self, run: Run, record: JobRecord) -> None:
        """Nodes are not held for a growing job any more: it uses them, or they go back."""
        if run.growing is not None:
            since_s, nodes = run.growing
            record.reserve(since_s, self._now, nodes)
            run.growing = None

    def _go_on(self, run: Run, nodes: int) -> None:
        """Compute on ``nodes`` nodes from now on, or stand still on 0, and predict the end."""
        now = self._now
        if now < run.computes_s:
            return
        if run.rate:
            run.left_s = run.left_at(now)
        run.rate, run.since_s = run.sim.rate(nodes) if nodes else 0.0, now
        if run.cores:
            run.rate *= share(run.cores, self._cores_per_node, self._sharing)
        if run.killed:
            return  # its end is certain, whatever it computes until then
        run.version += 1
        if nodes:
            self._push(now + run.left_s / run.rate, JobEnded(run.sim.spec.job_id, "completed"), run)
            if run.sim.wishes:
                self._foresee_wish(run)

    def _foresee_wish(self, run: Run) -> None:
        """Predict when the job asks for nodes next."""
        if run.wishes < len(run.sim.wishes):
            share, _ = run.sim.wishes[run.wishes]
            ahead_s = run.left_at(self._now) - (1.0 - share) * run.sim.runtime_s
            self._push(self._now + max(0.0, ahead_s) / run.rate, Wish(run.sim.spec.job_id), run)

    def _do(self, effect: Effect) -> None:
        match effect:
            case WakeAt():
                self._wake_s = min(self._wake_s, effect.time_s)
            case StartJob():
                self._start(effect)
            case SendOrder():
                self._order(effect, self._runs[effect.job_id])
            case KillJob():
                run = self._runs[effect.job_id]
                run.version += 1
                run.killed = True
                self._push(self._now + run.sim.kill_delay_s, JobEnded(effect.job_id, "failed", "killed"), run)
            case KeepNodes() | NodeLeft() | RefuseReservation():
                pass
            case Refuse():
                if effect.job_id not in self._runs:
                    self._records[effect.job_id].refused = True
            case _:
                assert_never(effect)

    def _start(self, effect: StartJob) -> None:
        sim = self._sims.pop(effect.job_id)
        run = self._runs[effect.job_id] = Run(sim, effect.nodes, sim.runtime_s, self._now, cores=effect.cores)
        starts_s = self._now + sim.start_delay_s
        if self._prompt and not effect.cores:
            self._begin(run, self._records[effect.job_id])
            self._started.append(JobStarted(effect.job_id))
        else:
            self._push(starts_s, JobStarted(effect.job_id), run)
        if sim.spec.is_malleable and sim.ready_delay_s is not None:
            self._push(starts_s + sim.ready_delay_s, MalleableReady(effect.job_id), run)

    def _order(self, order: SendOrder, run: Run) -> None:
        for time_s, what in answers(order, run, self._now):
            if isinstance(what, Change) and what.nodes and time_s <= self._now:
                self._go_on(run, what.nodes)
            else:
                self._push(time_s, what, run)

    def _note_ends(self, endings: Iterable[tuple[int, Outcome | None, float | None]]) -> None:
        """Copy how the core saw ends into the records."""
        for job_id, outcome, end_s in endings:
            record = self._records[job_id]
            record.outcome = outcome
            if record.end_s is None:  # it was cancelled while it waited, or is not over
                record.end_s = end_s


def simulate(
    nodes: int | Sequence[str],
    policy: Policy,
    jobs: Iterable[SimJob],
    disturbances: Iterable[tuple[float, Event]] = (),
    settings: Settings | None = None,
) -> SimResult:
    """Run ``jobs`` on ``nodes`` under ``policy``; see ``Engine``."""
    return Engine(nodes, policy, settings).run(jobs, disturbances)
