"""Runs one malleable program inside a Slurm allocation, and resizes it together with its allocation.

Grow: nodes from Slurm, then the order to the program; nodes that it does not take go back. Shrink: the order, then the
nodes that the program has left go back. One resize at a time. Users reach a session as they reach the embedded
scheduler: ``malleable resize``, ``queue``, ``nodes``, ``cancel``, ``report``, with its state folder.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from apgas.malleability import orders as wire
from apgas.malleability.orders import Progress
from scheduler_bridge.backends.slurm.allocation import Allocation, GrowBy
from scheduler_bridge.backends.slurm.driver import Reach, Slurm, SlurmError
from scheduler_bridge.backends.standin import address
from scheduler_bridge.core import Explanation, JobState, JobStatus, events
from scheduler_bridge.core import events as ev
from scheduler_bridge.core.events import Outcome
from scheduler_bridge.daemon.config import Limits
from scheduler_bridge.daemon.control.access import Standing
from scheduler_bridge.daemon.control.server import ControlServer
from scheduler_bridge.daemon.jobs.server import JobServer
from scheduler_bridge.daemon.jobs.session import Heard, JobLink, OpenOrder, Trespassed
from scheduler_bridge.daemon.jobs.template import check_command, find_mpiexec, launch_command
from scheduler_bridge.daemon.requests import (
    JobRequest,
    NodeStatus,
    Snapshot,
)
from scheduler_bridge.daemon.storage.state import StateFolder, scratch_folder
from scheduler_bridge.jobrunner import processes
from scheduler_bridge.model import JobSpec, wording
from scheduler_bridge.record import Recorder, RunRecord

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """Settings of a session.

    Attributes:
        job: The number of the Slurm job that we run in.
        request: The program; its bounds are those of resizes.
        state_dir: Folder of the control socket and the history; every session has its own.
        grow_by: How the allocation grows.
        wait_s: How long Slurm may look for each further node.
        resize_deadline_s: How long the program may take to carry an order out.
        withdraw_s: How long to answer when an order is taken back.
        grace_s: Time between TERM and KILL when it is ended.
        mpiexec: The launcher; None: the one beside the running Python.
    """

    job: int
    request: JobRequest
    state_dir: Path
    grow_by: GrowBy = "companion"
    wait_s: float = 10.0
    resize_deadline_s: float = 60.0
    withdraw_s: float = 5.0
    grace_s: float = 1.0
    mpiexec: Path | None = None


class Session:
    """One program in one allocation.

    Args:
        config: Settings.
        slurm: Gives and takes nodes.
    """

    def __init__(self, config: SessionConfig, slurm: Slurm | None = None) -> None:
        self._config = config
        self._slurm = slurm or Slurm()
        self._began_s = time.monotonic()
        self._history = History(datetime.now(UTC).isoformat(timespec="seconds"))
        self._orders = Orders(
            config.job, config.resize_deadline_s, config.withdraw_s, self._said, self._trespassed
        )  # fmt: skip
        self._control = ControlServer(self, Limits())
        self._tasks: set[asyncio.Task[None]] = set()
        self._now = Condition()
        self._ending = False
        self._closing: asyncio.Task[None] | None = None
        self._program = Program(config.grace_s)
        self._allocation: Allocation | None = None

    # life -------------------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Run the program to its end; return its exit code.

        Raises:
            SlurmError: There is no such allocation, or Slurm does not answer.
            DaemonError: The state folder is in use, or MPI's launcher is missing.
            SubmitError: The command cannot be executed.
        """
        config = self._config
        check_command(config.request)
        mpiexec = find_mpiexec(config.mpiexec)
        folder = StateFolder(config.state_dir)
        try:
            reach = Reach(folder.path)
            reach.write()
            try:
                allocation = Allocation(self._slurm, config.job, config.grow_by, reach.know_owners)
                self._allocation = allocation
                self._now.nodes = allocation.holdings.nodes
                self._check_size()
                await self._orders.server.start(address(self._now.nodes))
                await self._control.start(folder.path)
                await self._control.serve()
                code = await self._execute(reach, mpiexec)
            finally:
                await self._stop()
                reach.forget()
            folder.write_history(self._history.record())
        finally:
            folder.close()
        return code

    def _check_size(self) -> None:
        low, _, high = self._config.request.bounds()
        if not low <= len(self._now.nodes) <= high:
            raise SlurmError(
                f"the program accepts {low} to {high} nodes, and job {self._config.job} has {len(self._now.nodes)}",
                "choose --min-nodes and --max-nodes to fit sbatch --nodes",
            )

    async def _execute(self, reach: Reach, mpiexec: Path) -> int:
        job, request = self._config.job, self._config.request
        low, _, high = request.bounds()
        spec = JobSpec(
            job_id=job, name=request.name, user=request.user, job_class=request.job_class, nodes=len(self._now.nodes),
            min_nodes=low, max_nodes=high, walltime_s=request.walltime_s, submit_s=0.0, command=request.command,
        )  # fmt: skip
        self._history.add(0.0, ev.JobSubmitted(spec), [events.StartJob(job, self._now.nodes)])
        command = launch_command(request, self._now.nodes, mpiexec, reach.options)
        token = self._orders.expect(self._now.nodes)
        environment = self._program.environment(job, self._orders.server.endpoint, token)
        code = await self._program.run(command, environment, self._started)
        self._now.state = "completed" if code == 0 else "failed"
        outcome: Outcome = "completed" if code == 0 else "cancelled" if self._ending else "failed"
        self._history.add(self._now_s(), ev.JobEnded(job, outcome, "" if code == 0 else f"exit code {code}"))
        return code

    def _started(self) -> None:
        self._now.state = "running"
        self._history.add(self._now_s(), ev.JobStarted(self._config.job))

    async def _stop(self) -> None:
        self._ending = True
        self._orders.server.dismiss(self._config.job)
        if self._allocation is not None:
            self._allocation.stop()
            # those that wait for nothing but the program would wait long
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._closing is not None:
                await self._closing
            await asyncio.to_thread(self._allocation.close)
        await self._control.stop()
        await self._orders.server.stop()

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s

    # what users ask for -----------------------------------------------------------------------------------------------

    def cancel(self, job_id: int) -> None:
        """End the program, and with it the session."""
        self._require(job_id)
        self.request_stop()

    def request_stop(self) -> None:
        """Begin to end. Slurm may kill us soon, so the companion jobs end at once, together with the program."""
        self._ending = True
        self._program.end()
        if self._allocation is not None and self._closing is None:
            self._allocation.stop()
            self._closing = asyncio.get_running_loop().create_task(asyncio.to_thread(self._allocation.close))

    def resize(self, job_id: int, delta: int) -> int:
        """Begin to resize the program; return the change. ``malleable queue`` says how it ended.

        Raises:
            KeyError: There is no such job.
            ValueError: It cannot be resized so now.
        """
        self._require(job_id)
        why = self._objection(delta)
        if why:
            raise ValueError(f"job {job_id} is not resized: {why}")
        self._begin_resize(delta, self._grow(delta) if delta > 0 else self._shrink(-delta))
        return delta

    def _require(self, job_id: int) -> None:
        if job_id != self._config.job:
            raise KeyError(job_id)

    def _objection(self, delta: int) -> str:
        low, _, high = self._config.request.bounds()
        if self._ending:
            return "it is ending"
        if self._now.resizing is not None:
            return f"it is being resized ({self._now.resizing})"
        if not self._orders.ready:
            return "it takes no orders now"
        if not low <= len(self._now.nodes) + delta <= high or delta == 0:
            return f"it has {wording.nodes(len(self._now.nodes))} and accepts {low} to {high}"
        return ""

    def standing(self, job_id: int) -> Standing | None:
        """Return whose the program is; None if it is another job's."""
        return Standing(self._config.request.user) if job_id == self._config.job else None

    def record(self) -> RunRecord:
        """Return the record of the run so far."""
        return self._history.record()

    def snapshot(self) -> Snapshot:
        """Say what runs, and where."""
        config = self._config
        return snapshot(config.job, config.request, self._now, self._now_s(), ready=self._orders.ready)

    def explain(self, job_id: int) -> Explanation:
        """Say why the program is where it is.

        Raises:
            KeyError: There is no such job.
        """
        self._require(job_id)
        return explanation(job_id, self._config.request, self._now, self._now_s())

    # resizes ----------------------------------------------------------------------------------------------------------

    def _begin_resize(self, delta: int, work: Coroutine[Any, Any, None]) -> None:
        """Let ``work`` resize the program; until it has ended, no other resize begins."""
        self._now.resizing = "grow" if delta > 0 else "shrink"

        async def watched() -> None:
            try:
                await work
            except SlurmError as error:
                self._note(f"not resized: {error}")
            except Exception:
                _logger.exception("a resize failed")
                self._note("not resized: see the log of the session")
            finally:
                self._now.resizing = None
                self._now.releasing = ()

        self._spawn(watched())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _grow(self, count: int) -> None:
        nodes = await self._take(count)
        await self._grow_onto(nodes)

    async def _take(self, count: int) -> tuple[str, ...]:
        assert self._allocation is not None
        began_s = time.monotonic()
        nodes = await asyncio.to_thread(self._allocation.grow, count, self._config.wait_s)
        _logger.info("Slurm gives %s after %.2f s", ", ".join(nodes), time.monotonic() - began_s)
        return nodes

    async def _grow_onto(self, nodes: tuple[str, ...]) -> None:
        assert self._allocation is not None
        outcome = await self._order("grow", len(nodes), nodes)
        if outcome is None:
            return  # it may use them: they are given back when it has ended
        taken = outcome.nodes if outcome.outcome == "done" else ()
        self._now.nodes = (*self._now.nodes, *taken)
        unused = [node for node in nodes if node not in taken]
        await asyncio.to_thread(self._allocation.give_back, unused)

    async def _shrink(self, count: int) -> None:
        assert self._allocation is not None
        self._now.releasing = self._allocation.wish_to_release(count)
        outcome = await self._order("shrink", count, self._now.releasing)
        if outcome is None or outcome.outcome != "done":
            return
        self._now.nodes = tuple(node for node in self._now.nodes if node not in outcome.nodes)
        began_s = time.monotonic()
        await asyncio.to_thread(self._allocation.give_back, outcome.nodes)
        _logger.info("%s given back after %.2f s", ", ".join(outcome.nodes), time.monotonic() - began_s)

    async def _order(self, kind: Literal["grow", "shrink"], count: int, nodes: tuple[str, ...]) -> wire.Outcome | None:
        job, number = self._config.job, self._orders.next_number()
        order = events.SendOrder(job, number, kind, nodes, count)
        self._history.add(self._now_s(), ev.EvolvingRequest(job, count if kind == "grow" else -count), [order])
        outcome = await self._orders.give(number, kind, count, nodes)
        event: ev.Event
        if outcome is None:
            event = ev.ResizeFailed(job, number, "no outcome in time")
            self._note(f"not resized: no outcome within {self._config.resize_deadline_s:g} s; no further orders")
        elif outcome.outcome != "done":
            event = ev.ResizeFailed(job, number, outcome.reason)
            self._note(f"{kind} {outcome.outcome}: {outcome.reason}")
        else:
            done = ev.GrowCompleted if kind == "grow" else ev.ShrinkCompleted
            event = done(job, number, outcome.nodes)
            if kind == "grow":
                self._now.grows += 1
            else:
                self._now.shrinks += 1
            self._note("")
            self._spawn(self._program.note_segments())
        self._history.add(self._now_s(), event)
        if outcome is not None:
            self._history.measured(job, number, outcome.seconds, dict(outcome.phases))
        return outcome

    def _note(self, reason: str) -> None:
        self._now.reason = reason
        if reason:
            _logger.warning("%s", reason)

    # what the program says --------------------------------------------------------------------------------------------

    def _said(self, message: wire.ToScheduler) -> None:
        match message:
            case wire.Progress():
                self._now.progress = message
            case wire.Evolving():
                self._asked(message)
            case wire.Lost(nodes=nodes):
                self._now.nodes = tuple(node for node in self._now.nodes if node not in nodes)
                self._history.add(self._now_s(), ev.NodesLost(self._config.job, nodes, message.reason))
                self._note(f"lost {', '.join(nodes)}: {message.reason}")
                if self._allocation is not None:
                    self._spawn(asyncio.to_thread(self._allocation.lost, nodes))  # beside a resize, perhaps
            case wire.Ready():
                self._spawn(self._program.note_segments())
            case _:
                pass

    def _asked(self, message: wire.Evolving) -> None:
        why = self._objection(message.delta)
        if why:
            self._orders.answer(message.request, 0, why)
            return
        self._begin_resize(message.delta, self._grant(message))

    async def _grant(self, message: wire.Evolving) -> None:
        if message.delta < 0:
            self._orders.answer(message.request, message.delta)
            await self._shrink(-message.delta)
            return
        try:
            nodes = await self._take(message.delta)
        except SlurmError as error:
            self._orders.answer(message.request, 0, str(error))
            raise
        self._orders.answer(message.request, len(nodes))
        await self._grow_onto(nodes)

    def _trespassed(self, story: str) -> None:
        self._note(f"ended: {story}")
        self.request_stop()


