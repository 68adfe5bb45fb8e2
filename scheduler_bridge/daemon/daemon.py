"""The daemon: one live scheduler, from the lock on its state folder to its end.

``Daemon`` is used in an asyncio program, ``DaemonThread`` in any other.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeAlias, TypeVar, assert_never

import msgspec

from scheduler_bridge import policies
from scheduler_bridge.core import Explanation, ReservationStatus, Snapshot
from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon import requests
from scheduler_bridge.daemon.admission import JobFacts
from scheduler_bridge.daemon.config import DaemonConfig, DaemonError
from scheduler_bridge.daemon.control.access import Door
from scheduler_bridge.daemon.control.server import ControlServer
from scheduler_bridge.daemon.control.submission import log_error
from scheduler_bridge.daemon.driver import Driver, ExecutorMaker
from scheduler_bridge.daemon.jobs.executor import Executor
from scheduler_bridge.daemon.jobs.health import Health
from scheduler_bridge.daemon.requests import JobRequest, SubmitError
from scheduler_bridge.daemon.storage import log_entries
from scheduler_bridge.daemon.storage.journal import Journal, Timed, untimed
from scheduler_bridge.daemon.storage.log_state import LogState
from scheduler_bridge.daemon.storage.restore import Restored, restore
from scheduler_bridge.daemon.storage.salvage import finish_salvage, salvage
from scheduler_bridge.daemon.storage.state import CONTROL_SOCKET, StateFolder
from scheduler_bridge.daemon.storage.store import Store, StoreError
from scheduler_bridge.record import RunRecord

_logger = logging.getLogger(__name__)
_LAST_WORD_S: Final = 0.2
"""Time for the answer to reach the caller that asked for the end."""
_STUCK_S: Final = 10
"""An event loop that takes so long for a step is reported."""


class Daemon:
    """One live scheduler; see the package's documentation for examples.

    Methods raise ``KeyError`` for a job that there never was.

    Args:
        config: Settings.
        executor: Makes what runs the jobs' processes; a stand-in, where only the daemon is to be measured.
        timed: Called with how long steps took.

    Raises:
        DaemonError: On entering: the folder is served by another daemon, or the MPI launcher is missing.
        UnknownPolicyError: On entering: there is no such policy.
    """

    def __init__(self, config: DaemonConfig, *, executor: ExecutorMaker = Executor, timed: Timed = untimed) -> None:
        self.config = config
        self._make_executor = executor
        self._timed = timed
        self._stop_requested = asyncio.Event()
        self._stopped = threading.Event()
        self._leave: Callable[[], None] | None = None
        self._leaving = False
        self._error: Exception | None = None
        self._folder: StateFolder | None = None
        self._driver: Driver | None = None
        self._store: Store | None = None
        self._control = ControlServer(self, config.limits, [Door.parse(text) for text in config.doors])

    async def __aenter__(self) -> Self:
        policies.get(self.config.policy, **self.config.parameters)
        self._folder = StateFolder(self.config.state_dir)
        try:
            finish_salvage(self._folder.path)
            for line in salvage(self._folder.path) if self.config.salvage else ():
                _logger.error("%s", line)
            self._store = self._open_store(self._folder.path)
            await self._start(self._folder, self._store)
        except BaseException:
            await self._stop_servers()
            if self._driver is not None:
                await self._driver.abandon()
            if self._store is not None:
                self._store.close()
            self._folder.close()
            raise
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self.stop()
        if self._error is not None and error is None:
            raise self._error

    def _open_store(self, folder: Path) -> Store:
        return Store(folder)

    def _restore(self, folder: StateFolder, store: Store) -> Restored:
        return restore(store, self.config, folder.next_job_id())

    async def _start(self, folder: StateFolder, store: Store) -> None:
        log_state, rows = self._restore(folder, store)
        journal = Journal(store, self._broke, self._timed)
        self._driver = Driver(self.config, log_state, journal, folder, self._broke, self._make_executor)
        await self._driver.job_orders.server.start(self.config.host, folder.last_port())
        await self._control.start(folder.path)  # if a door cannot be had, no job has been started yet
        self._driver.resume(self.config, rows)
        await self.durable()  # who sees it serve may rely on the settings of this start being on disk
        await self._driver.job_orders.server.listener.serve()
        await self._control.serve()
        folder.publish(
            jobs=self.endpoint, control=str(folder.path / CONTROL_SOCKET), pid=os.getpid(), policy=self.config.policy,
            nodes=self.config.nodes, started_at=log_state.recorder.record().started_at,
        )  # fmt: skip
        watched = (asyncio.get_running_loop(), threading.get_ident(), self._stopped)
        threading.Thread(target=_watch, args=watched, name="malleable-watch", daemon=True).start()

    async def stop(self) -> None:
        """End every job, write the history, and leave nothing behind. Idempotent."""
        folder, self._folder = self._folder, None
        if folder is None:
            return
        self._stop_requested.set()
        try:
            if self._driver is not None:
                await self._driver.close()
            await self._stop_servers()
            if self._driver is not None and self._store is not None:
                self._end_era(self._store, self._driver.log_state, self._driver.journal)
            folder.write_history(self.record())
        finally:
            self._stopped.set()
            if self._store is not None:
                self._store.close()
            folder.close()

    def _end_era(self, store: Store, log_state: LogState, journal: Journal) -> None:
        """Note that nothing is left, unless the log lacks something: then the next daemon looks for itself."""
        if not log_state.jobs and journal.complete:
            try:
                store.end_era(log_state.next_job_id, log_state.core.past_use, log_state.at_s)
            except StoreError as error:
                _logger.error("%s: %s", store.path, error.strerror)

    async def _stop_servers(self) -> None:
        await self._control.stop()
        if self._driver is not None:
            await self._driver.job_orders.server.listener.stop()

    def _broke(self, error: Exception) -> None:
        """The core is inconsistent: end, rather than decide wrongly."""
        if self._error is None:
            self._error = error
        self._stop_requested.set()

    # what users ask for ---------------------------------------------------------------------------------------------

    @property
    def endpoint(self) -> str:
        """Where jobs connect: ``host:port``."""
        return self._serving().job_orders.server.endpoint

    def submit(self, request: JobRequest) -> int:
        """Queue a job; return its id.

        Raises:
            SubmitError: It cannot run here.
        """
        return self.submit_array(request, ())[0]

    def submit_array(self, request: JobRequest, array: Sequence[int]) -> list[int]:
        """Queue a job for each number of ``array``, or one if there is none; return their ids.

        Raises:
            SubmitError: It cannot run here, or the array is too long or has a number twice; then no job is queued.
        """
        if self._stop_requested.is_set():
            raise SubmitError("the scheduler is ending")
        return self._serving().submissions.submit(request, array)

    def cancel(self, job_id: int) -> None:
        """End a job, waiting or running.

        Raises:
            ValueError: It has ended.
        """
        self._serving().submissions.cancel(job_id)

    def standing(self, job_id: int) -> JobFacts | None:
        """Return what is known of a job that waits or runs; None if there is no such job."""
        return self._serving().log_state.jobs.get(job_id)

    @property
    def doors(self) -> Sequence[Door]:
        """Where users can come in, beside the control socket."""
        return self._control.doors

    def resize(self, job_id: int, delta: int) -> int:
        """Have a malleable job grow (positive ``delta``) or shrink; return the change that is ordered.

        Raises:
            ValueError: It cannot be resized so now.
        """
        driver = self._serving()
        driver.submissions.require_open(job_id)
        if job_id in driver.log_state.kept:
            raise ValueError(f"job {job_id} is not resized: it waits")
        ordered, reason = driver.job_orders.request(job_id, delta)
        if not ordered:
            raise ValueError(f"job {job_id} is not resized: {reason}")
        return ordered

    def reserve(self, request: requests.Reserve) -> ReservationStatus:
        """Keep nodes for a time to come.

        Raises:
            ValueError: That cannot be.
        """
        driver = self._serving()
        name = driver.submissions.reserve(request)
        return next(kept for kept in driver.core.advance() if kept.name == name)

    def explain(self, job_id: int) -> Explanation:
        """Say why a job is where it is, and how that came about."""
        driver = self._serving()
        found = driver.submissions.explain(job_id)
        lent = [f"{node}: {driver.lent[node]}" for node in found.nodes if node in driver.lent]
        return msgspec.structs.replace(found, now_s=driver.now_s(), text="; ".join((found.text, *lent)))

    def snapshot(self) -> Snapshot:
        """Return nodes and jobs at this moment."""
        return self._serving().snapshot()

    def record(self) -> RunRecord:
        """Return the record of the run so far; also after the end."""
        return self._serving().log_state.record()

    def use(self, policy: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Let another policy decide from now on.

        Raises:
            UnknownPolicyError: There is none of this name.
            ValueError: A parameter is wrong.
        """
        driver, given = self._serving(), dict(parameters or {})
        policies.get(policy, **given)
        text = f"{policy} decides from {driver.now_s():.0f} s on"
        driver.handle(ev.WakeUp(), facts=[log_entries.Policy(policy, given), log_entries.Noted(text)])

    def carry_out(self, request: requests.AnyRequest) -> requests.AnyReply:
        """Do what a user or an operator asks for; say what was done.

        Raises:
            SubmitError: A job or a reservation cannot be taken.
            ValueError: Something else cannot be done.
        """
        match request:
            case requests.Status():
                return self.snapshot()
            case requests.GetRecord():
                return requests.Recorded(record=msgspec.Raw(msgspec.json.encode(self.record())))
            case requests.Explain():
                return requests.Explained(explanation=self.explain(request.job))
            case requests.Submit(job=job, array=array):
                ids = self.submit_array(job, array)
                return requests.Submitted(job=ids[0], jobs=tuple(ids) if array else ())
            case requests.Reserve():
                return requests.Kept(reservation=self.reserve(request))
            case requests.Cancel():
                self.cancel(request.job)
                said = f"job {request.job} is being ended"
            case requests.Resize():
                by = self.resize(request.job, request.delta)
                said = f"job {request.job} is ordered to {'grow' if by > 0 else 'shrink'} by {abs(by)}"
            case requests.Shutdown(keep_jobs=True):
                self.leave_jobs()
                said = "the scheduler ends, its jobs go on"
            case requests.Shutdown():
                self.request_stop()
                said = "the scheduler ends"
            case _:
                said = self.manage(request)
        return requests.Done(text=said)

    def manage(self, request: requests.Manage) -> str:
        """Carry out what an operator wants; say what was done.

        Raises:
            ValueError: It cannot be done.
        """
        driver = self._serving()
        match request:
            case requests.Use():
                self.use(request.policy, request.parameters)
                return f"{request.policy} decides from now on"
            case requests.Hold():
                driver.submissions.hold(request.job, request.held, "user" if request.as_user else "operator")
                return f"job {request.job} is {'held' if request.held else 'released'}"
            case requests.Prioritise():
                driver.submissions.prioritise(request.job, request.priority)
                return f"job {request.job} has priority {request.priority}"
            case requests.LimitUsers():
                driver.handle(ev.UserNodesLimited(request.nodes))
                return f"the jobs of one user hold {request.nodes or 'any number of'} nodes"
            case requests.Unreserve():
                driver.submissions.unreserve(request.name)
                return f"reservation {request.name} is cancelled"
            case requests.ChangeNode():
                driver.submissions.change_node(request.node, request.to)
                left = request.to == "remove" and request.node in driver.core.pool
                return f"node {request.node}: {request.to}{', when its jobs have left it' if left else ''}"
            case _:
                assert_never(request)

    @property
    def nodes(self) -> Sequence[str]:
        """All nodes, those out of service included."""
        return self._serving().core.pool.names

    @property
    def health(self) -> Health:
        """Takes nodes out of service that do not answer."""
        return self._serving().health

    def add_nodes(self, names: tuple[str, ...]) -> None:
        """Put nodes into service: new ones, or such as were out of it.

        Raises:
            DaemonError: A name cannot be one.
        """
        self._check_names(names)
        self._serving().handle(*(ev.NodeUp(name) for name in dict.fromkeys(names)))

    def _check_names(self, names: Iterable[str]) -> None:
        msgspec.structs.replace(self.config, nodes=tuple(dict.fromkeys((*self.config.nodes, *names))))

    @property
    def idle_lent(self) -> Sequence[str]:
        """The nodes that are lent and that no job holds."""
        return self._serving().core.idle_lent

    @property
    def room_for_lent(self) -> int:
        """How many lent nodes more the jobs could use: those that survive the loss of nodes, and take orders."""
        return self._serving().core.room_for_lent

    def lend(self, names: tuple[str, ...], words: str) -> None:
        """Put nodes into service that can be taken back at any time; ``words`` say so, for users.

        Only jobs that can leave them again get them: malleable ones that survive the loss of nodes, as they grow.

        Raises:
            DaemonError: A name cannot be one.
        """
        self._check_names(names)
        driver = self._serving()
        driver.lent.update(dict.fromkeys(names, words))
        driver.handle(*(ev.NodeUp(name, lent=True) for name in dict.fromkeys(names)))

    def recall(self, node: str, words: str) -> None:
        """Have the jobs leave a node at once, whatever they are doing; then it leaves the cluster."""
        driver = self._serving()
        core = driver.core
        if node in driver.lent:
            driver.lent[node] = words
        if node not in core.pool or core.pool.is_leaving(node):
            return
        for job_id in core.pool.holders(node):
            # an order that waits for a suitable phase of the program would be in the way
            driver.job_orders.server.withdraw(job_id)
        driver.handle(ev.NodeRemoved(node))

    def when_lost(self, lost: Callable[[tuple[str, ...], str], None]) -> None:
        """Have ``lost`` called with nodes that a job goes on without, which it does not hold any more, and why."""
        self._serving().job_orders.when_lost = lost

    def tell_loans(self, said: Callable[[], str]) -> None:
        """Have users see what ``said`` returns of the nodes that are lent."""
        self._serving().loans = said

    def retract(self, reply: requests.Submitted | requests.Kept) -> None:
        """Undo what was taken but could not be written."""
        submissions = self._serving().submissions
        if isinstance(reply, requests.Submitted):
            submissions.retract(reply.jobs or (reply.job,))
        else:
            submissions.unreserve(reply.reservation.name)

    async def durable(self) -> str:
        """Wait until everything so far outlasts the daemon; return why it does not, empty if it does."""
        return await self._serving().journal.settled()

    def recent(self, since_s: float) -> RunRecord:
        """Return what is open in the record, and what has reached beyond ``since_s``; to be used at once."""
        return self._serving().log_state.recorder.recent(since_s)

    def note(self, text: str) -> None:
        """Add a remark that belongs on every picture of this run."""
        self._serving().handle(facts=[log_entries.Noted(text)])

    def note_result(self, job_id: int, result: Mapping[str, Any]) -> None:
        """Add the JSON document that a job wrote to the record."""
        self._serving().handle(facts=[log_entries.Result(job_id, dict(result))])

    def output(self, job_id: int) -> Path:
        """Return the file with a job's standard output."""
        return self.config.state_dir.absolute() / f"job-{job_id}.out"

    def errors(self, job_id: int) -> Path:
        """Return the file with a job's standard error."""
        return self.config.state_dir.absolute() / f"job-{job_id}.err"

    def allow_leaving(self, leave: Callable[[], None]) -> None:
        """Let this daemon be ended without its jobs: ``leave`` ends this process at once, which is nothing else's."""
        self._leave = leave

    def leave_jobs(self) -> None:
        """Have ``stopping`` return, after which the daemon's owner calls ``leave``.

        Raises:
            ValueError: This process is not the daemon's alone.
        """
        if self._leave is None:
            raise ValueError("this scheduler is part of another program, or of a Slurm job, and ends with its jobs")
        self._leaving = True
        self._stop_requested.set()

    async def leave(self) -> None:
        """End this process, if that was asked for, as a crash does: the folder's next daemon takes the jobs up."""
        if not self._leaving or self._folder is None or self._leave is None:
            return
        await asyncio.sleep(_LAST_WORD_S)
        await self.durable()
        await self._serving().removed()
        if self._store is not None:
            self._store.settle()
        self._folder.leave()
        self._leave()

    def request_stop(self) -> None:
        """Have ``stopping`` return, after which the daemon's owner leaves its context."""
        self._stop_requested.set()

    async def stopping(self) -> None:
        """Wait until the daemon is to end."""
        await self._stop_requested.wait()

    async def changed(self) -> None:
        """Wait for the next event of the scheduler."""
        await self._serving().change.wait()

    async def idle(self) -> None:
        """Wait until no job waits or runs (or the daemon is to end)."""
        while self._serving().log_state.jobs and not self._stop_requested.is_set():
            await self.changed()

    async def ended(self, job_id: int) -> Snapshot:
        """Wait until a job has ended; return the cluster at that moment."""
        driver = self._serving()
        while job_id in driver.log_state.jobs or driver.core.ended(job_id) is None:
            await self.changed()
        return driver.snapshot()

    def _serving(self) -> Driver:
        if self._driver is None:
            raise DaemonError("the daemon is not serving", "use it inside `async with Daemon(config) as daemon:`")
        return self._driver


