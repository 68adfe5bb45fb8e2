"""The measured process as the measurement drives it, and the jobs that are played for it.

The jobs are connections that speak wire protocol v2 as malleable programs would, all in one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from apgas.malleability import orders as wire
from scheduler_bridge.daemon.control.client import connect_in
from scheduler_bridge.daemon.requests import REPLIES, JobRequest, Submit, Submitted

from .daemon import LINE_BYTES, Figures

_AT_A_TIME: Final = 32
"""Connections that are being made; a scheduler refuses too many strangers at once."""


@dataclass(slots=True)
class Heard:
    """All that the jobs together heard from the scheduler, and how much they said.

    Attributes:
        answer_s: Seconds between requests and their answers.
        resizes: Orders to grow or shrink; each is carried out at once.
        events: What all jobs together have said and done: messages, and starts.
    """

    answer_s: list[float] = field(default_factory=list)
    resizes: int = 0
    events: int = 0

    def clear(self) -> None:
        """Forget it."""
        self.answer_s.clear()
        self.resizes = self.events = 0


class FakeJob:
    """One job's connection: obeys orders at once, says what it is ordered to say, and takes down what it ``heard``."""

    def __init__(self, job_id: int, token: str, nodes: tuple[str, ...], heard: Heard) -> None:
        self.job_id = job_id
        self.ready = asyncio.Event()
        self._token = token
        self._nodes = list(nodes)
        self._heard = heard
        self._asked: dict[int, float] = {}
        self._requests = 0
        self._done = 0
        self._is_over = False
        self._loop = asyncio.get_running_loop()
        self._writer: asyncio.StreamWriter | None = None

    async def live(self, endpoint: str, slots: asyncio.Semaphore) -> None:
        """Connect, obey, and return when the scheduler closes the connection."""
        host, _, port = endpoint.rpartition(":")
        async with slots:
            reader, self._writer = await asyncio.open_connection(host, int(port), limit=wire.MAX_LINE_BYTES)
            self._writer.write(wire.encode(wire.Hello(wire.PROTOCOL_VERSION, self.job_id, self._token)))
            welcome = await reader.readline()
        try:
            if not isinstance(wire.decode_to_job(welcome), wire.Welcome):
                raise RuntimeError(f"job {self.job_id} is not welcome: {welcome!r}")
            self._say(wire.Ready(tuple(self._nodes)))
            self.ready.set()
            while line := await reader.readline():
                self._hear(wire.decode_to_job(line))
        finally:
            self._writer.close()

    def progress(self) -> None:
        """Report progress."""
        self._done += 1
        self._say(wire.Progress(float(self._done)))

    def request(self) -> None:
        """Offer a node back and ask for one, in turn."""
        self._requests += 1
        self._asked[self._requests] = self._loop.time()
        self._say(wire.Evolving(self._requests, -1 if self._requests % 2 else 1))

    def leave(self) -> None:
        """The job is over: what it said last may come too late, and be refused."""
        self._is_over = True

    def _say(self, message: wire.Message) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._heard.events += 1
            self._writer.write(wire.encode(message))

    def _hear(self, message: wire.ToJob) -> None:
        match message:
            case wire.Answer():
                self._heard.answer_s.append(self._loop.time() - self._asked.pop(message.request))
            case wire.Grow():
                self._heard.resizes += 1
                self._nodes += message.nodes
                self._say(wire.Outcome(message.order, "grow", "done", nodes=message.nodes))
            case wire.Shrink():
                self._heard.resizes += 1
                wished = [node for node in self._nodes if node in message.nodes]
                others = [node for node in reversed(self._nodes) if node not in message.nodes]
                leaving = tuple((wished + others)[: message.count])
                self._nodes = [node for node in self._nodes if node not in leaving]
                self._say(wire.Outcome(message.order, "shrink", "done", nodes=leaving))
            case wire.Workers():
                self._say(wire.Outcome(message.order, "workers", "refused"))
            case wire.Refused() if not self._is_over:
                raise RuntimeError(f"job {self.job_id} was refused a message: {message.reason}")
            case _:
                pass


