"""The state that the entries of the log add up to: the core, the record and what else is known. Pure.

The live driver takes every entry in here before it is written, a restarted one takes in what was written; so both have
the same state, and every effect follows from the log.
"""

from __future__ import annotations

import gc
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from itertools import count
from typing import Final, assert_never

import msgspec

from scheduler_bridge import policies
from scheduler_bridge.core import JobState, SchedulerCore, Settings, settings_for
from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon.admission import JobFacts, admissions, blocked
from scheduler_bridge.daemon.config import DaemonConfig, Scheduling
from scheduler_bridge.daemon.requests import HeldBy, JobRequest, array_name, is_resilient
from scheduler_bridge.daemon.storage import log_entries
from scheduler_bridge.daemon.storage.log_entries import Entry
from scheduler_bridge.daemon.storage.store import Era
from scheduler_bridge.model import JobSpec
from scheduler_bridge.record import Recorder, RunRecord, record_of

VERSION: Final = f"{metadata.version('malleable-apgas')}/19"
"""Snapshots are read by the version that wrote them; the log itself by every one that comes to the same effects."""
_MOST_COMMAND: Final = 2000
"""Characters of a command that the core and the record know."""
_ATTEMPTS: Final = 5
"""How often a job is run at most that is lost each time."""


class LogState:
    """The state of one era, as its log adds up."""

    def __init__(self, era: Era) -> None:
        policy = policies.get(era.policy, **era.parameters)
        settings = replace(settings_for(era.policy), cores_per_node=era.cores_per_node)
        self.core = SchedulerCore(era.nodes, policy, settings, remember="all", tolerant=True)
        self.core.learn(era.past_use)
        self.recorder = Recorder(era.nodes, era.policy, started_at=era.started_at, cores_per_node=era.cores_per_node)
        self.jobs: dict[int, JobFacts] = {}
        self._shares: dict[int, _Share] = {}
        self.request_bytes: Counter[str] = Counter()
        """How long each user's requests are together whose jobs wait or run."""
        self.next_job_id = era.first_job
        self.kept: set[int] = set()
        """The jobs of which the core does not know: they are held, wait for others, or are to be run again."""
        self._reservations = 0
        self.prioritised = False
        self.ailing: dict[str, str] = {}
        """Nodes that are out of service for not answering, and what they failed with; also those that are occupied."""
        self.occupied: dict[str, str] = {}
        """Nodes on which an attempt runs of which the log knows only that, by the attempt's name."""
        self._admission_due = True
        self._going_on: set[int] = set()
        """The jobs that end in the present entry, and can go on where they were."""
        self.at_s = 0.0
        self.booted = log_entries.Booted(era.boot, era.monotonic_s)
        self.busy_node_s = self.node_s = 0.0
        self.policy = log_entries.Policy(era.policy, era.parameters)
        self.configured = log_entries.Configured(era.nodes, era.policy, era.parameters)

    def take(self, entry: Entry) -> list[ev.Effect]:
        """Take in what happened; return what the core wants done.

        Raises:
            Exception: The core or a policy contradicts itself; the entry must not be kept.
        """
        self._going_on.clear()
        for fact in entry.facts:
            if isinstance(fact, log_entries.Deciding):
                self._know(fact, entry.at_s)
        happened = (*self._submitted(entry.facts), *entry.events)
        effects = self._handle(happened, entry.at_s) if happened else []
        for fact in entry.facts:
            if not isinstance(fact, log_entries.Deciding):
                self._know(fact, entry.at_s)
        return effects

    def policy_failed(self) -> log_entries.PolicyFailed | None:
        """Hand out, once, what the policy did wrong in the last entry; None: nothing."""
        answers = self.core.failed_answers()
        return log_entries.PolicyFailed.of(self.core.policy_failure, answers) if answers else None

    def held(self) -> list[JobFacts]:
        """Return the jobs that hold nodes, which a restarted scheduler has to take up again."""
        unstarted = (JobState.QUEUED, JobState.CLAIMING)
        core_jobs = ((job_id, facts) for job_id, facts in self.jobs.items() if job_id not in self.kept)
        return [facts for job_id, facts in core_jobs if self.core.state(job_id) not in unstarted]

    def ended(self, job_id: int) -> ev.Outcome | None:
        """How a job ended; None if it has not, or is not known."""
        if job_id in self.jobs:
            return None
        judged = self._judged(job_id)
        return judged.outcome if judged is not None else None

    def has_end(self, job_id: int, attempt: int) -> bool:
        """Whether the log has the end of an attempt; it is not the one by which a job holds nodes."""
        job = self.jobs.get(job_id)
        return self.ended(job_id) is not None if job is None else attempt <= job.attempt

    def record(self) -> RunRecord:
        """Return the record so far, also of jobs that are kept back and of which the core has never heard."""
        found = self.recorder.record()
        for job_id in sorted(self.kept.difference(job.job_id for job in found.jobs)):
            facts = self.jobs[job_id]
            job = record_of(facts.spec, facts.spec.submit_s)
            job.reason = blocked(facts, self.ended)
            found.jobs.append(job)
            found.end_s = max(found.end_s, job.submit_s)
        return found

    def admissions(self, user_jobs: int | None) -> list[tuple[JobFacts, str]]:
        """Return the jobs that are not to be kept back any more, as ``admission.admissions`` does."""
        if not self._admission_due:
            return []
        self._admission_due = False
        return admissions(self.kept, self.jobs, self.ended, user_jobs)

    def new_reservation(self) -> str:
        """Return a name that no reservation of this era has had, unless an operator chose it."""
        names = (f"r{number}" for number in count(self._reservations + 1))
        return next(name for name in names if self.core.reservation(name) is None)

    # snapshots ------------------------------------------------------------------------------------------------------

    def freeze(self) -> bytes:
        """Return the state as bytes for ``thaw``."""
        # The core has a form of its own, without its policy, which is made anew. All else is plain data and is taken as
        # it is, so that no attribute can be forgotten here.
        parts = {name: value for name, value in vars(self).items() if name != "core"}
        return pickled((self.core.save(), parts))

    @classmethod
    def thaw(cls, era: Era, state: bytes) -> LogState:
        """Return the state that was frozen. The bytes come out of the user's own state folder, closed to others.

        Raises:
            Exception: They are no such state; the log has all of it.
        """
        saved, parts = pickle.loads(state)
        log_state = cls(era)
        vars(log_state).update(parts)
        log_state.core = SchedulerCore.resume(
            saved, policies.get(log_state.policy.policy, **log_state.policy.parameters)
        )
        return log_state

    # entries --------------------------------------------------------------------------------------------------------

    def _submitted(self, facts: Iterable[log_entries.AnyFact]) -> Iterator[ev.JobSubmitted]:
        """Yield the submissions that the log keeps as what was asked for."""
        for fact in facts:
            if isinstance(fact, log_entries.Requested):
                for job_id in range(fact.job_id, fact.job_id + fact.admitted):
                    yield ev.JobSubmitted(self.jobs[job_id].spec)

    def _handle(self, happened: Sequence[ev.Event], at_s: float) -> list[ev.Effect]:
        held, size = self.core.pool.held, len(self.core.pool)
        effects = self.core.handle_batch(happened, at_s)
        self.busy_node_s += held * (at_s - self.at_s)
        self.node_s += size * (at_s - self.at_s)
        self.at_s = at_s
        for event in sorted(happened, key=ev.batch_rank):
            self._observe(at_s, event)
        self.recorder.observe(at_s, (), effects)  # after all events, for decisions are made once per instant
        submitted = {event.job.job_id for event in happened if isinstance(event, ev.JobSubmitted)}
        for effect in effects:
            if isinstance(effect, ev.StartJob):
                self.jobs[effect.job_id].attempt += 1
            elif isinstance(effect, ev.Refuse) and effect.job_id in submitted:  # wishes to grow are refused, too
                self._forget(effect.job_id)
        return effects

    def _observe(self, at_s: float, event: ev.Event) -> None:
        if isinstance(event, ev.JobEnded):
            # As the core judges: what a job was killed for counts more than its exit status.
            ended = self._judged(event.job_id) or event
            self.recorder.observe(at_s, [ended])
            self._over(event.job_id, ended.outcome)
            return
        self._follow(event)
        self.recorder.observe(at_s, [event])
        if isinstance(event, ev.JobSubmitted) and (job := self.jobs.get(event.job.job_id)) is not None:
            request = job.request
            if request.after_ok or request.after_any:
                self.recorder.note_after(event.job.job_id, request.after_ok, request.after_any, event.job.submit_s)
        if isinstance(event, ev.CancelJob) and event.job_id in self.jobs:
            judged = self._judged(event.job_id)
            if judged is not None:  # A waiting job ends at once; no other event says so.
                self.recorder.observe(at_s, [judged])
                self._over(event.job_id, judged.outcome)

    def _follow(self, event: ev.Event) -> None:
        """Keep up with what a job that has not ended says, and with whether the core knows of it."""
        job = self.jobs.get(event.job_id) if isinstance(event, ev.OfJob) else None
        match event:
            case ev.OfNode():
                self.ailing.pop(event.node, None)
                self.occupied.pop(event.node, None)
            case ev.ReservationMade():
                self._reservations += 1
            case ev.JobSubmitted(job=spec):
                self.next_job_id = max(self.next_job_id, spec.job_id + 1)
                self.kept.discard(spec.job_id)
            case ev.JobWithdrawn() if job is not None:
                self._admission_due = True
                self.kept.add(event.job_id)
            case ev.JobInterrupted() if job is not None:
                job.begin_anew()
                job.restarts, job.appends = job.restarts + 1, True
            case ev.MalleableReady() if job is not None:
                job.phase = "ready"
            case ev.MalleableEnded() if job is not None:
                job.phase = "disabled"
            case _:
                pass

    def _over(self, job_id: int, outcome: ev.Outcome) -> None:
        """A job has ended; one that is to be run again waits."""
        job = self.jobs.get(job_id)
        self._admission_due = True
        goes_on = job_id in self._going_on
        again = job is not None and (job.request.requeue or goes_on) and job.attempt - job.restarts < _ATTEMPTS
        if job is not None and outcome == "lost" and again:
            job.appends = goes_on
            job.begin_anew()
            self.kept.add(job_id)
        else:
            self._forget(job_id)

    def _request(self, fact: log_entries.Requested, at_s: float) -> None:
        request = fact.request
        held_by: HeldBy | None = "user" if request.hold else None
        first = spec_of(fact.job_id, request, at_s)
        for job_id, number in fact.jobs():
            spec = msgspec.structs.replace(first, job_id=job_id, name=array_name(request, number))
            self.jobs[job_id] = JobFacts(
                request, spec, held_by=held_by, priority=request.priority, number=number, first=fact.job_id
            )
            self.kept.add(job_id)
            self.next_job_id = max(self.next_job_id, job_id + 1)
        share = _Share(request.user, len(msgspec.json.encode(fact)), max(1, len(fact.array)))
        self._shares[fact.job_id] = share
        self.request_bytes[share.user] += share.size
        self.prioritised = self.prioritised or request.priority != 0
        self._admission_due = True

    def _forget(self, job_id: int) -> None:
        if (job := self.jobs.pop(job_id, None)) is not None and (share := self._shares.get(job.first)) is not None:
            share.jobs -= 1
            if not share.jobs:
                del self._shares[job.first]
                self.request_bytes[share.user] -= share.size
                if not self.request_bytes[share.user]:
                    del self.request_bytes[share.user]

    def _judged(self, job_id: int) -> ev.JobEnded | None:
        try:
            ended = self.core.ended(job_id)
        except KeyError:
            return None
        return ev.JobEnded(job_id, *ended) if ended is not None else None

    def _know(self, fact: log_entries.AnyFact, at_s: float) -> None:  # noqa: C901 - one arm a fact
        match fact:
            case log_entries.Requested():
                self._request(fact, at_s)
            case log_entries.GoesOn():
                self._going_on.add(fact.job_id)
            case log_entries.Policy():
                self.policy = fact
                self._use_policy()
            case log_entries.Configured():
                before, self.configured = self.configured, fact
                name = self.policy.policy
                if _settings(name, fact) != _settings(name, before):
                    self._use_policy()
            case log_entries.Ailing():
                self.ailing[fact.node] = fact.reason
                if fact.attempt:
                    self.occupied[fact.node] = fact.attempt
            case log_entries.PolicyFailed():
                self.core.repeat(fact.failure, fact.decisions())
            case log_entries.Booted():
                self.booted = fact
            case log_entries.Noted():
                self.recorder.note(fact.text)
            case log_entries.Result():
                self.recorder.note_result(fact.job_id, fact.result)
            case log_entries.Reported():
                self.recorder.note_outcome(fact.job_id, fact.order, fact.outcome, fact.reason)
                self.recorder.note_measured(fact.job_id, fact.order, fact.seconds, fact.phases)
                self._learn(fact)
            case _:
                self._learn(fact)

    def _learn(self, fact: log_entries.OfAJob) -> None:
        """Take in how a job stands, if it has not ended."""
        if (job := self.jobs.get(fact.job_id)) is None:
            return
        match fact:
            case log_entries.Held():
                job.held_by = fact.by if fact.held else None
                self._admission_due = True
            case log_entries.Prioritised():
                job.priority = fact.priority
                self.prioritised = self._admission_due = True
            case log_entries.Abandoned():
                job.abandoned.add(fact.order)
            case log_entries.Loss():
                job.losses = fact.loss
            case log_entries.Answered():
                job.answers[fact.request] = (fact.granted, fact.reason)
            case log_entries.Reported():
                job.outcomes[fact.order] = fact.outcome
            case _:
                assert_never(fact)

    def _use_policy(self) -> None:
        name = self.policy.policy
        self.core.use(policies.get(name, **self.policy.parameters), _settings(name, self.configured))