async def submit_durably(daemon: Daemon, request: JobRequest) -> int:
    """Queue a job; return its id when the log has the job on the disk.

    Raises:
        SubmitError: It cannot run here, or the log cannot be written.
    """
    job_id = daemon.submit(request)
    if behind := await daemon.durable():
        daemon.retract(requests.Submitted(job=job_id))
        raise log_error(behind)
    return job_id


def _watch(loop: asyncio.AbstractEventLoop, thread: int, stopped: threading.Event) -> None:
    """Report, each time, where an event loop stands that does not come to its next step: it answers no request then."""
    stepped = threading.Event()
    while not stopped.wait(_STUCK_S / 2):
        stepped.clear()
        try:
            loop.call_soon_threadsafe(stepped.set)
        except RuntimeError:  # it was closed in spite of a failure
            return
        # in steps, so that the time counts little for which the whole process was stopped
        if any(stepped.wait(_STUCK_S / 10) for _ in range(10)):
            continue
        frame = sys._current_frames().get(thread)  # noqa: SLF001 - as documented for this use
        stack = traceback.extract_stack(frame)[-3:] if frame is not None else []
        where = ", ".join(f"{at.filename}:{at.lineno} ({at.name})" for at in stack)
        _logger.error(
            "nothing has been decided or answered for %g s: it is at %s. If that is a policy without an end, "
            "kill -9 %d ends the scheduler; jobs go on, also under the next one (serve --load, with the policy mended)",
            _STUCK_S, where, os.getpid(),
        )  # fmt: skip
        while not (stepped.wait(_STUCK_S) or stopped.is_set()):
            pass


