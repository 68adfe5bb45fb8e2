"""Runs one malleable program inside a Slurm allocation, and resizes it together with its allocation.

Grow: nodes from Slurm, then the order to the program; nodes that it does not take go back. Shrink: the order, then the
nodes that the program has left go back. One resize at a time. Users reach a session as they reach the embedded
scheduler: ``malleable resize``, ``queue``, ``nodes``, ``cancel``, ``report``, with its state folder.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from apgas.malleability import orders as wire
from scheduler_bridge.backends.slurm import status
from scheduler_bridge.backends.slurm.allocation import Allocation
from scheduler_bridge.backends.slurm.driver import Slurm, SlurmError
from scheduler_bridge.backends.slurm.history import History
from scheduler_bridge.backends.slurm.orders import Orders
from scheduler_bridge.backends.slurm.program import Program
from scheduler_bridge.backends.slurm.reach import Reach
from scheduler_bridge.backends.slurm.session_config import SessionConfig
from scheduler_bridge.backends.standin import address
from scheduler_bridge.core import Explanation
from scheduler_bridge.core import effects as fx
from scheduler_bridge.core import events as ev
from scheduler_bridge.core.events import Outcome
from scheduler_bridge.live.access import Standing
from scheduler_bridge.live.config import Limits
from scheduler_bridge.live.control_server import ControlServer
from scheduler_bridge.live.requests import JobRequest, Manage, ReservationStatus, Reserve, Snapshot, SubmitError
from scheduler_bridge.live.state import StateFolder
from scheduler_bridge.live.template import check_command, find_mpiexec, launch_command
from scheduler_bridge.model import JobSpec, wording
from scheduler_bridge.record import RunRecord

_logger = logging.getLogger(__name__)


class Session:
    """One program in one allocation.

    Args:
        config: Settings.
        slurm: Whom to ask for nodes.
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
        self._now = status.Condition()
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
        self._history.add(0.0, ev.JobSubmitted(spec), [fx.StartJob(job, self._now.nodes)])
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

    def submit_array(self, request: JobRequest, array: Sequence[int]) -> list[int]:  # noqa: ARG002 - the protocol's
        """Refuse: a session has its one program.

        Raises:
            SubmitError: Always.
        """
        raise SubmitError(
            f"{request.name} is not taken: this session runs one program",
            hint="run the embedded scheduler in the allocation: malleable serve --backend slurm",
        )

    def cancel(self, job_id: int) -> None:
        """End the program, and with it the session."""
        self._require(job_id)
        self.request_stop()

    def leave_jobs(self) -> None:
        """Refuse: nobody else could look after the program.

        Raises:
            ValueError: Always.
        """
        raise ValueError("this ends with its program")

    def request_stop(self) -> None:
        """Begin to end. Slurm may kill us soon, so the companion jobs end at once, together with the program."""
        self._ending = True
        self._program.end()
        if self._allocation is not None and self._closing is None:
            self._allocation.stop()
            self._closing = asyncio.get_running_loop().create_task(asyncio.to_thread(self._allocation.close))

    def resize(self, job_id: int, delta: int) -> int:
        """Begin to resize the program; return the change. How it ended is told by ``malleable queue``.

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
        return status.snapshot(config.job, config.request, self._now, self._now_s(), ready=self._orders.ready)

    def explain(self, job_id: int) -> Explanation:
        """Say why the program is where it is.

        Raises:
            KeyError: There is no such job.
        """
        self._require(job_id)
        return status.explanation(job_id, self._config.request, self._now, self._now_s())

    def manage(self, request: Manage) -> str:
        """Refuse: there is no policy here, and the nodes are Slurm's.

        Raises:
            ValueError: Always.
        """
        what = type(request).__name__.lower()
        raise ValueError(f"{what}: this is one program in a Slurm job; it has no policy, and its nodes are Slurm's")

    def reserve(self, request: Reserve) -> ReservationStatus:
        """Refuse, as ``manage`` does.

        Raises:
            ValueError: Always.
        """
        raise ValueError(f"{request.name or 'this'} is for a scheduler; this is one program in a Slurm job")

    async def durable(self) -> None:
        """Return at once: a session ends with its program, and remembers nothing beyond that."""

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
        order = fx.SendOrder(job, number, kind, nodes, count)
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