@dataclass(slots=True)
class _Share:
    """What the jobs of one request have in common: whose it is, its length in bytes, and how many are not over."""

    user: str
    size: int
    jobs: int


def spec_of(job_id: int, request: JobRequest, submit_s: float) -> JobSpec:
    """Return a request as the core reads it.

    Of the command it has the beginning, for pictures: the record keeps it of each job, for ever.

    Raises:
        SubmitError: The bounds contradict each other.
        InvalidJobError: No cluster could run it.
    """
    low, wanted, high = request.bounds()
    return JobSpec(
        job_id=job_id, name=request.name, user=request.user, job_class=request.job_class, nodes=wanted,
        min_nodes=low, max_nodes=high, walltime_s=request.walltime_s, submit_s=submit_s,
        command=_beginning(request.command), rho=request.rho, reservation=request.reservation,
        resilient=is_resilient(request),
    )  # fmt: skip


def _beginning(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command as it is, unless it is long: then what fits, and dots."""
    if sum(map(len, command)) <= _MOST_COMMAND:
        return command
    room, kept = _MOST_COMMAND, []
    for word in command:
        kept.append(word[:room])
        room -= len(word)
        if room <= 0:
            break
    return (*kept, "...")


# The configuration of a restart -------------------------------------------------------------------------------------
#
# Where it differs from the one before, it counts; otherwise what was changed at run time holds.


def configured(before: Scheduling, config: DaemonConfig) -> list[log_entries.AnyFact]:
    """What is to be remembered of the configuration, if it says something new."""
    now = log_entries.Configured(**{name: getattr(config, name) for name in Scheduling.__struct_fields__})
    if now == before:
        return []
    if (now.policy, now.parameters) == (before.policy, before.parameters):
        return [now]  # the policy that decides was chosen at run time
    return [now, log_entries.Policy(now.policy, now.parameters)]


def configured_events(before: Scheduling, config: DaemonConfig, known: Sequence[str]) -> list[ev.Event]:
    """What happens to nodes, of which there are those that are ``known``, and to the limit on each user's."""
    lost = [node for node in before.nodes if node not in config.nodes and node in known]
    added = [node for node in config.nodes if node not in before.nodes]
    return [
        *(ev.NodeDown(node) for node in lost),
        *(ev.NodeRemoved(node) for node in lost),
        *(ev.NodeUp(node) for node in added),
        *([] if config.user_nodes == before.user_nodes else [ev.UserNodesLimited(config.user_nodes)]),
    ]


def _settings(policy: str, given: Scheduling) -> Settings:
    """The pauses that the policy is meant for, unless others are given; what is given holds for all policies."""
    meant = settings_for(policy)
    interval_s = meant.pass_interval_s if given.pass_interval_s is None else given.pass_interval_s or None
    cooldown_s = meant.cooldown_s if given.cooldown_s is None else given.cooldown_s
    return replace(meant, pass_interval_s=interval_s, cooldown_s=cooldown_s, walltime_grace_s=given.walltime_grace_s)


def pickled(state: object) -> bytes:
    """Return ``state`` as bytes for ``pickle.loads``."""
    collects = gc.isenabled()
    gc.disable()  # All objects made meanwhile are in use: searching a large state for cycles takes as long again.
    try:
        return pickle.dumps(state, pickle.HIGHEST_PROTOCOL)
    finally:
        if collects:
            gc.enable()
