"""The daemon against connections that say the wrong thing, too much, nothing, or come in crowds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from support import PATIENCE_S
from support.played import Stage, perform

from apgas.malleability import orders as wire
from apgas.malleability.communicator import SocketCommunicator
from scheduler_bridge.daemon import DaemonConfig, Limits


@pytest.fixture
def config(tmp_path: Path) -> DaemonConfig:
    return DaemonConfig(nodes=("n1", "n2", "n3"), state_dir=tmp_path / "state", grace_s=0.2)


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

    perform(msgspec.structs.replace(config, limits=Limits(hello_s=0.1)), play)
    assert caplog.messages.count("a connection is closed: no hello within 0.1 s") == 2


def test_a_crowd_of_strangers_does_not_keep_others_out_for_long(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, _ = await stage.malleable(1, 1)
        crowd = [await stage.stranger() for _ in range(4)]
        assert await (await stage.stranger()).at_end()
        for stranger in crowd:
            await stranger.hang_up(rudely=True)
        async with asyncio.timeout(PATIENCE_S):
            while stage.daemon._serving().job_orders.server._strangers:
                await asyncio.sleep(0)
        await stage.play(job_id)

    perform(msgspec.structs.replace(config, limits=Limits(strangers=4)), play)


def test_a_job_that_comes_with_too_many_others_comes_again(config: DaemonConfig) -> None:
    """All jobs come back at once to a scheduler that was killed: a refusal would be the end of some."""

    async def play(stage: Stage) -> None:
        job_id = stage.submit(nodes=1)
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).state == "running")
        server = stage.daemon._serving().job_orders.server
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
            while job_id not in server._attached:
                await asyncio.sleep(0.01)
        await asyncio.to_thread(job.close)
        listener.scheduler_lost.assert_not_called()

    perform(msgspec.structs.replace(config, limits=Limits(strangers=4)), play)


def test_a_flood_costs_the_flooder_its_connection(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 1)
        flood = wire.encode(wire.Progress(done=1.0)) * 5000
        sending = asyncio.ensure_future(job.say_raw(flood))
        assert "messages a second" in await job.refusal()
        await asyncio.gather(sending, return_exceptions=True)
        assert stage.daemon.snapshot().job(job_id).state == "running"

    perform(config, play)
