"""A serving daemon whose jobs are played by the test: it says and hears what a job's program would."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec

from apgas.malleability import orders as wire
from scheduler_bridge.daemon import Daemon, DaemonConfig, JobRequest
from scheduler_bridge.daemon.jobs.session import JobLink
from scheduler_bridge.record import ResizeRecord
from support.mpi import PATIENCE_S

SLEEPER = ("/bin/sleep", "1000")


class Job:
    """The wire side of a job, played by the test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, *messages: wire.Message) -> None:
        for message in messages:
            await self.say_raw(wire.encode(message))

    async def say_raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def hear(self) -> wire.ToJob:
        async with asyncio.timeout(PATIENCE_S):
            return wire.decode_to_job(await self._reader.readuntil(b"\n"))

    async def refusal(self) -> str:
        message = await self.hear()
        assert isinstance(message, wire.Refused), message
        return message.reason

    async def at_end(self) -> bool:
        async with asyncio.timeout(PATIENCE_S):
            return await self._reader.read() == b""

    async def hang_up(self, *, rudely: bool = False) -> None:
        if rudely:  # A reset instead of an orderly end.
            connection = self._writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)


class Stage:
    """A serving daemon and the means to play its jobs."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self._jobs: list[Job] = []

    def link(self, job_id: int) -> JobLink:
        link = self.daemon._serving().job_orders.server.links.get(job_id)
        assert link is not None
        return link

    async def stranger(self) -> Job:
        host, _, port = self.daemon.endpoint.rpartition(":")
        job = Job(*await asyncio.open_connection(host, int(port)))
        self._jobs.append(job)
        return job

    async def play(self, job_id: int) -> Job:
        job = await self.stranger()
        await job.say(wire.Hello(version=2, job=job_id, token=self.link(job_id).token))
        assert await job.hear() == wire.Welcome(version=2)
        return job

    async def malleable(self, low: int, high: int) -> tuple[int, Job]:
        """Start a malleable job that is ready for orders."""
        job_id = self.submit(job_class="malleable", nodes=low, min_nodes=low, max_nodes=high)
        await self.until(lambda: self.daemon.snapshot().job(job_id).state == "running")
        job = await self.play(job_id)
        await job.say(wire.Ready(nodes=self.daemon.snapshot().job(job_id).nodes))
        return job_id, job

    def submit(self, **fields: object) -> int:
        request = JobRequest(name="job", command=SLEEPER, launch="direct")
        return self.daemon.submit(msgspec.structs.replace(request, **fields))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await self.daemon.changed()

    def resizes(self, job_id: int) -> list[ResizeRecord]:
        return next(job.resizes for job in self.daemon.record().jobs if job.job_id == job_id)

    async def close(self) -> None:
        for job in self._jobs:
            await job.hang_up()


@asynccontextmanager
async def staged(config: DaemonConfig) -> AsyncIterator[Stage]:
    async with Daemon(config) as daemon:
        stage = Stage(daemon)
        try:
            yield stage
        finally:
            await stage.close()


def perform(config: DaemonConfig, play: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        async with staged(config) as stage:
            await play(stage)

    asyncio.run(run())
