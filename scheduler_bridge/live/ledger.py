"""What the log adds up to: the core, the record and what else is known. Pure: the same entries, the same state.

The live driver takes every entry in here before it is written, a restarted one takes in what was written; so both have
the same state, and every effect follows from the log.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Final, Literal, assert_never

from scheduler_bridge import policies
from scheduler_bridge.core import JobRow, JobState, SchedulerCore, settings_for
from scheduler_bridge.core import effects as fx
from scheduler_bridge.core import events as ev
from scheduler_bridge.live import entries
from scheduler_bridge.live.entries import Entry
from scheduler_bridge.live.requests import JobRequest
from scheduler_bridge.live.store import Era
from scheduler_bridge.record import Recorder

VERSION: Final = metadata.version("malleable-apgas")
"""Snapshots are read by the version that wrote them; the log itself by every one that comes to the same effects."""


class DivergedError(Exception):
    """The log's effects are not those that this software comes to; the text says where."""


@dataclass(slots=True)
class JobFacts:
    """What the core does not know of a job that has not ended.

    Attributes:
        request: What its user asked for.
        attempt: How often it was started.
        phase: What it said of its handler: nothing yet, that it is ready, or that it takes no orders any more.
        abandoned: Grow orders whose outcome came too late.
        losses: Number of its last loss of nodes.
        answers: How its own requests for nodes were answered: nodes and reason.
    """

    request: JobRequest
    attempt: int = 0
    phase: Literal["silent", "ready", "disabled"] = "silent"
    abandoned: set[int] = field(default_factory=set)
    losses: int = -1
    answers: dict[int, tuple[int, str]] = field(default_factory=dict)

    def learn(self, fact: entries.Abandoned | entries.Loss | entries.Answered) -> None:
        """Take in what is said about the job."""
        match fact:
            case entries.Abandoned():
                self.abandoned.add(fact.order)
            case entries.Loss():
                self.losses = fact.loss
            case entries.Answered():
                self.answers[fact.request] = (fact.granted, fact.reason)
            case _:
                assert_never(fact)


@dataclass(frozen=True, slots=True)
class Held:
    """A job that holds nodes: what a restarted scheduler has to take up again.

    ``nodes`` are those of its start or, later, those it runs on; not those that are still to arrive.
    """

    row: JobRow
    facts: JobFacts
    nodes: tuple[str, ...]


