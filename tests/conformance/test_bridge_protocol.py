"""The daemon against jobs that behave well, badly, and not at all; the test itself plays the jobs."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from apgas.malleability import orders as wire
from apgas.malleability.socket import SocketCommunicator
from scheduler_bridge.live import Daemon, DaemonConfig, JobRequest, Limits
from scheduler_bridge.live.session import JobLink
from scheduler_bridge.record import ResizeRecord

PATIENCE_S = 30.0
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
        link = self.daemon._serving().dialogue.server.link(job_id)
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
        return self.daemon.submit(replace_fields(request, fields))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await self.daemon.changed()

    def resizes(self, job_id: int) -> list[ResizeRecord]:
        return next(job.resizes for job in self.daemon.record().jobs if job.job_id == job_id)

    async def close(self) -> None:
        for job in self._jobs:
            await job.hang_up()


def replace_fields(request: JobRequest, fields: dict[str, object]) -> JobRequest:
    import msgspec

    return msgspec.structs.replace(request, **fields)


@asynccontextmanager
async def staged(config: DaemonConfig) -> AsyncIterator[Stage]:
    async with Daemon(config) as daemon:
        stage = Stage(daemon)
        try:
            yield stage
        finally:
            await stage.close()


Play = Callable[[Callable[[Stage], Awaitable[None]]], None]


@pytest.fixture
def config(tmp_path: Path) -> DaemonConfig:
    return DaemonConfig(nodes=("n1", "n2", "n3"), state_dir=tmp_path / "state", grace_s=0.2)


def perform(config: DaemonConfig, play: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        async with staged(config) as stage:
            await play(stage)

    asyncio.run(run())


def test_a_job_grows_when_nodes_become_free(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        rigid = stage.submit(nodes=2)
        job_id, job = await stage.malleable(1, 3)
        stage.daemon.cancel(rigid)
        order = await job.hear()
        assert isinstance(order, wire.Grow)
        assert (order.count, sorted(order.nodes)) == (2, ["n1", "n2"])
        phases = {"pre": 0.25, "spawn": 0.5}
        await job.say(
            wire.Outcome(order=order.order, kind="grow", outcome="done", nodes=order.nodes, seconds=0.75, phases=phases)
        )
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).grows == 1)
        assert sorted(stage.daemon.snapshot().job(job_id).nodes) == ["n1", "n2", "n3"]
        (resize,) = stage.resizes(job_id)
        assert (resize.outcome, resize.seconds, resize.phases) == ("done", 0.75, phases)
        assert stage.link(job_id).held == {"n1", "n2", "n3"}

    perform(config, play)


def test_a_job_shrinks_and_chooses_the_nodes(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 3)
        first = stage.daemon.snapshot().job(job_id).nodes[0]
        rigid = stage.submit(nodes=1)
        order = await job.hear()
        assert isinstance(order, wire.Shrink)
        chosen = next(node for node in ("n1", "n2", "n3") if node not in (first, *order.nodes))
        await job.say(wire.Outcome(order=order.order, kind="shrink", outcome="done", nodes=(chosen,)))
        await stage.until(lambda: stage.daemon.snapshot().job(rigid).state == "running")
        assert stage.daemon.snapshot().job(rigid).nodes == (chosen,)
        assert chosen not in stage.link(job_id).held

    perform(config, play)


@pytest.mark.parametrize("outcome", ["refused", "aborted"])
def test_a_job_that_declines_keeps_its_nodes(config: DaemonConfig, outcome: wire.OutcomeKind) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 3)
        rigid = stage.submit(nodes=1)
        order = await job.hear()
        assert isinstance(order, wire.Shrink)
        await job.say(wire.Outcome(order=order.order, kind="shrink", outcome=outcome, reason="not now"))
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).resizing is None)
        assert len(stage.daemon.snapshot().job(job_id).nodes) == 3
        assert stage.daemon.snapshot().job(rigid).state == "waiting"
        (resize,) = stage.resizes(job_id)
        assert (resize.outcome, resize.reason) == (outcome, "not now")

    perform(config, play)


def test_a_withdrawn_order_is_answered(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 3)
        stage.submit(nodes=1)
        order = await job.hear()
        assert isinstance(order, wire.Shrink)
        await job.say(wire.Deferred(order=order.order, reason="final reduction"))
        assert await job.hear() == wire.Withdraw(order=order.order)
        await job.say(wire.Outcome(order=order.order, kind="shrink", outcome="aborted", reason="withdrawn"))
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).resizing is None)
        assert stage.daemon.snapshot().job(job_id).ready

    perform(replace(config, resize_deadline_s=0.05, withdraw_s=PATIENCE_S), play)


def test_a_job_that_never_answers_gets_no_further_orders(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 3)
        stage.submit(nodes=1)
        order = await job.hear()
        assert isinstance(order, wire.Shrink)
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).resizing is None)
        assert not stage.daemon.snapshot().job(job_id).ready
        assert len(stage.daemon.snapshot().job(job_id).nodes) == 3
        assert await job.hear() == wire.Withdraw(order=order.order)
        await job.say(wire.Outcome(order=order.order, kind="shrink", outcome="done", nodes=order.nodes))
        assert "not open" in await job.refusal()
        assert stage.resizes(job_id)[0].outcome == "aborted"

    perform(replace(config, resize_deadline_s=0.05, withdraw_s=0.05), play)


def test_a_job_on_nodes_that_it_lost_is_ended(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        rigid = stage.submit(nodes=2)
        job_id, job = await stage.malleable(1, 3)
        stage.daemon.cancel(rigid)
        order = await job.hear()
        assert isinstance(order, wire.Grow)
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).resizing is None)
        await job.say(wire.Outcome(order=order.order, kind="grow", outcome="done", nodes=order.nodes))
        await stage.until(lambda: not stage.daemon.snapshot().job(job_id).nodes)
        ended = stage.daemon.snapshot().job(job_id)
        assert ended.state == "failed"
        assert order.nodes[0] in ended.reason

    perform(replace(config, resize_deadline_s=0.05, withdraw_s=0.05), play)


def test_a_job_that_grew_nobody_knows_where_is_ended(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        rigid = stage.submit(nodes=2)
        job_id, job = await stage.malleable(1, 3)
        stage.daemon.cancel(rigid)
        order = await job.hear()
        assert isinstance(order, wire.Grow)
        await job.say(wire.Outcome(order=order.order, kind="grow", outcome="done", nodes=("n1", "n1")))
        assert "twice" in await job.refusal()
        await stage.until(lambda: not stage.daemon.snapshot().job(job_id).nodes)
        ended = stage.daemon.snapshot().job(job_id)
        assert ended.state == "failed"
        assert "other nodes than" in ended.reason

    perform(replace(config, resize_deadline_s=0.2, withdraw_s=0.05), play)


def test_outcomes_that_do_not_fit_change_nothing(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 3)
        await job.say(wire.Outcome(order=99, kind="grow", outcome="done", nodes=("n9",)))
        assert "order 99 is not open" in await job.refusal()
        stage.submit(nodes=1)
        order = await job.hear()
        assert isinstance(order, wire.Shrink)
        before = stage.daemon.snapshot().job(job_id)
        await job.say(wire.Outcome(order=order.order, kind="shrink", outcome="done", nodes=("elsewhere",)))
        assert "elsewhere" in await job.refusal()
        assert stage.daemon.snapshot().job(job_id) == before
        await job.say(wire.Outcome(order=order.order, kind="shrink", outcome="done", nodes=order.nodes))
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).shrinks == 1)

    perform(config, play)


def test_an_evolving_job_is_answered(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        _, job = await stage.malleable(1, 3)
        await job.say(wire.Evolving(request=4, delta=-1))
        heard = [await job.hear(), await job.hear()]
        assert next(message for message in heard if isinstance(message, wire.Answer)).granted == -1
        assert next(message for message in heard if isinstance(message, wire.Shrink)).count == 1
        await job.say(wire.Evolving(request=5, delta=1))
        answer = await job.hear()
        assert isinstance(answer, wire.Answer)
        assert answer.granted == 0
        assert answer.reason

    perform(config, play)


def test_progress_shows_in_the_queue(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 1)
        await job.say(wire.Progress(done=5.0, total=20.0, unit="nodes"), wire.Evolving(request=1, delta=1))
        await job.hear()
        status = stage.daemon.snapshot().job(job_id)
        assert (status.progress, status.progress_total, status.progress_unit) == (5.0, 20.0, "nodes")

    perform(config, play)


def test_a_job_that_reconnects_goes_on(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 3)
        stage.submit(nodes=1)
        order = await job.hear()
        await job.hang_up(rudely=True)
        again = await stage.play(job_id)
        assert await again.hear() == order
        half_open, again = again, await stage.play(job_id)  # The older connection of a job gives way.
        assert await half_open.at_end()
        assert await again.hear() == order
        assert isinstance(order, wire.Shrink)
        await again.say(wire.Outcome(order=order.order, kind="shrink", outcome="done", nodes=order.nodes))
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).shrinks == 1)

    perform(config, play)


def test_strangers_are_refused_and_the_daemon_goes_on(config: DaemonConfig, caplog: pytest.LogCaptureFixture) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 3)
        token = stage.link(job_id).token
        hellos = [wire.Hello(version=2, job=job_id, token="x" * 64), wire.Hello(version=2, job=77, token=token)]
        for line in [*map(wire.encode, hellos), b'{"type": "hello"\n', b"\xff\xfe\n", b"GET / HTTP/1.1\r\n\r\n"]:
            stranger = await stage.stranger()
            await stranger.say_raw(line)
            assert token not in await stranger.refusal()
            assert await stranger.at_end()
        await job.say(wire.Ready(nodes=("n1",)))
        assert "once" in await job.refusal()
        assert stage.daemon.snapshot().job(job_id).state == "running"

    perform(config, play)
    assert "a stranger is refused a message: unknown job or wrong token" in caplog.messages
    assert "job 1 is refused a message: a handler is registered once per program" in caplog.messages


def test_an_endless_line_is_refused(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 1)
        await job.say(wire.Evolving(request=1, delta=1))
        await job.hear()
        for speaker in (job, await stage.stranger()):
            sending = asyncio.ensure_future(speaker.say_raw(b"x" * 10_000_000))
            assert str(wire.MAX_LINE_BYTES) in await speaker.refusal()
            await asyncio.gather(sending, return_exceptions=True)
        assert stage.daemon.snapshot().job(job_id).state == "running"
        await stage.play(job_id)

    perform(config, play)


def test_a_silent_stranger_is_shown_the_door(config: DaemonConfig, caplog: pytest.LogCaptureFixture) -> None:
    """Without a refusal: a job would take it for the last word, and it may be the scheduler that was slow."""

    async def play(stage: Stage) -> None:
        assert await (await stage.stranger()).at_end()
        slow = await stage.stranger()
        await slow.say_raw(b'{"type":')
        assert await slow.at_end()

    perform(replace(config, limits=Limits(hello_s=0.1)), play)
    assert caplog.messages.count("a connection is closed: no hello within 0.1 s") == 2


def test_a_crowd_of_strangers_does_not_keep_others_out_for_long(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, _ = await stage.malleable(1, 1)
        crowd = [await stage.stranger() for _ in range(4)]
        assert await (await stage.stranger()).at_end()
        for stranger in crowd:
            await stranger.hang_up(rudely=True)
        async with asyncio.timeout(PATIENCE_S):
            while stage.daemon._serving().dialogue.server._strangers:
                await asyncio.sleep(0)
        await stage.play(job_id)

    perform(replace(config, limits=Limits(strangers=4)), play)


def test_a_job_that_comes_with_too_many_others_comes_again(config: DaemonConfig) -> None:
    """All jobs come back at once to a scheduler that was killed: a refusal would be the end of some."""

    async def play(stage: Stage) -> None:
        job_id = stage.submit(nodes=1)
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).state == "running")
        server = stage.daemon._serving().dialogue.server
        crowd = [await stage.stranger() for _ in range(4)]
        async with asyncio.timeout(PATIENCE_S):
            while server._strangers < 4:
                await asyncio.sleep(0)
        listener = Mock()
        job = SocketCommunicator(stage.daemon.endpoint, job_id, stage.link(job_id).token, "reconnect:60")
        await asyncio.to_thread(job.start, listener)
        for stranger in crowd:
            await stranger.hang_up(rudely=True)
        async with asyncio.timeout(PATIENCE_S):
            while not server.is_connected(job_id):
                await asyncio.sleep(0.01)
        await asyncio.to_thread(job.close)
        listener.scheduler_lost.assert_not_called()

    perform(replace(config, limits=Limits(strangers=4)), play)


def test_a_flood_costs_the_flooder_its_connection(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 1)
        flood = wire.encode(wire.Progress(done=1.0)) * 5000
        sending = asyncio.ensure_future(job.say_raw(flood))
        assert "messages a second" in await job.refusal()
        await asyncio.gather(sending, return_exceptions=True)
        assert stage.daemon.snapshot().job(job_id).state == "running"

    perform(config, play)
