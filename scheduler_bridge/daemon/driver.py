"""Interprets the scheduler core: reports what happens as events, and carries its effects out.

Everything runs on the event loop, so events are handled one at a time and in order. What is decided is carried out when
the log has it. Whatever an effect sets off (processes that start, orders that are answered) reports back later, as an
event of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final, TypeAlias, assert_never

import msgspec

from scheduler_bridge.core import UP, JobState, Snapshot
from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon.admission import JobFacts
from scheduler_bridge.daemon.config import DaemonConfig
from scheduler_bridge.daemon.control.status import QueueTail, snapshot
from scheduler_bridge.daemon.control.submission import Submissions
from scheduler_bridge.daemon.jobs.executor import Executor, Setup
from scheduler_bridge.daemon.jobs.health import Health
from scheduler_bridge.daemon.jobs.orders import JobOrders
from scheduler_bridge.daemon.jobs.template import result_of
from scheduler_bridge.daemon.storage import log_entries
from scheduler_bridge.daemon.storage.journal import Journal
from scheduler_bridge.daemon.storage.log_entries import Entry, Row
from scheduler_bridge.daemon.storage.log_state import VERSION, LogState, configured, configured_events
from scheduler_bridge.daemon.storage.state import StateFolder
from scheduler_bridge.jobrunner.notes import Ending
from scheduler_bridge.model import wording

_logger = logging.getLogger(__name__)

ExecutorMaker: TypeAlias = Callable[[Setup], Executor]

_FAREWELL_S: Final = 3.5
"""When the scheduler ends, jobs have this long at most, whatever grace they asked for: it is gone within 5 s."""
_LOOK_AGAIN_S: Final = 2.0
"""So often it is looked whether attempts are over that the log does not know."""
_FREEZE_EVERY_ROWS: Final = 5000
"""How many rows a restarted daemon reads at most, while states are small."""
_ROWS_PER_S: Final = 50_000
"""More rows for each second that it takes to freeze a large state, lest that be all that is done."""


class Driver:
    """One cluster's scheduler at work.

    Args:
        config: Settings.
        log_state: What decides and remembers.
        journal: Where that is written.
        folder: Where notes and output go.
        broke: Called with the error when the core finds itself inconsistent; nothing more can be decided then.
        executor: Makes what runs the jobs' processes.

    Attributes:
        core: What decides.
        loans: Says what was lent, used and taken back.
        lent: The nodes that can be taken back, and what is to be said of each.
        change: Set at the next event; then there is another one.
    """

    def __init__(
        self,
        config: DaemonConfig,
        log_state: LogState,
        journal: Journal,
        folder: StateFolder,
        broke: Callable[[Exception], None],
        executor: ExecutorMaker = Executor,
    ) -> None:
        self.log_state = log_state
        self.journal = journal
        self._folder = folder
        self._broke = broke
        self._loop = asyncio.get_running_loop()
        self._origin_s = log_state.booted.monotonic_s
        self._thaw_rows = 0
        self._freeze_rows = _FREEZE_EVERY_ROWS
        self._doomed: dict[int, str] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        self._awaiting: asyncio.Task[None] | None = None
        self._removals: set[asyncio.Future[None]] = set()
        self._closing = False
        self._broken = False
        self._failing = False
        self.change = asyncio.Event()
        self._tail = QueueTail()
        self.lent: dict[str, str] = {}
        self.core = log_state.core
        self.loans: Callable[[], str] = str
        self.health = Health(log_state, self.handle)
        self.job_orders = JobOrders(config, log_state.jobs, self.handle, self._up, self._doom, journal.timed)
        # an earlier run may go on, with as many cores as its nodes had
        config = msgspec.structs.replace(config, cores_per_node=self.core.settings.cores_per_node)
        self.executor = executor(Setup(folder, config, self._started, self.job_orders.server.last_words, self._ended))
        self.submissions = Submissions(
            log_state,
            self.handle,
            self.now_s,
            config.limits,
            config.user_jobs,
            self.executor.lacks,
            lambda: journal.behind,
        )

    def now_s(self) -> float:
        """Seconds since this driver began; never goes back."""
        return max(self.log_state.at_s, self._loop.time() - self._origin_s)

    def snapshot(self) -> Snapshot:
        """Say what runs and waits."""
        began_s = perf_counter()
        tail = self._tail.of(self.core.waiting, self.log_state.jobs)
        seen = snapshot(
            self.log_state,
            self.now_s(),
            self.job_orders.progress,
            self.submissions.why_kept(),
            tail,
            self.journal.behind,
            (self.lent, self.loans()),
        )
        self.journal.timed("picture", perf_counter() - began_s)
        return seen

    async def close(self) -> None:
        """Cancel every job and wait for the ends of the running ones."""
        self._closing = True
        self._await_no_strangers()
        # In one batch, so that no waiting job is started on nodes that a running one gives up.
        events = [event for job_id in sorted(self.log_state.jobs) for event in self.submissions.cancelled(job_id)]
        if events and not self._broken:
            self.handle(*events)
        await self.journal.settled()
        for job_id in sorted(self.log_state.jobs):  # The core asked for it already, unless it is broken.
            self.executor.end(job_id)
        await self.executor.finish(_FAREWELL_S)
        await self.abandon()
        if self.journal.complete:
            self.executor.close()
            self._folder.drop_other_books(self.log_state.jobs)

    async def abandon(self) -> None:
        """Stop, and leave the jobs as they are; what is decided is written first."""
        self._closing = True
        self._await_no_strangers()
        for timer in self._timers:
            timer.cancel()
        self.job_orders.close()
        await self.removed()
        await self.journal.close()

    async def removed(self) -> None:
        """Wait for a while until what ended jobs left is removed."""
        if self._removals:
            _, going_on = await asyncio.wait(self._removals, timeout=_FAREWELL_S)
            if going_on:
                _logger.warning("what %d jobs left in the state folder is not removed yet", len(going_on))

    # the life before --------------------------------------------------------------------------------------------------

    def resume(self, config: DaemonConfig, thaw_rows: int | None) -> None:
        """Take up what an earlier daemon left: find its runners, await its jobs, decide what is due by now.

        Args:
            config: Settings, which may be others than before.
            thaw_rows: How many rows of the log were read; None: there was none, and there are no jobs.
        """
        self._thaw_rows = thaw_rows or 0
        held = self.log_state.held()
        before, nodes = self.log_state.configured, self.core.pool.names
        events = configured_events(before, config, nodes)
        events += [ev.NodeRemoved(node) for node in self.core.lent]  # they were to an earlier daemon
        known = {*nodes, *(event.node for event in events if isinstance(event, ev.NodeUp))}
        occupied = self._settle_strangers([job.key for job in held], config, known)
        for job in held:
            self._take_up(job)
        silent = {node: why for node, why in config.ailing.items() if node in known}
        ailing, why = self.health.first(silent, occupied)
        events += ailing
        facts = [*configured(before, config), *why]
        if thaw_rows is not None or events or facts:
            self.handle(*events, ev.WakeUp(), facts=facts)  # facts are written with an event, and there may be no other

    def _settle_strangers(self, known: Iterable[str], config: DaemonConfig, nodes: Collection[str]) -> dict[str, str]:
        """See to attempts that do not go on by the log; return which of them runs on which of the ``nodes``."""
        over, running = self._folder.settle_strangers(known, self._has_end, end=config.end_unknown)
        self._folder.drop_other_books({*self.log_state.jobs, *map(_job_of, running)})
        for key in over:
            self.executor.retire(key)
        for key, used in running.items():
            self.job_orders.tolerate(_job_of(key), used, self._folder.token(key))
        if running:
            self._awaiting = self._loop.create_task(self._await_strangers(set(running)))
        return {node: key for key, used in running.items() for node in used if node in nodes}

    def _has_end(self, key: str) -> bool:
        number = _number_of(key)
        return number > 0 and self.log_state.has_end(_job_of(key), number)

    async def _await_strangers(self, running: set[str]) -> None:
        while running:
            await asyncio.sleep(_LOOK_AGAIN_S)
            for key in sorted(running):
                if await asyncio.to_thread(self._folder.processes_of, key):
                    continue
                _logger.warning("attempt %s, of which the log does not know, is over", key)
                running.remove(key)
                self.job_orders.tolerate_no_more(_job_of(key))
                if not self._is_next(key):  # else it is found when the job's turn comes, which then has run already
                    await asyncio.to_thread(self._folder.end_stranger, key)
                    self.executor.retire(key)
                self.health.vacate(key)

    def _is_next(self, key: str) -> bool:
        """Whether an attempt is what a job that waits is started as next, or has been since."""
        facts = self.log_state.jobs.get(_job_of(key))
        return facts is not None and _number_of(key) in (facts.attempt, facts.attempt + 1)

    def _await_no_strangers(self) -> None:
        if self._awaiting is not None:
            self._awaiting.cancel()

    def _take_up(self, job: JobFacts) -> None:
        """Follow a job that an earlier daemon has started; an order that it has not answered is said again."""
        job_id = job.spec.job_id
        state, order = self.core.state(job_id), self.core.order(job_id)
        _logger.info("job %d, %s, is taken up again", job_id, state)
        arriving = order.nodes if order is not None and order.kind == "grow" else ()
        nodes = tuple(node for node in self.core.nodes_of(job_id) if node not in arriving)
        self._run(job, nodes, self.core.core_ids(job_id))
        if order is not None:
            again = ev.SendOrder(job_id, order.order, order.kind, order.nodes, order.count, core_ids=order.core_ids)
            self.job_orders.order(again)
        if state is JobState.ENDING:
            self.executor.end(job_id)

    def _run(self, job: JobFacts, nodes: tuple[str, ...], core_ids: tuple[int, ...]) -> None:
        self.job_orders.expect(job, nodes, self._folder.token(job.key))
        self.executor.start(job, nodes, core_ids, self.job_orders.server.endpoint)

    # events and effects ---------------------------------------------------------------------------------------------

    def handle(
        self,
        *events: ev.Event,
        facts: Sequence[log_entries.AnyFact] = (),
        then: Callable[[], None] | None = None,
        after: Callable[[], None] | None = None,
        not_before_s: float = 0.0,
    ) -> list[ev.Effect]:
        """Let the core take ``events`` of this instant; what it wants is done, and ``then``, once that is written.

        ``after`` is called only if it could be written.

        Raises:
            TooLongError: The log could never take it; nothing has happened then.
        """
        if self._broken:
            return []
        entry = Entry(max(self.now_s(), not_before_s), events, tuple(facts))
        draft = log_entries.draft(entry)
        began_s = perf_counter()
        try:
            effects = self.log_state.take(entry)
            failed = self.log_state.policy_failed()
            row = draft.with_effects(effects, None if failed is None else (*facts, failed))
        except Exception as error:
            self._broken = True
            self._broke(error)
            raise
        self.journal.timed("decision", perf_counter() - began_s)
        failure = self.core.policy_failure
        if failure and not self._failing:  # it may be another one with each event
            _logger.error("%s", failure)
        self._failing = bool(failure)
        actions = [partial(self._carry_out, effect) for effect in effects]
        self.journal.next_job = self.log_state.next_job_id
        self.journal.add(self._with_state(row), actions if then is None else [*actions, then], after)
        self.change.set()
        self.change = asyncio.Event()
        if not self._closing:
            self.submissions.judge()
        return effects

    def _with_state(self, row: Row) -> Row:
        """Add the whole state to a row now and then, so that a restart need not begin at the first one."""
        self._thaw_rows += 1
        if self._thaw_rows < self._freeze_rows:
            return row
        self._thaw_rows = 0
        # On the event loop, because the state changes with the next event. A large state therefore delays all else; the
        # longer it takes, the more rows come before the next one.
        began_s = self._loop.time()
        state = self.log_state.freeze()
        self._freeze_rows = max(_FREEZE_EVERY_ROWS, int((self._loop.time() - began_s) * _ROWS_PER_S))
        return replace(row, frozen=(VERSION, state))

    def _carry_out(self, effect: ev.Effect) -> None:
        match effect:
            case ev.StartJob(job_id=job_id, nodes=nodes, core_ids=core_ids):
                _logger.info("job %d starts on %s", job_id, ", ".join(nodes))
                self._run(self.log_state.jobs[job_id], nodes, core_ids)
            case ev.SendOrder():
                what = f"{effect.kind} by {wording.nodes(effect.count)}"
                if effect.kind == "workers":
                    what = f"use {effect.count} {'core' if effect.count == 1 else 'cores'} of each node"
                _logger.info("job %d is ordered to %s", effect.job_id, what)
                self.job_orders.order(effect)
            case ev.KillJob(job_id=job_id, reason=reason):
                _logger.info("job %d is to end: %s", job_id, reason)
                self.executor.end(job_id)
            case ev.NodeLeft(node=node):
                _logger.info("node %s has left the cluster", node)
                self.lent.pop(node, None)
            case ev.KeepNodes(name=name, nodes=kept):
                _logger.info("reservation %s keeps %s", name, ", ".join(kept))
            case ev.RefuseReservation(name=name, reason=reason):
                _logger.info("reservation %s is refused: %s", name, reason)
            case ev.WakeAt(time_s=time_s):
                self._wake_at(time_s)
            case ev.Refuse(job_id=job_id, reason=reason):
                _logger.info("job %d is refused: %s", job_id, reason)
            case _:
                assert_never(effect)

    def _wake_at(self, time_s: float) -> None:
        def wake() -> None:
            self._timers.discard(timer)
            # The loop's clock may be a tick behind the time that it was asked for.
            self.handle(ev.WakeUp(), not_before_s=time_s)

        timer = self._loop.call_at(self._origin_s + time_s, wake)
        self._timers.add(timer)

    # what the processes do ------------------------------------------------------------------------------------------

    def _started(self, job_id: int) -> None:
        if self.core.state(job_id) is JobState.STARTING:  # An earlier daemon may have said so.
            self.handle(ev.JobStarted(job_id))

    def _ended(self, job_id: int, ending: Ending) -> None:
        self.job_orders.dismiss(job_id)
        doom = self._doomed.pop(job_id, None)
        event: ev.JobEnded | ev.JobInterrupted
        if doom is not None:
            event = ev.JobEnded(job_id, "failed", doom)
        elif ending.again and not ending.lost and self.core.state(job_id) in UP:
            event = ev.JobInterrupted(job_id, "place 0 was lost")
        elif ending.status == 0:
            event = ev.JobEnded(job_id, "completed")
        else:
            event = ev.JobEnded(job_id, "lost" if ending.lost else "failed", ending.reason)
        key = self.log_state.jobs[job_id].key
        found = result_of(key, self._folder)
        facts: list[log_entries.AnyFact] = [] if found is None else [log_entries.Result(job_id, found)]
        # what a machine held that went down with the runner need not be whole
        goes_on = ending.again or (ending.status is not None and self._folder.has_books(job_id))
        if goes_on and isinstance(event, ev.JobEnded):
            facts.append(log_entries.GoesOn(job_id))

        def logged() -> None:
            self.executor.retire(key)
            self._remove(self._folder.result(key), partial(self._folder.drop_result, key))
            if job_id not in self.log_state.jobs:
                self._remove(self._folder.books(job_id), partial(self._folder.drop_books, job_id))
            elif not goes_on:
                self._folder.drop_books(job_id)  # at once, for the next attempt writes to this folder

        self.handle(event, facts=facts, after=logged)
        _logger.info("%s", self.core.explain(job_id))

    def _remove(self, path: Path, drop: Callable[[], None]) -> None:
        """Remove what a job left: a folder in a thread, for a job may put any number of files into it."""
        if not path.is_dir():
            drop()
            return
        removal = self._loop.run_in_executor(None, drop)
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)

    def _up(self, job_id: int) -> None:
        self.executor.note_segments(job_id)

    def _doom(self, job_id: int, reason: str) -> None:
        _logger.warning("job %d is to end: %s", job_id, reason)
        self._doomed[job_id] = f"ended by the scheduler: {reason}"
        self.executor.end(job_id)


def _job_of(key: str) -> int:
    job = key.partition(".")[0]
    return int(job) if job.isdecimal() else 0


def _number_of(key: str) -> int:
    number = key.partition(".")[2]
    return int(number) if number.isdecimal() else 0
