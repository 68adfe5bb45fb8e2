"""Runs one job: its processes, its output files, its temporary folder, and its end without remains."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from scheduler_bridge.live import marks

_logger = logging.getLogger(__name__)

_TAIL_BYTES = 2000
_TERM_AGAIN_S = 0.25
_LEFTOVER_S = 0.5
"""Time for processes that outlive their launcher to end by themselves once told to."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What to run and where its traces go.

    ``environment`` is complete; ``launcher`` tells that the command is an MPI launcher.
    """

    job_id: int
    command: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    mark: str
    output: Path
    errors: Path
    scratch: Path
    launcher: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """How the processes ended: ``status`` is the exit status (negative: a signal), None if none could be started."""

    status: int | None
    reason: str = ""


class JobRun:
    """One execution of a job.

    Args:
        launch: What to run.
        grace_s: Time between TERM and KILL.
    """

    def __init__(self, launch: Launch, grace_s: float) -> None:
        self.launch = launch
        self._grace_s = grace_s
        self._to_end = asyncio.Event()
        self._segments: set[str] = set()

    def end(self) -> None:
        """Have the processes ended; ``run`` returns when nothing of them is left."""
        self._to_end.set()

    async def run(self, started: Callable[[], None]) -> Ending:
        """Start the processes, call ``started``, wait for their end, and remove all that they left."""
        launch = self.launch
        try:
            launch.scratch.mkdir(mode=0o700)
            with _create(launch.output) as output, _create(launch.errors) as errors:
                process = await asyncio.create_subprocess_exec(
                    *launch.command,
                    cwd=launch.cwd or None,
                    env=dict(launch.environment),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    start_new_session=True,
                    # hydra passes the end of its input on to a node whose processes may have ended already, and would
                    # die of SIGPIPE: it keeps this process's way of ignoring it. The job's own get the default again.
                    restore_signals=not launch.launcher,
                )
        except (OSError, ValueError) as error:  # ValueError: words that the system cannot take
            shutil.rmtree(launch.scratch, ignore_errors=True)
            return Ending(None, f"could not be started: {error}")
        try:
            started()
            status = await self._wait(process)
        finally:
            await self._clean()
        return Ending(status, "" if status == 0 else self._why(status))

    async def note_segments(self) -> None:
        """Remember which shared-memory files the job has mapped now, so that they can be removed if it leaks them."""
        self._segments |= await asyncio.to_thread(marks.shared_segments, self.launch.mark)

    async def _wait(self, process: asyncio.subprocess.Process) -> int:
        exited = asyncio.ensure_future(process.wait())
        told = asyncio.ensure_future(self._to_end.wait())
        await asyncio.wait({exited, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if not exited.done():
            await self.note_segments()
            deadline_s = _now() + self._grace_s
            while not exited.done() and _now() < deadline_s:
                # hydra loses a TERM that comes in the first milliseconds of mpiexec, so one is not enough.
                _signal_group(process.pid, signal.SIGTERM)
                await asyncio.wait({exited}, timeout=min(_TERM_AGAIN_S, deadline_s - _now()))
            if not exited.done():
                _signal_group(process.pid, signal.SIGKILL)
        return await exited

    async def _clean(self) -> None:
        left = await asyncio.to_thread(marks.end_marked, self.launch.mark, _LEFTOVER_S)
        if left:
            _logger.error("job %d: processes %s cannot be ended", self.launch.job_id, left)
        removed = await asyncio.to_thread(marks.remove_segments, self._segments)
        if removed:
            _logger.info("job %d left %d shared-memory files, removed", self.launch.job_id, len(removed))
        await asyncio.to_thread(shutil.rmtree, self.launch.scratch, True)

    def _why(self, status: int) -> str:
        how = f"exit status {status}" if status > 0 else f"ended by {_signal_name(-status)}"
        tail = _tail(self.launch.errors)
        return f"{how}: {tail}" if tail else how


def _now() -> float:
    return asyncio.get_running_loop().time()


def _create(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return file.read().decode(errors="replace").strip()
    except OSError:
        return ""