# Orders to the program, one at a time --------------------------------------------------------------------------------


class Orders:
    """The program's side of a session.

    Args:
        job: Its number.
        deadline_s: How long it may take to carry an order out.
        withdraw_s: How long to answer when it is taken back.
        said: Called with everything else that it says.
        trespassed: Called with the story if it runs where it must not.
    """

    def __init__(
        self,
        job: int,
        deadline_s: float,
        withdraw_s: float,
        said: Callable[[wire.ToScheduler], None],
        trespassed: Callable[[str], None],
    ) -> None:
        self._job = job
        self._deadline_s = deadline_s
        self._withdraw_s = withdraw_s
        self._said = said
        self._trespassed = trespassed
        self._numbers = itertools.count(1)
        self._awaited: asyncio.Future[wire.Outcome] | None = None
        self.server = JobServer(self._heard, Limits())

    def expect(self, nodes: tuple[str, ...]) -> str:
        """The program is about to start on ``nodes``: return its token."""
        token = secrets.token_hex(32)
        self.server.admit(JobLink(self._job, token, frozenset(nodes)))
        return token

    @property
    def ready(self) -> bool:
        """Whether it takes orders."""
        link = self.server.link(self._job)
        return link is not None and link.phase == "ready"

    def next_number(self) -> int:
        """Return the number of the next order."""
        return next(self._numbers)

    async def give(
        self, number: int, kind: Literal["grow", "shrink"], count: int, nodes: tuple[str, ...]
    ) -> wire.Outcome | None:
        """Give an order; return its outcome, or None if there is none: the program takes no orders any more."""
        self._awaited = asyncio.get_running_loop().create_future()
        self.server.order(self._job, OpenOrder(number, kind, count, nodes))
        try:
            for wait_s in (self._deadline_s, self._withdraw_s):
                done, _ = await asyncio.wait({self._awaited}, timeout=wait_s)
                if done:
                    return self._awaited.result()
                self.server.withdraw(self._job)
        finally:
            self._awaited.cancel()
            self._awaited = None
        if self.server.abandon(self._job):
            self._trespassed("it grew on nodes that it was not given")
        return None

    def answer(self, request: int, granted: int, reason: str = "") -> None:
        """Answer a request of the program's for nodes."""
        self.server.send(self._job, wire.Answer(request=request, granted=granted, reason=reason[:4000]))

    def _heard(self, heard: Heard | Trespassed) -> None:
        if isinstance(heard, Trespassed):
            self._trespassed(heard.reason)
            return
        message = heard.message
        link = self.server.link(self._job)
        if isinstance(message, wire.Lost) and link is not None:
            link.held -= set(message.nodes)
        if not isinstance(message, wire.Outcome):
            self._said(message)
            return
        if message.outcome == "done" and link is not None:
            nodes = set(message.nodes)
            link.held = link.held | nodes if message.kind == "grow" else link.held - nodes
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(message)


