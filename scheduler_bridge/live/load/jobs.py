"""The jobs that are not: connections that speak wire protocol v2 as malleable programs would, all in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Final

from apgas.malleability import orders as wire

_AT_A_TIME: Final = 32
"""Connections that are being made; a scheduler refuses too many strangers at once."""


@dataclass(slots=True)
class Heard:
    """What all jobs together heard from the scheduler, and how much they said.

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
    """One job's connection: obeys orders at once, and says what it is told to say.

    Args:
        job_id: Its id.
        token: What proves it.
        nodes: Those that it starts on.
        heard: Told what the scheduler says.
    """

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

    async def live(self, endpoint: str, gate: asyncio.Semaphore) -> None:
        """Connect, obey, and return when the scheduler closes the connection."""
        host, _, port = endpoint.rpartition(":")
        async with gate:
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


class Fleet:
    """All running jobs.

    Args:
        endpoint: Where they connect.
    """

    def __init__(self, endpoint: str) -> None:
        self.jobs: dict[int, FakeJob] = {}
        self.heard = Heard()
        self._endpoint = endpoint
        self._gate = asyncio.Semaphore(_AT_A_TIME)
        self._lives: set[asyncio.Task[None]] = set()

    def start(self, job_id: int, token: str, nodes: tuple[str, ...]) -> None:
        """A job starts."""
        self.heard.events += 1
        job = self.jobs[job_id] = FakeJob(job_id, token, nodes, self.heard)
        life = asyncio.get_running_loop().create_task(job.live(self._endpoint, self._gate))
        self._lives.add(life)

    def check(self) -> None:
        """See that no job has failed.

        Raises:
            RuntimeError: The scheduler refused one of them something.
            OSError: One lost its connection.
        """
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

    async def close(self) -> None:
        """End all connections."""
        for life in self._lives:
            life.cancel()
        await asyncio.gather(*self._lives, return_exceptions=True)
