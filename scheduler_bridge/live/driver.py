"""Interprets the scheduler core: reports what happens as events, and carries its effects out.

Everything runs on the event loop, so events are handled one at a time and in order. Whatever an effect sets off
(processes that start, orders that are answered) reports back later, as an event of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from scheduler_bridge.core import Explanation, SchedulerCore
from scheduler_bridge.core import effects as fx
from scheduler_bridge.core import events as ev
from scheduler_bridge.live.config import DaemonConfig
from scheduler_bridge.live.dialogue import Dialogue
from scheduler_bridge.live.executor import Executor
from scheduler_bridge.live.requests import JobRequest, Snapshot, SubmitError
from scheduler_bridge.live.runner import Ending
from scheduler_bridge.live.state import StateFolder
from scheduler_bridge.live.status import snapshot
from scheduler_bridge.live.template import check_command, find_mpiexec
from scheduler_bridge.model import InvalidJobError, JobSpec, wording
from scheduler_bridge.record import Recorder, busy_node_s

_logger = logging.getLogger(__name__)


class Driver:
    """One cluster's scheduler at work.

    Args:
        config: Settings.
        core: What decides.
        recorder: What remembers.
        folder: Where logs and output go.
        broke: Called with the error when the core finds itself inconsistent; nothing more can be decided then.
    """

    def __init__(
        self,
        config: DaemonConfig,
        core: SchedulerCore,
        recorder: Recorder,
        folder: StateFolder,
        broke: Callable[[Exception], None],
    ) -> None:
        self._core = core
        self._recorder = recorder
        self._folder = folder
        self._broke = broke
        self._loop = asyncio.get_running_loop()
        self._origin_s = self._loop.time()
        self._at_s = 0.0
        self._nodes = len(config.nodes)
        self._open: set[int] = set()
        self._requests: dict[int, JobRequest] = {}
        self._doomed: dict[int, str] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        self._next_job_id = folder.next_job_id()
        self._closing = False
        self._broken = False
        self._change = asyncio.Event()
        self.dialogue = Dialogue(config, recorder, self.handle, self._up, self._doom)
        self.executor = Executor(folder, find_mpiexec(config.mpiexec), config.grace_s, self._started, self._ended)

    # what users ask for ---------------------------------------------------------------------------------------------

    def now_s(self) -> float:
        """Seconds since this driver began; never goes back."""
        return max(self._at_s, self._loop.time() - self._origin_s)

    def submit(self, request: JobRequest) -> int:
        """Queue a job; return its id.

        Raises:
            SubmitError: It cannot run here.
        """
        if self._closing:
            raise SubmitError("the scheduler is ending")
        low, wanted, high = request.bounds()
        check_command(request)
        job_id = self._next_job_id
        try:
            spec = JobSpec(
                job_id=job_id,
                name=request.name,
                user=request.user,
                job_class=request.job_class,
                nodes=wanted,
                min_nodes=low,
                max_nodes=high,
                walltime_s=request.walltime_s,
                submit_s=self.now_s(),
                command=request.command,
                rho=request.rho,
            )
        except InvalidJobError as error:
            raise SubmitError(str(error)) from None
        self._next_job_id += 1
        self._requests[job_id] = request
        self._open.add(job_id)
        for effect in self.handle(ev.JobSubmitted(spec)):
            if isinstance(effect, fx.Refuse) and effect.job_id == job_id:
                del self._requests[job_id]
                self._open.discard(job_id)
                field = "min_nodes" if request.job_class == "malleable" else "nodes"
                raise SubmitError(effect.reason, field=field, hint="ask for fewer nodes")
        return job_id

    def cancel(self, job_id: int) -> None:
        """End a job, waiting or running.

        Raises:
            KeyError: There never was such a job.
            ValueError: It has ended.
        """
        self._require_open(job_id)
        self.handle(ev.CancelJob(job_id))

    def resize(self, job_id: int, delta: int) -> int:
        """Have a malleable job grow or shrink as if it had asked for it; return the change that is ordered.

        Raises:
            KeyError: There never was such a job.
            ValueError: It cannot be resized so now.
        """
        self._require_open(job_id)
        ordered, reason = self.dialogue.request(job_id, delta)
        if not ordered:
            raise ValueError(f"job {job_id} is not resized: {reason}")
        return ordered

    def explain(self, job_id: int) -> Explanation:
        """Say why a job is where it is, and how that came about.

        Raises:
            KeyError: There never was such a job.
        """
        return replace(self._core.explanation(job_id), now_s=self.now_s())

    def _require_open(self, job_id: int) -> None:
        if job_id not in self._requests:
            raise KeyError(job_id)
        if job_id not in self._open:
            raise ValueError(f"job {job_id} has ended already ({self.snapshot().job(job_id).state})")

    def snapshot(self) -> Snapshot:
        """Say what runs and waits."""
        now_s = self.now_s()
        picture = self._core.snapshot()
        record = self._recorder.record()
        held = sum(len(job.nodes) for job in picture.jobs)
        held_node_s = busy_node_s(record.jobs) + held * (now_s - record.end_s)
        utilization = held_node_s / (now_s * self._nodes) if now_s > 0 else 0.0
        return snapshot(picture, now_s, utilization, self.dialogue.progress)

    async def changed(self) -> None:
        """Wait for the next event."""
        await self._change.wait()

    def is_idle(self) -> bool:
        """Whether no job waits or runs."""
        return not self._open

    def is_open(self, job_id: int) -> bool:
        """Whether a job waits or runs.

        Raises:
            KeyError: There never was such a job.
        """
        if job_id not in self._requests:
            raise KeyError(job_id)
        return job_id in self._open

    async def close(self) -> None:
        """Cancel every job and wait for the ends of the running ones."""
        self._closing = True
        # In one batch, so that no waiting job is started on nodes that a running one gives up.
        events = [ev.CancelJob(job_id) for job_id in sorted(self._open)]
        if events and not self._broken:
            self.handle(*events)
        for job_id in sorted(self._open):  # The core asked for it already, unless it is broken.
            self.executor.end(job_id)
        await self.executor.finish()
        for timer in self._timers:
            timer.cancel()
        self.dialogue.close()

    # events and effects ---------------------------------------------------------------------------------------------

    def handle(self, *events: ev.Event, not_before_s: float = 0.0) -> list[fx.Effect]:
        """Let the core take ``events`` of this instant, and carry out what it wants."""
        if self._broken:
            return []
        now_s = max(self.now_s(), not_before_s)
        try:
            effects = self._core.handle_batch(events, now_s)
        except Exception as error:
            self._broken = True
            self._broke(error)
            raise
        self._at_s = now_s
        self._remember(sorted(events, key=ev.batch_rank), effects, now_s)
        for effect in effects:
            self._carry_out(effect)
        self._change.set()
        self._change = asyncio.Event()
        return effects

    def _remember(self, events: list[ev.Event], effects: list[fx.Effect], now_s: float) -> None:
        """Log and record ``events``; the effects belong to the last one, for decisions are made once per instant."""
        judged: dict[int, ev.JobEnded] = {}
        if any(isinstance(event, ev.JobEnded | ev.CancelJob) for event in events):
            judged = self._judged()
        for number, event in enumerate(events, start=1):
            had = effects if number == len(events) else []
            self._folder.log(now_s, event, had)
            if isinstance(event, ev.JobEnded):
                self._recorder.observe(now_s, judged.get(event.job_id, event), had)
                self._open.discard(event.job_id)
                continue
            self._recorder.observe(now_s, event, had)
            if isinstance(event, ev.CancelJob) and event.job_id in judged:
                # A waiting job ends at once; no other event says so.
                self._recorder.observe(now_s, judged[event.job_id], [])
                self._open.discard(event.job_id)

    def _judged(self) -> dict[int, ev.JobEnded]:
        """The ends of jobs as the core judges them: what a job was killed for counts more than its exit status."""
        return {
            row.spec.job_id: ev.JobEnded(
                row.spec.job_id, row.outcome, row.reason.removeprefix(row.outcome).removeprefix(": ")
            )
            for row in self._core.snapshot().jobs
            if row.outcome is not None
        }

    def _carry_out(self, effect: fx.Effect) -> None:
        match effect:
            case fx.StartJob(job_id=job_id, nodes=nodes):
                _logger.info("job %d starts on %s", job_id, ", ".join(nodes))
                request = self._requests[job_id]
                token = self.dialogue.expect(job_id, nodes, malleable=request.job_class == "malleable")
                self.executor.start(job_id, request, nodes, self.dialogue.server.endpoint, token)
            case fx.SendOrder():
                _logger.info("job %d is told to %s by %s", effect.job_id, effect.kind, wording.nodes(effect.count))
                self.dialogue.order(effect)
            case fx.KillJob(job_id=job_id, reason=reason):
                _logger.info("job %d is ended: %s", job_id, reason)
                self.executor.end(job_id)
            case fx.WakeAt(time_s=time_s):
                self._wake_at(time_s)
            case fx.Refuse(job_id=job_id, reason=reason):
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
        self.handle(ev.JobStarted(job_id))

    def _ended(self, job_id: int, ending: Ending) -> None:
        self.dialogue.dismiss(job_id)
        doom = self._doomed.pop(job_id, None)
        if doom is not None:
            event = ev.JobEnded(job_id, "failed", doom)
        elif ending.status == 0:
            event = ev.JobEnded(job_id, "completed")
        else:
            event = ev.JobEnded(job_id, "failed", ending.reason)
        self.handle(event)
        _logger.info("%s", self._core.explain(job_id))

    def _up(self, job_id: int) -> None:
        self.executor.note_segments(job_id)

    def _doom(self, job_id: int, reason: str) -> None:
        """End a job that runs where it must not."""
        self._doomed[job_id] = f"ended by the scheduler: {reason}"
        self.executor.end(job_id)