# For programs without asyncio: a daemon in a thread of its own -------------------------------------------------------

_T = TypeVar("_T")
_P = ParamSpec("_P")
Beside: TypeAlias = Callable[[Daemon], AbstractAsyncContextManager[object]]


def _blocking(method: Callable[Concatenate[Daemon, _P], _T]) -> Callable[Concatenate[DaemonThread, _P], _T]:
    """Return a method of ``DaemonThread`` that calls this one in its thread, and returns when the log has all of it."""

    @wraps(method)
    def blocking(thread: DaemonThread, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return thread.call(lambda daemon: method(daemon, *args, **kwargs))

    return blocking


class DaemonThread:
    """The methods of ``Daemon``, blocking, from any thread. A context manager: leaving it is ``stop``.

    Args:
        config: Settings.
        executor: Makes what runs the jobs' processes.
        beside: Makes what is entered while the daemon serves, and left before it ends.

    Raises:
        DaemonError: The daemon cannot start.
        UnknownPolicyError: There is no such policy.
    """

    def __init__(
        self, config: DaemonConfig, *, executor: ExecutorMaker = Executor, beside: Beside = nullcontext
    ) -> None:
        self.config = config
        self._make_executor = executor
        self._beside = beside
        self._daemon: Daemon | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="malleable-daemon", daemon=True)
        self._thread.start()
        try:
            self._serving.result()
        except BaseException:
            self._thread.join()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def submit(self, request: JobRequest) -> int:
        """Queue a job; return its id when the log has the job on the disk.

        Raises:
            SubmitError: It cannot run here, or the log cannot be written.
        """
        return self._await(lambda daemon: submit_durably(daemon, request), None)

    cancel = _blocking(Daemon.cancel)
    use = _blocking(Daemon.use)
    explain = _blocking(Daemon.explain)
    resize = _blocking(Daemon.resize)
    snapshot = _blocking(Daemon.snapshot)
    note = _blocking(Daemon.note)
    note_result = _blocking(Daemon.note_result)
    output = _blocking(Daemon.output)
    errors = _blocking(Daemon.errors)

    @property
    def doors(self) -> tuple[Door, ...]:
        """Where users can come in, beside the control socket."""
        return self.call(lambda daemon: tuple(daemon.doors))

    def record(self) -> RunRecord:
        """Return the record of the run so far; also after the end."""
        if self._daemon is not None and not self._thread.is_alive():
            return self._daemon.record()
        return self.call(lambda daemon: daemon.record())

    def idle(self, timeout_s: float | None = None) -> None:
        """Wait until no job waits or runs.

        Raises:
            TimeoutError: Some still do after ``timeout_s``.
        """
        self._await(lambda daemon: daemon.idle(), timeout_s)

    def ended(self, job_id: int, timeout_s: float | None = None) -> Snapshot:
        """Wait until a job has ended; return the cluster at that moment.

        Raises:
            TimeoutError: It has not ended after ``timeout_s``.
        """
        return self._await(lambda daemon: daemon.ended(job_id), timeout_s)

    def stop(self) -> None:
        """End every job and the daemon. Idempotent.

        Raises:
            Exception: What the daemon itself failed with, if it did.
        """
        if self._loop is not None and self._daemon is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._daemon.request_stop)
        self._thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised again where the start or the end is awaited
            if not self._serving.done():
                self._serving.set_exception(error)
            else:
                self._failure = error

    async def _serve(self) -> None:
        daemon = Daemon(self.config, executor=self._make_executor)
        async with daemon, self._beside(daemon):
            self._daemon, self._loop = daemon, asyncio.get_running_loop()
            self._serving.set_result(None)
            await daemon.stopping()

    def call(self, ask: Callable[[Daemon], _T]) -> _T:
        """Return what ``ask`` returns in the daemon's thread, when the log has all that it led to."""

        async def asked(daemon: Daemon) -> _T:
            result = ask(daemon)
            await daemon.durable()
            return result

        return self._await(asked, None)

    def _await(self, ask: Callable[[Daemon], Coroutine[Any, Any, _T]], timeout_s: float | None) -> _T:
        if self._loop is None or self._daemon is None or not self._thread.is_alive():
            raise DaemonError("the daemon has ended")
        future = asyncio.run_coroutine_threadsafe(ask(self._daemon), self._loop)
        try:
            return future.result(timeout_s)
        except concurrent.futures.CancelledError:
            raise DaemonError("the daemon has ended") from None
        except TimeoutError:
            future.cancel()
            raise


