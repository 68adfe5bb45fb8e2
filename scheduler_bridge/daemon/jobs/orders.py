"""Orders to the running jobs, the events that their answers become, and the deadlines for these."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Protocol, TypeAlias, assert_never

from apgas.malleability import orders as wire
from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon.admission import JobFacts
from scheduler_bridge.daemon.config import DaemonConfig
from scheduler_bridge.daemon.jobs.server import JobServer
from scheduler_bridge.daemon.jobs.session import Heard, JobLink, OpenOrder, Trespassed, core_lists
from scheduler_bridge.daemon.storage import log_entries
from scheduler_bridge.daemon.storage.journal import Timed, untimed

_logger = logging.getLogger(__name__)


class Handle(Protocol):
    """Reports events to the core, and facts about them to the log."""

    def __call__(
        self, *events: ev.Event, facts: Sequence[log_entries.AnyFact] = (), then: Callable[[], None] | None = None
    ) -> list[ev.Effect]:
        """Return what the core wants done; it is done, and ``then``, once the log has it."""


Answer: TypeAlias = Callable[[int, str], None]
"""Answers a job's request for nodes: by how many it is resized, or 0 and why it is not."""


class JobOrders:
    """Sends the core's orders to the jobs, and reports what the jobs say as events.

    Args:
        config: Deadlines and limits.
        jobs: What is known of the jobs that have not ended.
        handle: Reports events.
        up: Called when a job says that it is ready or has grown: its processes are up.
        doom: Called with a job that runs on nodes that it does not have, and the story.
        timed: Called with how long steps took.

    Attributes:
        server: Where the jobs connect.
        progress: How far each job that runs says that it is.
        supplier: Resizes a job that asks for it, with nodes from elsewhere, and answers sooner or later; None: the core
            does, with the nodes that the cluster has.
        when_lost: Called with nodes that a job goes on without, which it does not hold any more, and why.
    """

    def __init__(
        self,
        config: DaemonConfig,
        jobs: Mapping[int, JobFacts],
        handle: Handle,
        up: Callable[[int], None],
        doom: Callable[[int, str], None],
        timed: Timed = untimed,
    ) -> None:
        self._timed = timed
        self._config = config
        self._jobs = jobs
        self._handle = handle
        self._up = up
        self._doom = doom
        self._deadlines: dict[int, asyncio.TimerHandle] = {}
        self._unknown: set[int] = set()
        self.server = JobServer(self._hear, config.limits)
        self.progress: dict[int, wire.Progress] = {}
        self.supplier: Callable[[int, int, Answer], None] | None = None
        self.when_lost: Callable[[tuple[str, ...], str], None] | None = None

    def tolerate(self, job_id: int, nodes: Collection[str], token: str) -> None:
        """Let a job connect that the log does not know: refused, it would end. What it says changes nothing."""
        self._unknown.add(job_id)
        self.server.links[job_id] = JobLink(job_id, token, frozenset(nodes))

    def tolerate_no_more(self, job_id: int) -> None:
        """Such a job is over, or is known now: then it has to connect anew."""
        if job_id in self._unknown:
            self._unknown.discard(job_id)
            self.server.dismiss(job_id)

    def expect(self, job: JobFacts, nodes: Collection[str], token: str) -> None:
        """Let a job connect with ``token`` that is about to start on ``nodes``, or runs there under its next daemon."""
        job_id = job.spec.job_id
        self.tolerate_no_more(job_id)
        link = JobLink(job_id, token, frozenset(nodes), set(job.abandoned), job.losses, dict(job.outcomes))
        link.phase = job.phase
        self.server.links[job_id] = link

    def dismiss(self, job_id: int) -> None:
        """The job has ended."""
        self._settle(job_id)
        self.progress.pop(job_id, None)  # it may begin anew
        self.server.dismiss(job_id)

    def order(self, effect: ev.SendOrder) -> None:
        """Give an order, and see to it that it is answered in time; if the job reconnects before, it is said again."""
        link = self.server.links.get(effect.job_id)
        if link is None:  # The job ended while the order was being logged.
            return
        core_ids = core_lists(effect.nodes, effect.core_ids)
        link.open = OpenOrder(effect.order, effect.kind, effect.count, effect.nodes, core_ids)
        self.server.send(link.job_id, link.open.message(core_ids=link.core_ids))
        self._after(self._config.resize_deadline_s, effect, self._overdue)

    def close(self) -> None:
        """Forget all deadlines."""
        for job_id in tuple(self._deadlines):
            self._settle(job_id)

    # deadlines ------------------------------------------------------------------------------------------------------

    def _after(self, delay_s: float, effect: ev.SendOrder, act: Callable[[ev.SendOrder], None]) -> None:
        self._settle(effect.job_id)
        self._deadlines[effect.job_id] = asyncio.get_running_loop().call_later(delay_s, act, effect)

    def _settle(self, job_id: int) -> None:
        timer = self._deadlines.pop(job_id, None)
        if timer is not None:
            timer.cancel()

    def _overdue(self, effect: ev.SendOrder) -> None:
        """Too late: take the order back, and give the job a little time to say that it has not carried it out."""
        self.server.withdraw(effect.job_id)
        self._after(self._config.withdraw_s, effect, self._unanswered)

    def _unanswered(self, effect: ev.SendOrder) -> None:
        """Neither the order nor its withdrawal was answered: this job takes no orders."""
        self._settle(effect.job_id)
        claimed = self.server.abandon(effect.job_id)
        reason = f"no outcome within {self._config.resize_deadline_s:g} s"
        _logger.warning("job %d does not answer order %d: it gets no further ones", effect.job_id, effect.order)
        if claimed:  # Ended first, so that its nodes are free only when nothing of it is left.
            self._doom(effect.job_id, f"it grew on other nodes than {', '.join(effect.nodes)}")
            return
        facts = [log_entries.Abandoned(effect.job_id, effect.order)] if effect.kind == "grow" else []
        self._handle(
            ev.ResizeFailed(effect.job_id, effect.order, reason), ev.MalleableEnded(effect.job_id), facts=facts
        )

    # messages -------------------------------------------------------------------------------------------------------

    def _hear(self, heard: Heard | Trespassed) -> None:
        began_s = perf_counter()
        if heard.job_id not in self._unknown:
            self._heard(heard)
        elif isinstance(heard, Heard) and isinstance(heard.message, wire.Evolving):
            why = "the scheduler's log does not know this job"
            self.server.send(heard.job_id, wire.Answer(request=heard.message.request, granted=0, reason=why))
        self._timed("message", perf_counter() - began_s)

    def _heard(self, heard: Heard | Trespassed) -> None:
        job_id = heard.job_id
        if isinstance(heard, Trespassed):
            self._doom(job_id, heard.reason)
            return
        message, job = heard.message, self._jobs.get(job_id)
        takes_orders = job is not None and job.spec.is_malleable
        match message:
            case wire.Ready():
                self._up(job_id)
                if takes_orders:
                    self._handle(ev.MalleableReady(job_id))
            case wire.Disable():
                if takes_orders:
                    self._handle(ev.MalleableEnded(job_id))
            case wire.Progress():
                self.progress[job_id] = message
            case wire.Deferred():
                self._handle(ev.ResizeDeferred(job_id, message.order, message.reason))
            case wire.Outcome():
                self._outcome(job_id, message)
            case wire.Lost():
                self._lost(job_id, message)
            case wire.Evolving():
                self._evolving(job_id, message)
            case _:
                assert_never(message)

    def _outcome(self, job_id: int, message: wire.Outcome) -> None:
        self._settle(job_id)
        seconds = message.seconds if message.outcome == "done" else None
        facts = [
            log_entries.Reported(job_id, message.order, message.outcome, message.reason, seconds, dict(message.phases))
        ]
        if message.outcome != "done":
            reason = f"{message.outcome}: {message.reason}" if message.reason else message.outcome
            self._handle(ev.ResizeFailed(job_id, message.order, reason), facts=facts)
        elif message.kind == "workers":
            self._handle(ev.WorkersChanged(job_id, message.order), facts=facts)
        elif message.kind == "grow":
            self._up(job_id)
            self._handle(ev.GrowCompleted(job_id, message.order, message.nodes), facts=facts)
        else:
            self._handle(ev.ShrinkCompleted(job_id, message.order, message.nodes), facts=facts)

    def _lost(self, job_id: int, message: wire.Lost) -> None:
        self._handle(
            ev.NodesLost(job_id, message.nodes, message.reason), facts=[log_entries.Loss(job_id, message.loss)]
        )
        if self.when_lost is not None:
            self.when_lost(message.nodes, message.reason)

    def _evolving(self, job_id: int, message: wire.Evolving) -> None:
        job = self._jobs.get(job_id)
        if job is not None and message.request in job.answers:  # It lost the answer with a connection.
            granted, reason = job.answers[message.request]
            self.server.send(job_id, wire.Answer(request=message.request, granted=granted, reason=reason))
            return
        answer = partial(self._answer, self.server.links.get(job_id), message.request)
        if self.supplier is not None:
            self.supplier(job_id, message.delta, answer)
        else:
            answer(*self.request(job_id, message.delta))

    def _answer(self, link: JobLink | None, request: int, granted: int, reason: str) -> None:
        if link is None or self.server.links.get(job_id := link.job_id) is not link:
            return  # it was started again, and numbers its requests anew
        answer = wire.Answer(request=request, granted=granted, reason=reason)
        self._handle(
            facts=[log_entries.Answered(job_id, request, granted, reason)],
            then=lambda: self.server.send(job_id, answer),
        )

    def request(self, job_id: int, delta: int) -> tuple[int, str]:
        """Ask the core to resize a job by ``delta``; return the change that was ordered, or 0 and why not."""
        for effect in self._handle(ev.EvolvingRequest(job_id, delta)):
            match effect:
                case ev.Refuse() if effect.job_id == job_id:
                    return 0, effect.reason
                case ev.SendOrder() if effect.job_id == job_id:
                    return (effect.count if effect.kind == "grow" else -effect.count), ""
                case _:
                    pass
        return 0, "no nodes are free for it"
