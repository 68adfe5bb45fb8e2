"""The processes of a session's program: they write where the session writes, and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from apgas.malleability import orders as wire
from scheduler_bridge.jobrunner import marks, processes
from scheduler_bridge.live.state import scratch_folder

NOT_STARTED: Final = 126
"""Exit code if there is no program."""

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
        self._mark = marks.new_mark()
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
            marks.ENV_MARK: self._mark,
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
            await asyncio.to_thread(marks.end_marked, self._mark, _LEFTOVER_S)
            await asyncio.to_thread(marks.remove_segments, self._segments)
            await asyncio.to_thread(shutil.rmtree, scratch, True)
        return status if status >= 0 else _KILLED - status

    async def note_segments(self) -> None:
        """Remember which shared memory it uses now, to remove that if it is leaked."""
        self._segments |= await asyncio.to_thread(marks.shared_segments, self._mark)

    async def _wait(self, process: asyncio.subprocess.Process) -> int:
        exited = asyncio.ensure_future(process.wait())
        told = asyncio.ensure_future(self._to_end.wait())
        await asyncio.wait({exited, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
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