# The program's processes ---------------------------------------------------------------------------------------------
#
# They write where the session writes, and leave nothing behind.

_KILLED = 128
_TERM_AGAIN_S = 0.25
_LEFTOVER_S = 0.5


class Program:
    """One execution.

    Args:
        grace_s: Time between TERM and KILL.
    """

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._mark = processes.new_mark()
        self._to_end = asyncio.Event()
        self._segments: set[str] = set()

    def end(self) -> None:
        """Have the processes ended; ``run`` returns when nothing of them is left."""
        self._to_end.set()

    def environment(self, job: int, endpoint: str, token: str) -> dict[str, str]:
        """Return the variables of the program: ours, and how it reaches the session."""
        path = os.environ.get("PATH", os.defpath)
        foreign = ("PMI_", "HYDI_", "HYDRA_")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
            # the launcher beside this Python is the one that its mpi4py works with
            "PATH": os.pathsep.join([str(Path(sys.prefix) / "bin"), path]),
            "TMPDIR": str(scratch_folder(self._mark)),
            wire.ENV_SCHEDULER: endpoint,
            wire.ENV_JOB: str(job),
            wire.ENV_TOKEN: token,
            processes.ENV_MARK: self._mark,
        }

    async def run(self, command: tuple[str, ...], environment: Mapping[str, str], started: Callable[[], None]) -> int:
        """Start it, call ``started``, wait for its end, and remove all that it left.

        Returns:
            Its exit code; 128 + n if signal n ended it.
        """
        scratch = scratch_folder(self._mark)
        scratch.mkdir(mode=0o700)
        try:
            # mpiexec passes the end of its input on to nodes that the job has left, and would die of SIGPIPE: it keeps
            # this process's way of ignoring it
            process = await asyncio.create_subprocess_exec(
                *command, env=dict(environment), stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
                restore_signals=False,
            )  # fmt: skip
            started()
            status = await self._wait(process)
        finally:
            await asyncio.to_thread(processes.end_marked, self._mark, _LEFTOVER_S)
            await asyncio.to_thread(processes.remove_segments, self._segments)
            await asyncio.to_thread(shutil.rmtree, scratch, True)
        return status if status >= 0 else _KILLED - status

    async def note_segments(self) -> None:
        """Remember which shared memory it uses now, to remove that if it is leaked."""
        self._segments |= await asyncio.to_thread(processes.shared_segments, self._mark)

    async def _wait(self, process: asyncio.subprocess.Process) -> int:
        exited = asyncio.ensure_future(process.wait())
        to_end = asyncio.ensure_future(self._to_end.wait())
        await asyncio.wait({exited, to_end}, return_when=asyncio.FIRST_COMPLETED)
        to_end.cancel()
        if not exited.done():
            await self.note_segments()
            until_s = asyncio.get_running_loop().time() + self._grace_s
            # mpiexec loses a TERM that comes in its first milliseconds, so one is not enough
            while not exited.done() and (left_s := until_s - asyncio.get_running_loop().time()) > 0:
                processes.signal_group(process.pid, signal.SIGTERM)
                await asyncio.wait({exited}, timeout=min(_TERM_AGAIN_S, left_s))
            if not exited.done():
                processes.signal_group(process.pid, signal.SIGKILL)
        return await exited