# The measured process ------------------------------------------------------------------------------------------------

_PATIENCE_S: Final = 120.0
_SUBMITTERS: Final = 8
_MOST_PER_CONNECTION: Final = 250
"""The most requests that a daemon takes of one connection at once, whatever their rate."""


class Stage:
    """A daemon under load: its process, its state folder, and the endpoint where jobs connect.

    Attributes:
        jobs: All running jobs.
        heard: What they heard and said.
    """

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, endpoint: str) -> None:
        self.jobs: dict[int, FakeJob] = {}
        self.heard = Heard()
        self._process = process
        self._folder = folder
        self._endpoint = endpoint
        self._gate = asyncio.Semaphore(_AT_A_TIME)
        self._lives: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        self._submitters = asyncio.Semaphore(_SUBMITTERS)
        self._figures: asyncio.Future[Figures] = loop.create_future()
        self._listening = loop.create_task(self._listen())

    def say(self, what: dict[str, Any]) -> None:
        """Send the measured process a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(what) + b"\n")

    def check(self) -> None:
        """See that the daemon has not ended, and no job has failed.

        Raises:
            RuntimeError: The daemon has ended, or refused a job something.
            OSError: A job lost its connection.
        """
        if self._listening.done():
            raise RuntimeError("the measured scheduler has ended")
        for life in [life for life in self._lives if life.done()]:
            self._lives.discard(life)
            # killed, and hung up on
            with contextlib.suppress(asyncio.CancelledError, ConnectionResetError):
                life.result()

    async def connected(self, count: int) -> None:
        """Wait until ``count`` jobs have connected."""
        while sum(job.ready.is_set() for job in self.jobs.values()) < count:
            self.check()
            await asyncio.sleep(0.05)

    async def figures(self) -> Figures:
        """Return the daemon's figures since it was ordered to begin; to be asked once."""
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
        """Have a job end; at once it is no more among ``jobs``."""
        self.jobs.pop(job_id).leave()
        self.heard.events += 1
        self.say({"end": job_id})

    async def close(self) -> None:
        """End the daemon: the end of its input orders it to."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await asyncio.gather(self._listening, return_exceptions=True)  # an interrupt has cancelled it
        for life in self._lives:
            life.cancel()
        await asyncio.gather(*self._lives, return_exceptions=True)

    async def _submit_from(self, waiting: Iterator[JobRequest]) -> None:
        """Submit what waits; a daemon limits its connections, and closes those above."""
        while part := list(islice(waiting, _MOST_PER_CONNECTION)):
            async with self._submitters:
                connection = socket.socket(socket.AF_UNIX)
                connect_in(self._folder, connection)
                reader, writer = await asyncio.open_unix_connection(sock=connection)
                with contextlib.closing(writer):
                    for request in part:
                        writer.write(msgspec.json.encode(Submit(job=request)) + b"\n")
                        reply = REPLIES.decode(await reader.readline())
                        if not isinstance(reply, Submitted):
                            raise RuntimeError(f"the scheduler does not take {request.name}: {reply}")
                        self.heard.events += 1

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            match msgspec.json.decode(line):
                case {"start": int(job_id), "token": str(token), "nodes": list(nodes)}:
                    self.heard.events += 1
                    job = self.jobs[job_id] = FakeJob(job_id, token, tuple(nodes), self.heard)
                    self._lives.add(asyncio.create_task(job.live(self._endpoint, self._gate)))
                case {"ended": int(job_id)}:
                    if (over := self.jobs.pop(job_id, None)) is not None:
                        over.leave()
                case {"figures": figures}:
                    self._figures.set_result(msgspec.convert(figures, Figures))
                case _:
                    raise RuntimeError(f"the measured process says {line!r}")


@contextlib.asynccontextmanager
async def open_stage(folder: Path, nodes: int, policy: str) -> AsyncIterator[Stage]:
    """Start a daemon in ``folder``, for ``nodes`` nodes; it ends with the context.

    Raises:
        RuntimeError: It does not start; it has said why.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"{__package__}.daemon", str(folder), str(nodes), policy,
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
