"""Runs one malleable program inside a Slurm allocation, and resizes it together with its allocation.

It is the embedded scheduler with one job, whose number is Slurm's, on a cluster that grows and shrinks. Grow: nodes
from Slurm join the cluster, then the job is ordered to use them. Shrink: the order, then the nodes that the job has
left go back. What the job does not use leaves the cluster at once, so there is nothing to schedule. One resize at a
time.

Where nodes are *harvested*, the session looks for idle ones by itself, and Slurm takes them back with a warning: the
node leaves the cluster, for which the scheduler orders the job to release it, beside whatever else is going on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from apgas.malleability.core_ids import ENV_BIND_CORES, ENV_CORE_IDS
from scheduler_bridge import policies
from scheduler_bridge.backends.slurm.allocation import Allocation, GrowBy
from scheduler_bridge.backends.slurm.driver import Reach, Slurm
from scheduler_bridge.backends.slurm.harvest import LOANS, Harvest
from scheduler_bridge.backends.slurm.harvester import Harvester
from scheduler_bridge.backends.slurm.lease import LOST_S
from scheduler_bridge.backends.slurm.reading import SlurmError
from scheduler_bridge.backends.standin import address
from scheduler_bridge.core import Settings
from scheduler_bridge.core.history import Explanation
from scheduler_bridge.daemon import Daemon, DaemonConfig, JobRequest, JobStatus, Snapshot, requests
from scheduler_bridge.daemon.admission import JobFacts
from scheduler_bridge.daemon.jobs.executor import ENV_CORES, Executor, Setup
from scheduler_bridge.daemon.jobs.orders import Answer
from scheduler_bridge.daemon.storage.restore import Restored, restore
from scheduler_bridge.daemon.storage.state import StateFolder
from scheduler_bridge.daemon.storage.store import Store
from scheduler_bridge.jobrunner.notes import Ending
from scheduler_bridge.jobrunner.run import Launch
from scheduler_bridge.model import wording
from scheduler_bridge.record import RunRecord

_logger = logging.getLogger(__name__)

_STARTS: Final = "fcfs"
"""The policy, which starts the program on all nodes that there are, and orders nothing itself."""
_SLURM: Final = "slurm"
"""What stands for the policy in pictures and the status: Slurm decides."""
_FOREVER_S: Final = 31_536_000.0
"""The walltime of the program: Slurm ends it in time, which an administrator may move."""
AGAIN_S: Final = 10.0
"""After this time nodes that Slurm did not take back, perhaps because it is away, are given back again."""
_KILLED: Final = 128


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
        mpiexec: Starts the program in the place of ``apgas.launch``.
        harvest: Where further nodes are taken from as soon as they are idle, and given back when others want them; the
            program is to survive the loss of nodes then. None: they come only when they are asked for.
        lease_s: How long a companion job stays after our host was lost.
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
    harvest: Harvest | None = None
    lease_s: int = LOST_S


class Session(Daemon):
    """One program in one allocation.

    Args:
        config: Settings.
        slurm: Gives and takes nodes.

    Raises:
        SlurmError: There is no such allocation, it is too small or too large, or Slurm does not answer.
    """

    def __init__(self, config: SessionConfig, slurm: Slurm | None = None) -> None:
        self._job = config.job
        self._wait_s = config.wait_s
        self._reach = Reach(config.state_dir.absolute())
        self._executor: SessionExecutor | None = None
        self._allocation = Allocation(
            slurm or Slurm(),
            config.job,
            config.grow_by,
            self._reach.know_owners,
            config.state_dir / LOANS,
            config.harvest,
            config.lease_s,
        )
        self._harvester: Harvester | None = None
        if config.harvest is not None:
            self._harvester = Harvester(self, self._allocation, config.harvest, self._reap, self._tidy_up)
        self._resizing: Literal["grow", "shrink"] | None = None
        self._reason = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None
        nodes = self._allocation.holdings.nodes
        self._low, _, self._high = config.request.bounds()
        self._wanted = self._high
        """How many nodes are to be had: fewer, once the program was ordered to shrink."""
        if not self._low <= len(nodes) <= self._high:
            raise SlurmError(
                f"the program accepts {self._low} to {self._high} nodes, and job {self._job} has {len(nodes)}",
                "choose --min-nodes and --max-nodes to fit sbatch --nodes",
            )
        self._request = msgspec.structs.replace(
            config.request, nodes=len(nodes), walltime_s=_FOREVER_S,
            resilient=config.request.resilient or config.harvest is not None,
        )  # fmt: skip
        super().__init__(
            DaemonConfig(
                nodes=nodes, policy=_STARTS, state_dir=config.state_dir, host=address(nodes),
                reach=str(self._reach.program), resize_deadline_s=config.resize_deadline_s,
                withdraw_s=config.withdraw_s, grace_s=config.grace_s, mpiexec=config.mpiexec,
            ),
            executor=self._made_executor,
        )  # fmt: skip

    def _made_executor(self, setup: Setup) -> SessionExecutor:
        """Make what runs the program, now that the state folder is ours."""
        self._executor = SessionExecutor(setup)
        self._reach.write()
        return self._executor

    def _open_store(self, folder: Path) -> Store:  # noqa: ARG002 - nothing is kept there
        """Return a log that ends with us: so does the program, and no other scheduler takes it up."""
        return Store(None)

    def _restore(self, folder: StateFolder, store: Store) -> Restored:  # noqa: ARG002 - the number is Slurm's
        log_state, rows = restore(store, self.config, self._job)
        # who orders resizes here is a user, who may order the next one as soon as the program has refused one
        log_state.core.use(policies.get(_STARTS), Settings(failure_backoff_s=0.0))
        return log_state, rows

    # life -------------------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Run the program to its end; return its exit code, 128 + n if signal n ended it.

        Raises:
            DaemonError: The state folder is in use, or MPI's launcher is missing.
            SubmitError: The command cannot be executed.
        """
        try:
            async with self:
                self.note("nodes of a Slurm allocation")
                driver = self._serving()
                driver.job_orders.supplier = self._asked
                self.when_lost(self._lost)
                driver.submissions.submit(self._request)
                if self._harvester is not None:
                    self._spawn(self._harvester.run())
                ended = asyncio.ensure_future(self.ended(self._job))
                ended.add_done_callback(lambda _: self.request_stop())
                await self.stopping()
                if self._harvester is not None:
                    self.note(self._harvester.said())
        finally:
            self._reach.forget()
        status = self._executor.status if self._executor is not None else None
        if status is None:
            return 1  # it could not be started, and that was said
        return status if status >= 0 else _KILLED - status

    async def stop(self) -> None:
        """End the program, and give all further nodes back. Idempotent."""
        self._allocation.stop()
        # those that wait for nothing but the program would wait long
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await super().stop()
        if self._closing is not None:
            await self._closing
        await asyncio.to_thread(self._allocation.close)

    def request_stop(self) -> None:
        """Begin to end. Slurm may kill us soon, so the companion jobs end at once, together with the program."""
        super().request_stop()
        if self._closing is None:
            self._allocation.stop()
            self._closing = asyncio.get_running_loop().create_task(asyncio.to_thread(self._allocation.close))

    # what users ask for -----------------------------------------------------------------------------------------------

    def carry_out(self, request: requests.AnyRequest) -> requests.AnyReply:
        """Let users look at the program, resize and end it; there is nothing to schedule."""
        match request:
            case (
                requests.Status() | requests.GetRecord() | requests.Explain() | requests.Cancel() | requests.Resize()
                | requests.Shutdown(keep_jobs=False)
            ):  # fmt: skip
                return super().carry_out(request)
            case _:
                return requests.Failure(
                    reason="one program runs here, without a scheduler: its nodes are Slurm's",
                    hint="run the scheduler in the allocation: malleable serve --backend slurm",
                )

    def cancel(self, job_id: int) -> None:
        """End the program, and with it the session."""
        super().cancel(job_id)
        self.request_stop()

    def resize(self, job_id: int, delta: int) -> int:
        """Begin to resize the program; return the change. ``malleable queue`` says how it ended.

        Raises:
            KeyError: There is no such job.
            ValueError: It cannot be resized so now.
        """
        if self.standing(job_id) is None:
            raise KeyError(job_id)
        if why := self._objection(delta):
            raise ValueError(f"job {job_id} is not resized: {why}")
        self._want(delta)
        self._begin_resize(delta)
        return delta

    def _want(self, delta: int) -> None:
        wanted = len(super().snapshot().job(self._job).nodes) + delta
        self._wanted = wanted if delta < 0 else max(wanted, self._wanted)

    def _objection(self, delta: int) -> str:
        row = self.snapshot().job(self._job)
        if self._stop_requested.is_set():
            return "it is ending"
        if row.resizing is not None:
            return f"it is being resized ({row.resizing})"
        if not row.ready:
            return "it takes no orders now"
        if not self._low <= len(row.nodes) + delta <= self._high or delta == 0:
            return f"it has {wording.nodes(len(row.nodes))} and accepts {self._low} to {self._high}"
        return ""

    def explain(self, job_id: int) -> Explanation:
        """Say where the program is, and why it has not the nodes that were asked for."""
        seen = super().explain(job_id)
        said = [self._reason or seen.text, *([self._harvester.said()] if self._harvester is not None else [])]
        return msgspec.structs.replace(seen, text="; ".join(filter(None, said)))

    def record(self) -> RunRecord:
        """Return the record of the run so far; also after the end."""
        return msgspec.structs.replace(super().record(), policy=_SLURM)

    def snapshot(self) -> Snapshot:
        """Say what runs, and where. A resize lasts from the first word to Slurm to the last one."""
        seen = super().snapshot()
        return msgspec.structs.replace(seen, policy=_SLURM, jobs=tuple(self._shown(row) for row in seen.jobs))

    def _shown(self, row: JobStatus) -> JobStatus:
        if row.end_s is not None:
            return row
        if self._reason:  # it would not be seen beside progress
            row = msgspec.structs.replace(row, reason=self._reason, progress=None)
        return msgspec.structs.replace(row, resizing=self._resizing or row.resizing)

    # what the program says --------------------------------------------------------------------------------------------

    def _asked(self, _job_id: int, delta: int, answer: Answer) -> None:
        """Have the program resized that asks for it."""
        if why := self._objection(delta):
            answer(0, why)
        else:
            self._want(delta)
            self._begin_resize(delta, answer)

    def _lost(self, nodes: tuple[str, ...], reason: str) -> None:
        """The program goes on without ``nodes``, which have died: they leave, perhaps beside a resize."""
        self._say(f"lost {', '.join(nodes)}: {reason}")
        self._remove(node for node in nodes if node in self._serving().core.pool)
        if self._harvester is not None:
            self._harvester.lost(nodes, reason)
        else:
            self._spawn(asyncio.to_thread(self._allocation.lost, nodes))

    # resizes ----------------------------------------------------------------------------------------------------------

    def _begin_resize(
        self, delta: int, answer: Answer = lambda _granted, _reason: None, at_least: int | None = None
    ) -> asyncio.Task[None]:
        """Resize the program in a task; until that has ended, no other resize begins."""
        self._resizing = "grow" if delta > 0 else "shrink"

        async def watched() -> None:
            try:
                await self._resize(delta, answer, at_least)
            except SlurmError as error:
                self._say(f"not resized: {error}")
            except Exception:
                _logger.exception("a resize failed")
                self._say("not resized: see the log of the session")
            finally:
                self._resizing = None

        return self._spawn(watched())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _resize(self, delta: int, answer: Answer, at_least: int | None) -> None:
        orders, before = self._serving().job_orders, super().snapshot().job(self._job)
        try:
            if delta > 0:
                nodes = await self._take(delta, at_least)
                self.add_nodes(nodes)
                delta = len(nodes)
                while super().snapshot().job(self._job).resizing is not None:  # a node is taken back meanwhile
                    await self.changed()
            else:
                self._allocation.check_release(-delta)
        except SlurmError as error:
            answer(0, str(error)[:4000])
            raise
        answer(*orders.request(self._job, delta))
        while (row := super().snapshot().job(self._job)).resizing is not None:
            await self.changed()
        done = row.grows + row.shrinks > before.grows + before.shrinks
        self._say("" if done else f"not resized: {row.reason}")
        link = orders.server.links.get(self._job)
        if link is not None and link.abandoned:
            return  # it may use them: they are given back when it has ended
        await self._give_idle_back()

    async def _take(self, count: int, at_least: int | None) -> tuple[str, ...]:
        began_s = time.monotonic()
        nodes = await asyncio.to_thread(self._allocation.grow, count, self._wait_s, at_least=at_least)
        _logger.info("Slurm gives %s after %.2f s", ", ".join(nodes), time.monotonic() - began_s)
        kept = nodes if self._harvester is None else await self._harvester.kept(nodes)
        if not kept:
            raise SlurmError(f"Slurm takes {', '.join(nodes)} back at once")
        return kept

    def _remove(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self.manage(requests.ChangeNode(node=node, to="remove"))

    async def _give_back(self, nodes: Iterable[str]) -> None:
        """Give back those of ``nodes`` that are ours and not the program's, and if Slurm does not take them, later."""
        unused = [name for name in nodes if name in self._allocation.holdings.nodes and name not in self.nodes]
        if not unused:
            return
        names, began_s = ", ".join(unused), time.monotonic()
        try:
            await asyncio.to_thread(self._allocation.give_back, unused)
        except SlurmError as error:
            self._say(f"{names} not given back yet: {error}")
            self._spawn(self._give_back_later(unused, self._reason))
        else:
            _logger.info("%s given back after %.2f s", names, time.monotonic() - began_s)

    async def _give_back_later(self, nodes: list[str], said: str) -> None:
        await asyncio.sleep(AGAIN_S)
        if self._reason == said:
            self._say("")
        await self._give_back(nodes)

    async def _give_idle_back(self) -> None:
        nodes = [node.name for node in super().snapshot().nodes if node.state == "idle"]
        self._remove(nodes)
        await self._give_back(nodes)

    # nodes that Slurm takes back --------------------------------------------------------------------------------------

    @property
    def room_for_lent(self) -> int:
        """How many nodes more are to be had, now."""
        held = len(super().snapshot().job(self._job).nodes)
        return 0 if self._objection(1) else self._wanted - held

    async def _tidy_up(self) -> None:
        """Give back what the program has left: it may release another node than the one that it should."""
        if self._resizing is None:
            await self._give_idle_back()

    async def _reap(self, most: int) -> bool:
        """Grow by as many nodes as are idle; return whether any came."""
        grows = super().snapshot().job(self._job).grows
        try:
            idle = await asyncio.to_thread(self._allocation.idle)
        except SlurmError as error:
            self._say(f"not resized: {error}")
            return False
        if idle and not self._objection(1):
            await self._begin_resize(min(idle, most), at_least=1)
        return super().snapshot().job(self._job).grows > grows

    def _say(self, reason: str) -> None:
        self._reason = reason
        if reason:
            _logger.warning("%s", reason)


class SessionExecutor(Executor):
    """Runs the program such that it writes where the session writes, and knows how it ended."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._output = os.dup(1), os.dup(2)
        self.status: int | None = None

    def launch(self, job: JobFacts, nodes: tuple[str, ...], core_ids: tuple[int, ...], endpoint: str) -> Launch:
        """Return what the runner of the program is given. Slurm, not we, says which cores are the program's."""
        launch = super().launch(job, nodes, core_ids, endpoint)
        cores = (ENV_CORES, ENV_CORE_IDS, ENV_BIND_CORES)
        environment = {name: value for name, value in launch.environment.items() if name not in cores}
        return replace(launch, environment=environment, inherited=self._output)

    async def judged(self, job_id: int, ending: Ending) -> Ending:
        """Keep the exit status."""
        self.status = ending.status
        if ending.status is None:
            _logger.error("the program %s", ending.reason)
        return await super().judged(job_id, ending)

    def retire(self, key: str) -> None:
        """Forget an attempt at once: if it is one of a session that was killed, Slurm has ended its runner, too."""
        self._folder.notes(key).forget()

    def close(self) -> None:
        """Forget what is left of the program."""
        super().close()
        for number in self._output:
            os.close(number)