# Status for users, as of a cluster with one job ----------------------------------------------------------------------

_STATES = {"starting": JobState.STARTING, "running": JobState.RUNNING}


@dataclass(slots=True)
class Condition:
    """What changes while the program runs.

    Attributes:
        state: Where it is in its life.
        nodes: Those it runs on.
        releasing: Those that it is to leave.
        resizing: The order that it is carrying out.
        reason: How the last resize failed, or what else there is to say; empty: nothing.
        grows: Orders to grow that it carried out.
        shrinks: Orders to shrink that it carried out.
        progress: How far it says that it is.
    """

    state: Literal["starting", "running", "completed", "failed"] = "starting"
    nodes: tuple[str, ...] = ()
    releasing: tuple[str, ...] = ()
    resizing: Literal["grow", "shrink"] | None = None
    reason: str = ""
    grows: int = 0
    shrinks: int = 0
    progress: Progress | None = None


def snapshot(job: int, request: JobRequest, condition: Condition, now_s: float, *, ready: bool) -> Snapshot:
    """Describe the session as a cluster of its nodes, at ``now_s`` seconds since its beginning."""
    low, _, high = request.bounds()
    progress = condition.progress if not condition.reason else None
    row = JobStatus(
        job=job,
        name=request.name,
        user=request.user,
        job_class=request.job_class,
        state=condition.state,
        nodes=condition.nodes,
        wanted_nodes=request.nodes,
        min_nodes=low,
        max_nodes=high,
        walltime_s=request.walltime_s,
        submit_s=0.0,
        start_s=0.0,
        end_s=None,
        grows=condition.grows,
        shrinks=condition.shrinks,
        ready=ready,
        resizing=condition.resizing,
        reason=condition.reason,
        progress=progress.done if progress else None,
        progress_total=progress.total if progress else None,
        progress_unit=progress.unit if progress else "",
    )
    nodes = tuple(NodeStatus(name, "busy", job, name in condition.releasing) for name in condition.nodes)
    return Snapshot(now_s=now_s, policy="slurm", utilization=1.0, nodes=nodes, jobs=(row,))


