"""An event heap that carries out the core's effects with job models."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, assert_never

from msgspec import structs

from scheduler_bridge.core import Explanation, JobState, Remembered, SchedulerCore, Settings
from scheduler_bridge.core import events as ev
from scheduler_bridge.core.nodes import NumberedNodes
from scheduler_bridge.model import wording
from scheduler_bridge.policies import Policy, PolicyError
from scheduler_bridge.sim.agenda import Agenda, HeldBack, Occurrence, Submissions, taken
from scheduler_bridge.sim.failures import FaultTolerance, Losses, Risk, as_it_is
from scheduler_bridge.sim.jobs import (
    ALL,
    Change,
    Observer,
    Progress,
    Release,
    Run,
    SharingModel,
    SimRecord,
    SimResult,
    Simulated,
    Wish,
    share,
    without,
)

_PROGRESS_BATCHES: Final = 500
_GIVES_UP: Final = FaultTolerance(requeue=False)
_MAX_BATCHES: Final = 10_000
"""More at one instant, each after the jobs have answered the one before, are taken for an endless loop."""
_MANY_NODES: Final = 100_000
"""Up to this number of nodes their names are kept; above, they are made anew each time that a job starts."""


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
        progress: Called now and then with the time and how many jobs are over.
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
        self._started: list[ev.Event] = []  # by the last batch, without a delay, for the observer
        self._observer = observer
        self._check = check
        self._tick_s = tick_s
        self._sharing = sharing
        self._forgets = forgets
        self._progress = progress
        self._over = 0
        self._failures = 0
        self._held_back: HeldBack | None = None
        self._killed: list[Run] = []  # those whose ends the core has yet to judge
        self._again: dict[int, float] = {}  # what is left of jobs that wait to be run again
        self._here_s, self._here = math.nan, 0  # the instant, and its batches after the first
        self._wake_s = math.inf  # the earliest time that the core asked for
        self._now = 0.0
        self._batches = self._events = 0
        self._submissions = Submissions((), prompt=True)
        self._agenda = Agenda()
        self._at_once: list[tuple[Occurrence, Run | None, int]] = []  # of this instant, for its next batch
        self._waiting: dict[int, Simulated] = {}
        self._runs: dict[int, Run] = {}
        self._records: dict[int, SimRecord] = {}
        self._refusals: dict[int, str] = {}

    def run(
        self, jobs: Iterable[Simulated] | Submissions, disturbances: Iterable[tuple[float, ev.Event]] = ()
    ) -> SimResult:
        """Run ``jobs`` and let ``disturbances`` (time in seconds, event) happen.

        Jobs of one instant are submitted in the order of their ids, whatever their order in ``jobs``.

        Raises:
            ValueError: Two jobs have the same id.
        """
        self._submissions = jobs if isinstance(jobs, Submissions) else self._in_order(jobs)
        del jobs  # what a job is like is forgotten when it is over
        self._prompt = self._submissions.prompt
        # with a tick, passes are made later than they are due
        self._core = self._make_core(prompt_starts=self._prompt, skip_idle_passes=not self._tick_s)
        for time_s, event in disturbances:
            self._push(time_s, event)
        while (events := self._next_events()) is not None:
            if events:
                self._step(events)
        self._note_ends(self._core.endings())
        if self._held_back is not None:  # some wait for jobs that never ended
            self._records.update({job.job_id: SimRecord(job.spec()) for job, _ in self._held_back.kept.values()})
        kept = self._records if self._remember == "all" else self._remember
        explanations = {job_id: self._explanation(job_id) for job_id in kept if job_id in self._records}
        return SimResult(self._records, self._now, self._batches, self._events, explanations, self._failures)

    def _explanation(self, job_id: int) -> Explanation:
        """Why a job is where it is. Of those that were refused, or not let in yet, the core knows nothing."""
        spec = self._records[job_id].spec
        if job_id in self._refusals:
            state, text = JobState.ENDED, f"refused: {self._refusals[job_id]}"
        elif self._held_back is not None and job_id in self._held_back.kept:
            state, text = JobState.QUEUED, "it waits for the end of other jobs"
        else:
            return self._core.explanation(job_id)
        return Explanation(job_id, spec.label, state, self._now, text, (), None, (), ())

    def _in_order(self, jobs: Iterable[Simulated]) -> Submissions:
        found = deque(sorted(jobs, key=lambda simulated: (simulated[0].submit_s, simulated[0].job_id)))
        prompt = not any(dynamics.start_delay_s for _, dynamics in found)
        if any(job.comes_after for job, _ in found):
            self._held_back = HeldBack(found)
            found = self._held_back.free
        return Submissions(taken(found), prompt=prompt)

    @property
    def core(self) -> SchedulerCore:
        """The scheduler, as it is now: after ``run`` as it was at the end."""
        return self._core

    def _push(self, time_s: float, event: ev.Event | Change | Wish, run: Run | None = None) -> None:
        if run is not None and time_s == self._now:
            self._at_once.append((event, run, run.version))
            return
        self._agenda.push(time_s, event, run)

    def _step(self, events: list[ev.Event]) -> None:
        """Hand everything that happens at an instant to the core, and do what it wants."""
        now = self._now
        effects = self._core.handle_batch(events, now)
        self._batches += 1
        self._events += len(events)
        if self._killed:
            events = self._judged(events)
        self._here_s, self._here = now, self._here + 1 if now == self._here_s else 0
        if self._here >= _MAX_BATCHES:  # a policy that takes back what it did would go on for ever
            name = self._core.policy.name
            raise PolicyError(f"policy {name} does not come to an end at {now:g} s: {self._here} passes")
        if self._progress is not None and self._batches % _PROGRESS_BATCHES == 0:
            self._progress(self._now, self._over)
        if self._check:
            self._core.check()
        if self._observer is not None:
            self._observer(now, events, effects)
        for effect in effects:
            if isinstance(effect, ev.StartJob):  # the most frequent
                self._start(effect)
            else:
                self._do(effect)
        if self._held_back is not None:
            self._open(self._held_back, events, effects)
        if self._forgets:
            self._note_ends(self._core.forget())
        if self._started and self._observer is not None:
            self._observer(self._now, self._started, ())
            self._started.clear()

    def _next_events(self) -> list[ev.Event] | None:
        """What happens next: what the last batch brought about at once, or all that falls on the next instant.

        None: nothing does.
        """
        events: list[ev.Event] = []
        if self._at_once:
            due, self._at_once = self._at_once, []
            for event, at_once, version in due:
                self._add(event, at_once, version, events)
            return events
        agenda, submissions = self._agenda, self._submissions
        now = due_s = agenda.next_s()
        if submissions.next_s < now:
            now = submissions.next_s
        if self._wake_s <= now:  # unless the jobs that it wanted to look at have ended since
            alarm_s = self._core.alarm_s
            self._wake_s = math.inf if alarm_s is None else max(alarm_s, self._now)  # it may be overdue
            now = min(now, self._wake_s)
        if now == math.inf:
            return None
        if self._tick_s:
            now = max(now, math.ceil(now / self._tick_s) * self._tick_s)  # rounding must not put it before the event
        while submissions.next_s <= now:
            simulated = submissions.pop()
            self._take(simulated, simulated[0].submit_s, events)
        if due_s <= now or self._held_back is not None:  # jobs that come after a refused one may come now
            while (found := agenda.pop(now)) is not None:
                self._now, event, run = found
                self._add(event, run, run.version if run is not None else 0, events)
        self._now = now
        if self._wake_s <= now:
            self._wake_s = math.inf
            events.append(ev.WakeUp())
        return events

    def _take(self, simulated: Simulated, now: float, events: list[ev.Event]) -> None:
        spec = simulated[0].spec()
        job_id = spec.job_id
        if job_id in self._records:
            raise ValueError(f"two jobs have the id {job_id}")
        most = self._core.settings.user_nodes
        if most is not None and spec.min_nodes > most:  # the live scheduler refuses it, too
            self._records[job_id] = SimRecord(spec, refused=True)
            self._refusals[job_id] = f"job {job_id} needs {wording.nodes(spec.min_nodes)}, a user may have {most}"
            if self._held_back is not None:
                self._pass_on(self._held_back, job_id, completed=False, now=now)
        else:
            self._waiting[job_id], self._records[job_id] = simulated, SimRecord(spec)
            events.append(ev.JobSubmitted(spec))

    def _release(self, release: Release, events: list[ev.Event]) -> None:
        """A job that came after others is submitted. [D] It waits from now on."""
        job = release.job
        if self._now > job.submit_s:
            job = structs.replace(job, submit_s=self._now)
        self._take((job, release.dynamics), self._now, events)
        if release.reason and not self._records[job.job_id].refused:
            events.append(ev.CancelJob(job.job_id, release.reason))

    def _open(self, held_back: HeldBack, events: Sequence[ev.Event], effects: Sequence[ev.Effect]) -> None:
        """Let jobs in that come after those that ended in a batch."""
        for event in events:
            if not isinstance(event, ev.JobEnded | ev.CancelJob):
                continue
            job_id, cancelled = event.job_id, isinstance(event, ev.CancelJob)
            if cancelled != (job_id in self._waiting):
                continue  # it waits to be run again; or it is cancelled while it runs, and ends later
            ended = self._core.ended(job_id)
            if ended is None or (cancelled and ended[0] != "cancelled"):
                continue
            if cancelled:
                del self._waiting[job_id]
                if self._observer is not None:
                    self._observer(self._now, [ev.JobEnded(job_id, *ended)], ())
            self._pass_on(held_back, job_id, completed=ended[0] == "completed", now=self._now)
        for effect in effects:
            if isinstance(effect, ev.Refuse) and self._records[effect.job_id].refused:
                self._pass_on(held_back, effect.job_id, completed=False, now=self._now)

    def _pass_on(self, held_back: HeldBack, job_id: int, *, completed: bool, now: float) -> None:
        for time_s, release in held_back.ended(job_id, completed=completed, now=now):
            self._agenda.push(time_s, release, None)

    def _add(self, event: Occurrence, run: Run | None, version: int, events: list[ev.Event]) -> None:
        """Let ``event`` happen, and add what the scheduler sees of it."""
        if run is not None and isinstance(event, ev.JobEnded):  # by far the most frequent
            if version == run.version and not run.over:
                self._end(run)
                events.append(event)
            return
        if isinstance(event, ev.EvolvingRequest):
            run = self._runs.get(event.job_id)  # only a job that runs can ask
            if run is None:
                return
        if run is None:
            self._comes(event, events)
        elif isinstance(event, Change):
            if not run.over:
                self._go_on(run, event.nodes if event.nodes != ALL else len(run.nodes))
        elif isinstance(event, Wish):
            if not run.over and version == run.version:
                self._wish(run, events)
        elif not run.over:
            assert not isinstance(event, Release)
            events.append(self._happens(event, run))

    def _comes(self, event: Occurrence, events: list[ev.Event]) -> None:
        """Let an event happen that no running job brings about."""
        if isinstance(event, ev.NodeDown):
            self._fail(event, events)
        elif isinstance(event, Release):
            self._release(event, events)
        else:
            assert not isinstance(event, Change | Wish)
            events.append(event)

    def _happens(self, event: ev.Event, run: Run) -> ev.Event:
        """Let the job live through ``event``; return what the scheduler sees of it."""
        record = self._records[run.job.job_id]
        if run.dead and isinstance(event, ev.GrowCompleted | ev.ShrinkCompleted):
            event = as_it_is(event, run.nodes, run.dead)
        match event:
            case ev.JobStarted():
                self._begin(run, record)
            case ev.GrowCompleted(nodes=nodes):
                run.nodes += nodes
                record.grows += 1
                self._arrived(run, record)
                record.sizes.append(self._now, len(run.nodes))
                self._go_on(run, len(run.nodes))
            case ev.ShrinkCompleted(nodes=nodes):
                run.nodes = without(run.nodes, nodes)
                record.shrinks += 1
                record.sizes.append(self._now, len(run.nodes))
                self._go_on(run, len(run.nodes))
            case ev.WorkersChanged():
                self._use(run, run.ordered_cores, record)
            case ev.ResizeFailed():
                self._arrived(run, record)
                self._answer(run, 0)
                if run.rate == 0 or run.dead:
                    self._go_on(run, len(run.nodes))
            case _:
                pass
        return event

    def _end(self, run: Run) -> None:
        """Nothing of the job is left."""
        job_id = run.job.job_id
        record = self._records[job_id]
        run.over = True
        self._runs.pop(job_id, None)
        self._over += 1
        record.end_s = self._now
        if run.arriving:
            self._arrived(run, record)
        if run.risk is not None:
            self._settle_work(run, run.risk)
        if run.killed:
            self._killed.append(run)
        if not run.begun:
            record.reserve(run.ordered_s, self._now, len(run.nodes))

    def _begin(self, run: Run, record: SimRecord) -> None:
        """The job computes from now on."""
        now, nodes = self._now, len(run.nodes)
        run.begun = True
        if now > run.ordered_s:
            record.reserve(run.ordered_s, now, nodes)
        if record.start_s is None:
            record.start_s = now
        record.sizes.append(now, nodes)
        if (risk := run.risk) is not None:
            again = risk.losses.restarts > 0
            risk.losses.wait_over(now)
            run.computes_s = now + risk.begin(now, nodes, again=again)
            if again and record.shares and not run.cores:
                record.shares += ((now, 1.0),)
        if run.dynamics.startup is not None:
            run.computes_s = max(run.computes_s, now) + run.dynamics.startup(nodes)
        if run.computes_s > now:
            self._push(run.computes_s, Change(ALL), run)
        if run.cores:
            self._use(run, run.cores, record)
        else:
            self._go_on(run, nodes)

    def _use(self, run: Run, cores: tuple[int, ...], record: SimRecord) -> None:
        """Go on with these numbers of cores, by node."""
        run.cores = cores
        if cores:
            record.shares += ((self._now, sum(cores) / (len(cores) * self._core.settings.cores_per_node)),)
        self._go_on(run, len(run.nodes))

    def _arrived(self, run: Run, record: SimRecord) -> None:
        """Nodes are not held for a growing job any more: it uses them, or they go back."""
        record.reserve(run.held_from_s, self._now, len(run.arriving))
        run.arriving = ()

    def _go_on(self, run: Run, nodes: int) -> None:
        """Compute on ``nodes`` nodes from now on, or stand still on 0, and predict the end."""
        now = self._now
        if now < run.computes_s:
            if run.risk is not None:
                run.risk.resized(now, len(run.nodes), self._weight(run, len(run.nodes)))
            return
        if (risk := run.risk) is not None:
            self._settle_work(run, risk)
            risk.nodes, risk.weight = nodes, self._weight(run, nodes)
        elif run.rate:
            run.left_s = run.left_at(now)
        run.rate, run.since_s = run.rate_on(nodes) if nodes else 0.0, now
        if run.cores:
            run.rate *= share(run.cores, self._core.settings.cores_per_node, self._sharing)
        if run.killed:
            return  # its end is certain, whatever it computes until then
        run.version += 1
        if nodes:
            takes_s = run.left_s / run.rate if risk is None else run.takes_s(run.left_s)
            self._push(now + takes_s, ev.JobEnded(run.job.job_id, "completed"), run)
            if run.job.wishes or run.job.target_efficiency:
                self._foresee_wish(run)

    def _wish(self, run: Run, events: list[ev.Event]) -> None:
        """The job is where it asks for nodes, or looks at itself to see how many it wants."""
        if not run.job.target_efficiency:
            events.append(ev.EvolvingRequest(run.job.job_id, run.job.wishes[run.wishes][1]))
            run.wishes += 1
        elif wanted := run.look(self._now):
            events.append(ev.EvolvingRequest(run.job.job_id, wanted))
            return  # it looks again when it is answered
        self._foresee_wish(run)

    def _answer(self, run: Run, granted: int) -> None:
        """A job that sizes itself is answered: by an order, a refusal, or the failure of the order."""
        if not run.wanted or granted * run.wanted < 0:
            return  # it has not asked for that
        run.sizing().answered(granted, self._now)
        if not granted:
            run.wanted = 0
            self._foresee_wish(run)

    def _foresee_wish(self, run: Run) -> None:
        """Predict when the job asks for nodes next."""
        if run.job.target_efficiency:
            next_s = run.sizing().next_s(self._now)
            if next_s < math.inf:
                self._push(next_s, Wish(), run)
        elif run.wishes < len(run.job.wishes):
            share, _ = run.job.wishes[run.wishes]
            ahead_s = run.left_at(self._now) - (1.0 - share) * run.job.runtime_s
            self._push(self._now + run.takes_s(max(0.0, ahead_s)), Wish(), run)

    def _do(self, effect: ev.Effect) -> None:
        match effect:
            case ev.WakeAt():
                self._wake_s = min(self._wake_s, effect.time_s)
            case ev.StartJob():
                self._start(effect)
            case ev.SendOrder():
                self._order(effect, self._runs[effect.job_id])
            case ev.KillJob():
                run = self._runs[effect.job_id]
                run.version += 1
                run.killed = True
                self._push(self._now + run.dynamics.kill_delay_s, ev.JobEnded(effect.job_id, "failed", "killed"), run)
            case ev.KeepNodes() | ev.NodeLeft() | ev.RefuseReservation():
                pass
            case ev.Refuse():
                if self._waiting.pop(effect.job_id, None) is not None:
                    self._records[effect.job_id].refused = True
                    self._refusals[effect.job_id] = effect.reason
                elif (asking := self._runs.get(effect.job_id)) is not None:
                    self._answer(asking, 0)
            case _:
                assert_never(effect)

    def _start(self, effect: ev.StartJob) -> None:
        job, dynamics = self._waiting.pop(effect.job_id)
        cores = tuple([ids.bit_count() for ids in effect.core_ids])
        run = Run(job, dynamics, effect.nodes, job.runtime_s, self._now, cores=cores)
        self._runs[effect.job_id] = run
        if (tolerance := dynamics.tolerance) is not None and (effect.job_id in self._again or tolerance.at_risk):
            self._expose(run, tolerance)
        starts_s = self._now + dynamics.start_delay_s
        if self._prompt and not cores:
            self._begin(run, self._records[effect.job_id])
            if self._observer is not None:
                self._started.append(ev.JobStarted(effect.job_id))
        else:
            self._push(starts_s, ev.JobStarted(effect.job_id), run)
        if job.is_malleable and dynamics.ready_delay_s is not None:
            self._push(starts_s + dynamics.ready_delay_s, ev.MalleableReady(effect.job_id), run)

    # failures -------------------------------------------------------------------------------------------------------

    def _fail(self, event: ev.NodeDown, events: list[ev.Event]) -> None:
        """A node fails. Its jobs end, unless all of them can do without it."""
        self._failures += 1
        node = event.node
        found = [self._runs[job_id] for job_id in self._core.pool.holders(node) if job_id in self._runs]
        hit = [run for run in found if node in run.nodes or node in run.arriving]
        if not hit or not all(_does_without(run, node) for run in hit):
            events.append(event)
            return
        events.append(ev.NodeDrained(node))
        for run in hit:
            run.dead += (node,)
            if node in run.nodes:  # else the grow under way goes without it
                self._lose(run, node)
                events.append(ev.NodesLost(run.job.job_id, (node,), f"node {node} is out of service"))

    def _lose(self, run: Run, node: str) -> None:
        """The job goes on without a node; what that had done, and is not kept, it does again."""
        now, risk, record = self._now, run.risk, self._records[run.job.job_id]
        assert risk is not None
        stands = run.rate == 0 and now >= run.computes_s  # a resize goes on
        uses = risk.nodes
        self._settle_work(run, risk)
        part = 1.0 / len(run.nodes)
        risk.lose(record.held_node_s(risk.from_s, now), now, part)
        run.left_s += (risk.kept_s - run.left_s) * part
        run.nodes = without(run.nodes, (node,))
        record.sizes.append(now, len(run.nodes))
        if stands:
            return
        restart_s = risk.restart(now)
        if now < run.computes_s or restart_s > 0:
            run.computes_s = max(run.computes_s, now + restart_s)
            run.rate, run.since_s = 0.0, now
            risk.nodes, risk.weight = len(run.nodes), float(len(run.nodes))
            run.version += 1
            self._push(run.computes_s, Change(ALL), run)
        else:
            self._go_on(run, max(1, min(uses - 1, len(run.nodes))))

    def _judged(self, events: list[ev.Event]) -> list[ev.Event]:
        """The events with what the core makes of ends by its own kills; jobs that are lost may be run again."""
        for run in self._killed:
            job_id = run.job.job_id
            if (ended := self._core.ended(job_id)) is None:
                continue
            events = [
                ev.JobEnded(job_id, *ended) if isinstance(event, ev.JobEnded) and event.job_id == job_id else event
                for event in events
            ]
            if ended[0] == "lost":
                self._lost(run)
        self._killed.clear()
        return events

    def _lost(self, run: Run) -> None:
        """The job has ended because a node failed."""
        job_id, tolerance = run.job.job_id, run.dynamics.tolerance or _GIVES_UP
        record = self._records[job_id]
        ended_s = self._now if record.end_s is None else record.end_s  # with a tick, it is later when that is seen
        if (risk := run.risk) is None:
            risk = self._expose(run, tolerance)
            risk.from_s = ended_s if record.start_s is None else record.start_s  # else it would have been at risk
        risk.lose(record.held_node_s(risk.from_s, ended_s) if run.begun else 0.0, ended_s)
        losses = risk.losses
        if not tolerance.requeues(losses.restarts):
            return
        losses.restarts += 1
        losses.waits_from_s, record.end_s = (ended_s if run.begun else losses.waits_from_s), None
        record.sizes.append(ended_s, 0)
        self._over -= 1
        self._again[job_id] = risk.kept_s
        self._waiting[job_id] = run.job, run.dynamics
        self._at_once.append((ev.JobSubmitted(record.spec), None, 0))

    def _expose(self, run: Run, tolerance: FaultTolerance) -> Risk:
        """Keep account of what the job would lose."""
        record = self._records[run.job.job_id]
        if record.losses is None:
            record.losses = Losses()
        run.left_s = self._again.pop(run.job.job_id, run.job.runtime_s)
        done = 1.0 - run.left_s / run.job.runtime_s
        run.wishes = sum([share < done for share, _ in run.job.wishes])  # it has asked for these already
        run.risk = Risk(tolerance, record.losses, run.left_s)
        return run.risk

    def _settle_work(self, run: Run, risk: Risk) -> None:
        """Note how far a job has come that may lose what it has done."""
        risk.restarted(self._now)
        run.left_s = risk.advance(run.left_s, run.rate, run.since_s, self._now)
        run.since_s = self._now

    def _weight(self, run: Run, nodes: int) -> float:
        """What these nodes count: as many as they are; of those that it shares, the part that its cores are."""
        return nodes * share(run.cores, self._core.settings.cores_per_node, "ideal") if run.cores else float(nodes)

    def _order(self, order: ev.SendOrder, run: Run) -> None:
        if order.kind != "workers":
            self._answer(run, order.count if order.kind == "grow" else -order.count)
        for time_s, what in answers(order, run, self._now):
            if isinstance(what, Change) and what.nodes and time_s <= self._now:
                self._go_on(run, what.nodes)
            else:
                self._push(time_s, what, run)

    def _note_ends(self, endings: Iterable[tuple[int, ev.Outcome | None, float | None]]) -> None:
        """Copy how the core saw ends into the records."""
        for job_id, outcome, end_s in endings:
            record = self._records[job_id]
            if job_id in self._again and outcome == "lost":
                continue  # it is to be run again
            if (losses := record.losses) is not None and end_s is not None:
                losses.wait_over(end_s)  # it was cancelled meanwhile
            record.outcome = outcome
            if record.end_s is None:  # it was cancelled while it waited, or is not over
                record.end_s = end_s


def _does_without(run: Run, node: str) -> bool:
    """Whether the job goes on without a node. [D] One that shares nodes does not."""
    tolerance = run.dynamics.tolerance
    return (
        tolerance is not None
        and tolerance.resilient
        and run.begun
        and not run.killed
        and not run.cores
        and run.nodes[0] != node
    )


def node_names(nodes: int) -> Sequence[str]:
    """The names of simulated nodes: ``n0000``, ``n0001`` and so on."""
    names = NumberedNodes(nodes)
    return names if nodes > _MANY_NODES else names[:]


def simulate(
    nodes: int | Sequence[str],
    policy: Policy,
    jobs: Iterable[Simulated],
    disturbances: Iterable[tuple[float, ev.Event]] = (),
    settings: Settings | None = None,
) -> SimResult:
    """Run ``jobs`` on ``nodes`` under ``policy``; see ``Engine``."""
    return Engine(nodes, policy, settings).run(jobs, disturbances)


# How jobs carry orders out -------------------------------------------------------------------------------------------

PATIENCE_S: Final = 1.0
"""A job that waits for the beginning of its computation defers the order after this time, as the runtime does."""


def answers(order: ev.SendOrder, run: Run, now: float) -> Iterator[tuple[float, ev.Event | Change]]:
    """Yield what becomes of ``order``, given to ``run`` at ``now``, and when; the run remembers what was ordered."""
    dynamics = run.dynamics
    fails = run.orders in dynamics.failing_orders
    run.orders += 1
    if dynamics.defer_s > 0:
        yield now, ev.ResizeDeferred(order.job_id, order.order, "not in this phase")
    if run.computes_s > now + PATIENCE_S:
        yield now + PATIENCE_S, ev.ResizeDeferred(order.job_id, order.order, "it does not compute yet")
    begin_s = run.next_point_s(max(now + dynamics.defer_s, run.computes_s))
    if order.kind == "workers":
        run.ordered_cores = tuple([ids.bit_count() for ids in order.core_ids])
        failed = ev.ResizeFailed(order.job_id, order.order, "aborted") if fails else None
        yield begin_s + dynamics.workers_s, failed or ev.WorkersChanged(order.job_id, order.order)
        return
    yield from _resize_answers(order, run, now, begin_s, fails=fails)


def _resize_answers(
    order: ev.SendOrder, run: Run, now: float, begin_s: float, *, fails: bool
) -> Iterator[tuple[float, ev.Event | Change]]:
    dynamics, grows = run.dynamics, order.kind == "grow"
    before = len(run.nodes)
    after = before + (order.count if grows else -order.count)
    done_s = begin_s + (dynamics.grow_s if grows else dynamics.shrink_s)
    if grows:
        run.arriving, run.held_from_s = order.nodes, now
    if dynamics.cost is not None:
        # one that was measured is negative where a job has carried an order out before all of it computed
        done_s = max(now, done_s + dynamics.cost(before, after, run.job.overhead))
        if dynamics.cost.stops and done_s > begin_s:
            yield begin_s, Change(0)
    if fails:
        yield done_s, ev.ResizeFailed(order.job_id, order.order, "aborted")
    elif grows:
        yield done_s, ev.GrowCompleted(order.job_id, order.order, order.nodes)
    else:
        released = run.nodes[1 : 1 + order.count] if dynamics.own_choice else order.nodes
        yield done_s, ev.ShrinkCompleted(order.job_id, order.order, released)
        if dynamics.defer_s == 0 and not (dynamics.cost is not None and dynamics.cost.stops):
            yield begin_s, Change(after)