class Ledger:
    """The state of one era.

    Args:
        era: Its beginning.
        core: What decides; None: a new one for the era.
    """

    def __init__(self, era: Era, core: SchedulerCore | None = None) -> None:
        policy = policies.get(era.policy, **era.parameters)
        settings = replace(settings_for(era.policy), cores_per_node=era.cores_per_node)
        self.core = core if core is not None else SchedulerCore(era.nodes, policy, settings, remember="all")
        self.recorder = Recorder(era.nodes, era.policy, started_at=era.started_at)
        self.jobs: dict[int, JobFacts] = {}
        self.next_job_id = era.first_job
        self.at_s = 0.0
        self.busy_node_s = 0.0
        self.policy = entries.Policy(era.policy, era.parameters)
        self.configured = entries.Configured(era.nodes, era.policy, era.parameters)

    def take(self, entry: Entry) -> list[fx.Effect]:
        """Take in what happened; return what the core wants done.

        Raises:
            Exception: The core or a policy contradicts itself; the entry must not be kept.
        """
        for fact in entry.facts:
            self._before(fact)
        effects = self._handle(entry) if entry.events else []
        for fact in entry.facts:
            self._after(fact)
        return effects

    def replay(self, entry: Entry, logged: list[fx.Effect]) -> None:
        """Take in an entry of the log.

        Raises:
            DivergedError: The core comes to other effects than it did then.
        """
        effects = self.take(entry)
        if effects != logged:
            raise DivergedError(f"at {entry.at_s} s, {entry.events} led to {logged}, now it leads to {effects}")

    def held(self) -> list[Held]:
        """Return the jobs that hold nodes."""
        found = []
        for row in self.core.snapshot().jobs:
            if row.state not in (JobState.QUEUED, JobState.CLAIMING, JobState.ENDED):
                arriving = row.order.nodes if row.order is not None and row.order.kind == "grow" else ()
                nodes = tuple(node for node in row.nodes if node not in arriving)
                found.append(Held(row, self.jobs[row.spec.job_id], nodes))
        return found

    # snapshots ------------------------------------------------------------------------------------------------------

    def freeze(self) -> bytes:
        """Return the state as bytes for ``thaw``."""
        parts = {name: value for name, value in vars(self).items() if name != "core"}
        return pickle.dumps((self.core.save(), parts), protocol=pickle.HIGHEST_PROTOCOL)

    @classmethod
    def thaw(cls, era: Era, state: bytes) -> Ledger:
        """Return the ledger that was frozen. The bytes come out of the user's own state folder, closed to others.

        Raises:
            Exception: They are no such state; the log tells all the same.
        """
        saved, parts = pickle.loads(state)
        ledger = cls(era)
        vars(ledger).update(parts)
        ledger.core = SchedulerCore.resume(saved, policies.get(ledger.policy.policy, **ledger.policy.parameters))
        return ledger

    # entries --------------------------------------------------------------------------------------------------------

    def _handle(self, entry: Entry) -> list[fx.Effect]:
        held = self.core.held_nodes
        effects = self.core.handle_batch(entry.events, entry.at_s)
        self.busy_node_s += held * (entry.at_s - self.at_s)
        self.at_s = entry.at_s
        ordered = sorted(entry.events, key=ev.batch_rank)
        for number, event in enumerate(ordered, start=1):
            # The effects belong to the last one, for decisions are made once per instant.
            self._observe(entry.at_s, event, effects if number == len(ordered) else [])
        for effect in effects:
            if isinstance(effect, fx.StartJob):
                self.jobs[effect.job_id].attempt += 1
        return effects

    def _observe(self, at_s: float, event: ev.Event, effects: Iterable[fx.Effect]) -> None:
        match event:
            case ev.JobEnded(job_id=job_id):
                # As the core judges: what a job was killed for counts more than its exit status.
                self.recorder.observe(at_s, self._judged(job_id) or event, effects)
                self.jobs.pop(job_id, None)
                return
            case ev.JobSubmitted(job=spec):
                self.next_job_id = max(self.next_job_id, spec.job_id + 1)
            case ev.MalleableReady(job_id=job_id) | ev.MalleableEnded(job_id=job_id):
                if job_id in self.jobs:
                    self.jobs[job_id].phase = "ready" if isinstance(event, ev.MalleableReady) else "disabled"
            case _:
                pass
        self.recorder.observe(at_s, event, effects)
        if isinstance(event, ev.JobSubmitted):
            for effect in effects:
                if isinstance(effect, fx.Refuse) and effect.job_id == event.job.job_id:
                    self.jobs.pop(effect.job_id, None)
        elif isinstance(event, ev.CancelJob) and event.job_id in self.jobs:
            judged = self._judged(event.job_id)
            if judged is not None:  # A waiting job ends at once; no other event says so.
                self.recorder.observe(at_s, judged)
                del self.jobs[event.job_id]

    def _judged(self, job_id: int) -> ev.JobEnded | None:
        try:
            ended = self.core.ended(job_id)
        except KeyError:
            return None
        return ev.JobEnded(job_id, *ended) if ended is not None else None

    def _before(self, fact: entries.AnyFact) -> None:
        """Take in what the core's decision depends on."""
        match fact:
            case entries.Requested():
                self.jobs[fact.job_id] = JobFacts(fact.request)
            case entries.Policy():
                self.policy = fact
                self.core.use(policies.get(fact.policy, **fact.parameters), settings_for(fact.policy))
            case _:
                pass

    def _after(self, fact: entries.AnyFact) -> None:
        """Take in what is said about what the entry's events led to."""
        match fact:
            case entries.Requested() | entries.Policy():
                pass
            case entries.Abandoned() | entries.Loss() | entries.Answered():
                if (job := self.jobs.get(fact.job_id)) is not None:
                    job.learn(fact)
            case entries.Configured():
                self.configured = fact
            case entries.Noted():
                self.recorder.note(fact.text)
            case entries.Result():
                self.recorder.note_result(fact.job_id, fact.result)
            case entries.Reported():
                self.recorder.note_outcome(fact.job_id, fact.order, fact.outcome, fact.reason)
                if fact.seconds is not None:
                    self.recorder.note_measured(fact.job_id, fact.order, fact.seconds, fact.phases)
            case _:
                assert_never(fact)