# A batch of jobs, each submitted when it is due --------------------------------


def drive(
    daemon: DaemonThread,
    due: Sequence[tuple[float, JobRequest]],
    show: Callable[[Snapshot, RunRecord], None],
    refresh_s: float = 0.2,
) -> list[int]:
    """Submit all jobs on time, and wait until all have ended.

    Args:
        daemon: Serves the cluster.
        due: When each job is submitted, in seconds from now, and what it is.
        show: Called every ``refresh_s`` with the present moment.
        refresh_s: Seconds between two looks.

    Returns:
        The ids of the jobs, in the order of ``due``.

    Raises:
        SubmitError: A job cannot run on this cluster.
    """
    ids: dict[int, int] = {}
    left = deque(sorted(enumerate(due), key=lambda item: item[1][0]))
    began_s = time.monotonic()
    while True:
        while left and left[0][1][0] <= time.monotonic() - began_s:
            index, (_, request) = left.popleft()
            ids[index] = daemon.submit(request)
        snapshot = daemon.snapshot()
        show(snapshot, daemon.record())
        if not left and all(job.end_s is not None for job in snapshot.jobs):
            return [ids[index] for index in range(len(due))]
        wait_s = left[0][1][0] - (time.monotonic() - began_s) if left else refresh_s
        time.sleep(min(refresh_s, max(0.0, wait_s)))
