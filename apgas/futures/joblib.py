"""A backend of joblib: ``import apgas.futures.joblib`` and ``with joblib.parallel_backend("apgas"):`` use an executor.

It is the one that is open; without one, each call of joblib opens one for itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from joblib import register_parallel_backend
from joblib.parallel import ParallelBackendBase

from apgas.futures.executor import MalleableExecutor, open_executor

T = TypeVar("T")


class ApgasBackend(ParallelBackendBase):  # type: ignore[misc]  # it carries no types
    """Has the calls of joblib run by an executor.

    Attributes:
        supports_retrieve_callback: That futures are used (a name of joblib's).
        default_n_jobs: As many as there are places (likewise).
    """

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._executor: MalleableExecutor | None = None
        self._own = False

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Tell how many calls run at a time if ``n_jobs`` are wanted; -1: as many as there are places."""
        found = self._executor or open_executor()
        places = len(found.places) if found is not None else len(os.sched_getaffinity(0))
        return places if n_jobs is None or n_jobs < 1 else min(n_jobs, places)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Prepare for the calls of ``parallel``; returns how many run at a time if ``n_jobs`` are wanted."""
        self.parallel = parallel
        self._executor = open_executor()
        if self._executor is None:
            self._executor = MalleableExecutor(self.effective_n_jobs(n_jobs))
            self._own = True
        return self.effective_n_jobs(n_jobs)

    def submit(self, func: Callable[[], T], callback: Callable[[Future[T]], object] | None = None) -> Future[T]:
        """Have ``func``, a batch of calls, run on a place; ``callback`` gets the future, too, when it is done."""
        assert self._executor is not None
        future = self._executor.submit(func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[T]) -> T:
        """Read a future that is done."""
        return out.result()

    def terminate(self) -> None:
        """End the executor, if this backend has opened it."""
        executor, self._executor = self._executor, None
        if self._own and executor is not None:
            self._own = False
            executor.shutdown(cancel_futures=True)

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Give up what runs, because a call has failed; ``ensure_ready``: further calls come."""
        self.terminate()
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel)


register_parallel_backend("apgas", ApgasBackend)
