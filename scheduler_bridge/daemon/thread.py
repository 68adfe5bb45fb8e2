"""A daemon in a thread of its own, for programs without asyncio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from scheduler_bridge.core import Explanation
from scheduler_bridge.daemon.config import DaemonConfig, DaemonError
from scheduler_bridge.daemon.control.access import Door
from scheduler_bridge.daemon.daemon import Daemon
from scheduler_bridge.daemon.driver import ExecutorMaker
from scheduler_bridge.daemon.jobs.executor import Executor
from scheduler_bridge.daemon.requests import JobRequest, Snapshot
from scheduler_bridge.record import RunRecord

_T = TypeVar("_T")
Beside: TypeAlias = Callable[[Daemon], AbstractAsyncContextManager[object]]


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def submit(self, request: JobRequest) -> int:
        """Queue a job; return its id.

        Raises:
            SubmitError: It cannot run here.
        """
        return self._call(lambda daemon: daemon.submit(request))

    def cancel(self, job_id: int) -> None:
        """End a job, waiting or running.

        Raises:
            KeyError: There never was such a job.
            ValueError: It has ended.
        """
        self._call(lambda daemon: daemon.cancel(job_id))

    def use(self, policy: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Let another policy decide from now on.

        Raises:
            UnknownPolicyError: There is none of this name.
            ValueError: A parameter is wrong.
        """
        self._call(lambda daemon: daemon.use(policy, dict(parameters or {})))

    def explain(self, job_id: int) -> Explanation:
        """Say why a job is where it is, and how that came about.

        Raises:
            KeyError: There never was such a job.
        """
        return self._call(lambda daemon: daemon.explain(job_id))

    def resize(self, job_id: int, delta: int) -> int:
        """Have a malleable job grow (positive ``delta``) or shrink; return the change that is ordered.

        Raises:
            KeyError: There never was such a job.
            ValueError: It cannot be resized so now.
        """
        return self._call(lambda daemon: daemon.resize(job_id, delta))

    @property
    def doors(self) -> tuple[Door, ...]:
        """Where users can come in, beside the control socket."""
        return self._call(lambda daemon: tuple(daemon.doors))

    def snapshot(self) -> Snapshot:
        """Return nodes and jobs at this moment."""
        return self._call(lambda daemon: daemon.snapshot())

    def record(self) -> RunRecord:
        """Return the record of the run so far; also after the end."""
        if self._daemon is not None and not self._thread.is_alive():
            return self._daemon.record()
        return self._call(lambda daemon: daemon.record())

    def note(self, text: str) -> None:
        """Add a remark that belongs on every picture of this run."""
        self._call(lambda daemon: daemon.note(text))

    def note_result(self, job_id: int, result: Mapping[str, Any]) -> None:
        """Add the JSON document that a job wrote to the record."""
        self._call(lambda daemon: daemon.note_result(job_id, result))

    def output(self, job_id: int) -> Path:
        """Return the file with a job's standard output."""
        return self._call(lambda daemon: daemon.output(job_id))

    def errors(self, job_id: int) -> Path:
        """Return the file with a job's standard error."""
        return self._call(lambda daemon: daemon.errors(job_id))

    def idle(self, timeout_s: float | None = None) -> None:
        """Wait until no job waits or runs.

        Raises:
            TimeoutError: Some still do after ``timeout_s``.
        """
        self._await(lambda daemon: daemon.idle(), timeout_s)

    def ended(self, job_id: int, timeout_s: float | None = None) -> Snapshot:
        """Wait until a job has ended; return the cluster at that moment.

        Raises:
            KeyError: There never was such a job.
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
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the start or the end
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

    def _call(self, ask: Callable[[Daemon], _T]) -> _T:
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
