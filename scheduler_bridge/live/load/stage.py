"""The measured process, and the jobs that are played for it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler_bridge.live.client import connect_in
from scheduler_bridge.live.load.figures import Figures
from scheduler_bridge.live.load.jobs import Fleet
from scheduler_bridge.live.load.plan import Plan
from scheduler_bridge.live.load.stand_in import LINE_BYTES
from scheduler_bridge.live.requests import REPLIES, JobRequest, Submit, Submitted

_PATIENCE_S: Final = 120.0
_SUBMITTERS: Final = 8
_MOST_PER_CONNECTION: Final = 250
"""A daemon takes so many requests of one connection at once, whatever their rate."""


class Stage:
    """A daemon under load.

    Args:
        process: Its process.
        folder: Its state folder.
        endpoint: Where jobs connect.
    """

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, endpoint: str) -> None:
        self.fleet = Fleet(endpoint)
        self._process = process
        self._folder = folder
        loop = asyncio.get_running_loop()
        self._submitters = asyncio.Semaphore(_SUBMITTERS)
        self._figures: asyncio.Future[Figures] = loop.create_future()
        self._listening = loop.create_task(self._listen())

    def say(self, what: dict[str, Any]) -> None:
        """Tell the measured process something."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(what) + b"\n")

    def check(self) -> None:
        """See that all is well.

        Raises:
            RuntimeError: It is not.
        """
        if self._listening.done():
            raise RuntimeError("the measured scheduler has ended")
        self.fleet.check()

    async def figures(self) -> Figures:
        """Return the daemon's figures since it was told to begin; to be asked once."""
        self.say({"figures": True})
        async with asyncio.timeout(_PATIENCE_S):
            return await self._figures

    async def submit(self, requests: list[JobRequest]) -> None:
        """Submit jobs, over several connections at once; returns when all are in the log.

        Raises:
            RuntimeError: One is not taken.
        """
        waiting = iter(requests)
        await asyncio.gather(*(self._submit_from(waiting) for _ in range(min(_SUBMITTERS, len(requests)))))

    def end(self, job_id: int) -> None:
        """Have a job end; at once it is no more among the fleet's."""
        self.fleet.jobs.pop(job_id).leave()
        self.fleet.heard.events += 1
        self.say({"end": job_id})

    async def close(self) -> None:
        """End the daemon: the end of its input tells it to."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._listening
        await self.fleet.close()

    async def _submit_from(self, waiting: Iterator[JobRequest]) -> None:
        """Take requests from ``waiting`` until there are none."""
        while part := list(islice(waiting, _MOST_PER_CONNECTION)):
            await self._submit_part(part)

    async def _submit_part(self, part: list[JobRequest]) -> None:
        """Submit jobs over one connection; a daemon takes so many connections only, and closes others."""
        async with self._submitters:
            connection = socket.socket(socket.AF_UNIX)
            connect_in(self._folder, connection)
            reader, writer = await asyncio.open_unix_connection(sock=connection)
            try:
                for request in part:
                    writer.write(msgspec.json.encode(Submit(job=request)) + b"\n")
                    reply = REPLIES.decode(await reader.readline())
                    if not isinstance(reply, Submitted):
                        raise RuntimeError(f"the scheduler does not take {request.name}: {reply}")
                    self.fleet.heard.events += 1
            finally:
                writer.close()

    async def _listen(self) -> None:
        """Let jobs start as the scheduler says."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            match msgspec.json.decode(line):
                case {"start": int(job_id), "token": str(token), "nodes": list(nodes)}:
                    self.fleet.start(job_id, token, tuple(nodes))
                case {"ended": int(job_id)}:
                    if (job := self.fleet.jobs.pop(job_id, None)) is not None:
                        job.leave()
                case {"figures": figures}:
                    self._figures.set_result(msgspec.convert(figures, Figures))
                case _:
                    raise RuntimeError(f"the measured process says {line!r}")


@contextlib.asynccontextmanager
async def open_stage(plan: Plan, folder: Path) -> AsyncIterator[Stage]:
    """Start a daemon for ``plan`` in ``folder``; it ends with the context.

    Raises:
        RuntimeError: It does not start; it has said why.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "scheduler_bridge.live.load",
        str(folder), str(plan.nodes), str(plan.connected), plan.policy,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LINE_BYTES,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_PATIENCE_S):
            line = await process.stdout.readline()
        if not line:
            raise RuntimeError("the scheduler that is to be measured does not start")
        stage = Stage(process, folder, msgspec.json.decode(line)["endpoint"])
        try:
            yield stage
        finally:
            async with asyncio.timeout(_PATIENCE_S):
                await stage.close()
                await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
