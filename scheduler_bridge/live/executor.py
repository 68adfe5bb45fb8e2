"""Starts and ends the processes of the jobs."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from apgas.malleability import orders as wire
from scheduler_bridge.live import marks
from scheduler_bridge.live.requests import JobRequest
from scheduler_bridge.live.runner import Ending, JobRun, Launch
from scheduler_bridge.live.state import StateFolder, scratch_folder
from scheduler_bridge.live.template import launch_command, starts_launcher

_logger = logging.getLogger(__name__)


class Executor:
    """The running jobs' processes.

    Args:
        folder: Where output goes and marks are noted.
        mpiexec: The MPI launcher.
        grace_s: Time between TERM and KILL.
        started: Called with the job's id when its processes run.
        ended: Called with the job's id when nothing of it is left.
    """

    def __init__(
        self,
        folder: StateFolder,
        mpiexec: Path,
        grace_s: float,
        started: Callable[[int], None],
        ended: Callable[[int, Ending], None],
    ) -> None:
        self._folder = folder
        self._mpiexec = mpiexec
        self._grace_s = grace_s
        self._started = started
        self._ended = ended
        self._runs: dict[int, JobRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, job_id: int, request: JobRequest, nodes: tuple[str, ...], endpoint: str, token: str) -> None:
        """Start a job on ``nodes``; ``started`` or ``ended`` follows."""
        mark = marks.new_mark()
        launch = Launch(
            job_id=job_id,
            command=launch_command(request, nodes, self._mpiexec),
            cwd=request.cwd,
            environment=_environment(request, job_id, endpoint, token, mark),
            mark=mark,
            output=self._folder.output(job_id),
            errors=self._folder.errors(job_id),
            scratch=scratch_folder(mark),
            launcher=starts_launcher(request),
        )
        run = JobRun(launch, self._grace_s)
        self._runs[job_id] = run
        self._spawn(self._execute(run))

    def end(self, job_id: int) -> None:
        """Have a job's processes ended; ``ended`` follows."""
        run = self._runs.get(job_id)
        if run is not None:
            run.end()

    def note_segments(self, job_id: int) -> None:
        """The job is up or has new processes: see which shared memory it uses, to remove it if it is leaked."""
        run = self._runs.get(job_id)
        if run is not None:
            self._spawn(run.note_segments())

    async def finish(self) -> None:
        """Wait until everything that was told to end has ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _execute(self, run: JobRun) -> None:
        job_id = run.launch.job_id
        try:
            self._folder.note_mark(run.launch.mark)
            ending = await run.run(lambda: self._started(job_id))
            self._folder.forget_mark(run.launch.mark)
        except Exception as error:  # A job whose end is not reported would keep its nodes for ever.
            _logger.exception("job %d could not be run", job_id)
            ending = Ending(None, f"{type(error).__name__}: {error}")
        finally:
            del self._runs[job_id]
        self._ended(job_id, ending)


def _environment(request: JobRequest, job_id: int, endpoint: str, token: str, mark: str) -> dict[str, str]:
    """The daemon's variables without those of an MPI job that it may itself be in, the job's own, and the bridge's."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PMI_", "HYDI_", "HYDRA_"))}
    path = request.environment.get("PATH") or inherited.get("PATH", os.defpath)
    return {
        **inherited,
        **request.environment,
        # The launcher beside this Python is the one that its mpi4py works with; places that grow look it up in PATH.
        "PATH": os.pathsep.join([str(Path(sys.prefix) / "bin"), path]),
        "TMPDIR": str(scratch_folder(mark)),
        wire.ENV_SCHEDULER: endpoint,
        wire.ENV_JOB: str(job_id),
        wire.ENV_TOKEN: token,
        marks.ENV_MARK: mark,
    }