def explanation(job: int, request: JobRequest, condition: Condition, now_s: float) -> Explanation:
    """Say why the program is where it is."""
    text = condition.reason or f"it runs on {wording.nodes(len(condition.nodes))} of Slurm job {job}"
    return Explanation(
        job_id=job,
        name=request.name,
        state=_STATES.get(condition.state, JobState.ENDED),
        now_s=now_s,
        text=text,
        nodes=condition.nodes,
        expected_start_s=None,
        counts_on=(),
        moments=(),
    )


# The record of the program for ``malleable report``, as of a cluster with one job ------------------------------------


class History:
    """Events in the order in which they came; the nodes of the picture are those that were held at some time.

    Args:
        started_at: The beginning, as an ISO date.
    """

    def __init__(self, started_at: str) -> None:
        self._started_at = started_at
        self._events: list[tuple[float, ev.Event, tuple[events.Effect, ...]]] = []
        self._nodes: dict[str, None] = {}
        self._measured: list[tuple[int, int, float, dict[str, float]]] = []

    def add(self, now_s: float, event: ev.Event, effects: Iterable[events.Effect] = ()) -> None:
        """Remember ``event`` and what came of it."""
        had = tuple(effects)
        self._events.append((now_s, event, had))
        for effect in had:
            if isinstance(effect, events.StartJob | events.SendOrder):
                self._nodes.update(dict.fromkeys(effect.nodes))

    def measured(self, job: int, order: int, seconds: float, phases: dict[str, float]) -> None:
        """Remember what the program measured of an order."""
        self._measured.append((job, order, seconds, phases))

    def record(self) -> RunRecord:
        """Return the record so far."""
        recorder = Recorder(tuple(self._nodes), "slurm", started_at=self._started_at)
        for now_s, event, effects in self._events:
            recorder.observe(now_s, event, effects)
        for job, order, seconds, phases in self._measured:
            recorder.note_measured(job, order, seconds, phases)
        recorder.note("nodes of a Slurm allocation")
        return recorder.record()
