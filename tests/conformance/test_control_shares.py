"""One user among many: connections, requests and large answers of one leave the others their share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from support import PATIENCE_S

from scheduler_bridge.core import Snapshot
from scheduler_bridge.daemon.config import Limits
from scheduler_bridge.daemon.control import access
from scheduler_bridge.daemon.control.access import Caller, Door
from scheduler_bridge.daemon.control.server import ControlServer, _Shared
from scheduler_bridge.daemon.listener import Allowance, Counted
from scheduler_bridge.daemon.requests import AnyReply, AnyRequest, Failure, Status, Use
from scheduler_bridge.policies import PolicyError, UnknownPolicyError

STATUS = b'{"type":"status"}\n'


class Target:
    """Answers with a large picture that takes some seconds to draw, and counts how often it was drawn."""

    def __init__(self, size: int = 0, takes_s: float = 0.0) -> None:
        self.drawn = 0
        self.size = size
        self.takes_s = takes_s

    def snapshot(self) -> Snapshot:
        self.drawn += 1
        time.sleep(self.takes_s)
        return Snapshot(now_s=float(self.drawn), policy="x" * self.size, utilization=0.0, nodes=(), jobs=())

    def carry_out(self, request: AnyRequest) -> AnyReply:
        assert isinstance(request, Status)
        return self.snapshot()

    def standing(self, _job_id: int) -> None:
        return None

    async def durable(self) -> str:
        return ""


class Callers:
    """Connections to a server, all of which are ended with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: list[asyncio.StreamWriter] = []

    async def ask(self, line: bytes = STATUS, at: str = "door") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(str(self._folder / at), limit=1 << 27)
        self._writers.append(writer)
        writer.write(line)
        return reader, writer

    def end(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


def serve(
    folder: Path, target: Target, play: Callable[[Callers], Awaitable[None]], limits: Limits | None = None
) -> None:
    server = ControlServer(target, limits or Limits(), (Door(folder / "door"),))  # type: ignore[arg-type]  # a part of it

    async def run() -> None:
        callers = Callers(folder)
        await server.start(folder)
        await server.serve()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await play(callers)
        finally:
            callers.end()
            await server.stop()

    asyncio.run(run())


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    def who(writer: asyncio.StreamWriter) -> Caller:
        return Caller("somebody else", operator="door" not in str(writer.get_extra_info("sockname")))

    monkeypatch.setattr(access, "any_user", who)


@pytest.mark.usefixtures("stranger")
def test_a_user_has_so_many_connections_and_the_owner_still_gets_in(tmp_path: Path) -> None:
    async def play(callers: Callers) -> None:
        crowd = [await callers.ask() for _ in range(4)]
        for reader, _ in crowd:
            assert b'"snapshot"' in await reader.readline()
        reader, _ = await callers.ask()
        assert b"somebody else has 4 connections already" in await reader.readline()
        many = [await callers.ask() for _ in range(40)]
        for reader, _ in many:
            with contextlib.suppress(ConnectionError):  # not even said that there are too many
                assert b'"snapshot"' not in await reader.read()
        crowd[0][1].close()
        for _, writer in many:
            writer.close()
        while True:
            reader, writer = await callers.ask()
            with contextlib.suppress(ConnectionError):  # the others have not gone yet
                if b'"snapshot"' in await reader.readline():
                    return
            writer.close()

    serve(tmp_path, Target(), play, Limits(user_connections=4))


@pytest.mark.usefixtures("stranger")
def test_a_large_answer_is_made_once_for_all_and_kept_once(tmp_path: Path) -> None:
    target = Target(8_000_000, takes_s=0.1)

    async def play(callers: Callers) -> None:
        crowd = [await callers.ask() for _ in range(60)]
        readers = [reader for reader, _ in crowd]
        for reader in readers:
            assert len(await reader.readline()) > target.size
        for _, writer in crowd:
            writer.close()
        # some do not read: of each only a part is kept
        idle = [await callers.ask() for _ in range(60)]
        await asyncio.sleep(0.2)
        for _, writer in idle:
            writer.close()

    began_s = time.monotonic()
    serve(tmp_path, target, play)
    most = 1 + (time.monotonic() - began_s) / (5 * target.takes_s)  # a fifth of the time, however long it all took
    assert target.drawn <= most, "one by one would have been 120"


def test_an_answer_is_not_older_than_the_question() -> None:
    made: list[int] = []

    async def play() -> None:
        def make() -> bytes:
            made.append(len(made))
            return str(made[-1]).encode()

        shared = _Shared(make)
        assert await asyncio.gather(*(shared.get() for _ in range(50))) == [b"0"] * 50
        assert await shared.get() == b"1"
        first = asyncio.ensure_future(shared.get())
        await asyncio.sleep(0)
        first.cancel()  # others get theirs all the same
        assert await shared.get() == b"2"

    asyncio.run(play())


def test_what_one_wait_for_fails_for_all() -> None:
    async def play() -> None:
        def make() -> bytes:
            raise ValueError("no picture")

        shared = _Shared(make)
        for found in await asyncio.gather(*(shared.get() for _ in range(3)), return_exceptions=True):
            assert isinstance(found, ValueError)

    asyncio.run(play())


@pytest.mark.usefixtures("stranger")
def test_requests_of_all_connections_of_a_user_count(tmp_path: Path) -> None:
    async def play(callers: Callers) -> None:
        answers = b""
        for _ in range(4):
            reader, writer = await callers.ask(b"[]\n")
            answers += await reader.readline()
            writer.close()
        assert answers.count(b"not a request") == 3
        assert answers.count(b"requests a second") == 1

    serve(tmp_path, Target(), play, Limits(burst_requests=3, requests_per_s=0.001))


@pytest.mark.usefixtures("stranger")
def test_bytes_of_all_connections_of_a_user_count(tmp_path: Path) -> None:
    async def play(callers: Callers) -> None:
        answers = b""
        for _ in range(4):
            reader, writer = await callers.ask(b"[%s]\n" % (b" " * 10_000))
            answers += await reader.readline()
            writer.close()
        assert answers.count(b"not a request") == 3
        assert answers.count(b"requests a second, or 1 bytes of them") == 1

    serve(tmp_path, Target(), play, Limits(burst_bytes=35_000, bytes_per_s=1.0))


@pytest.mark.usefixtures("stranger")
def test_a_picture_that_cannot_be_drawn_is_an_answer_and_the_next_one_is_tried(tmp_path: Path) -> None:
    target = Target()
    draw, failures = target.snapshot, iter([True, False])

    def snapshot() -> Snapshot:
        if next(failures):
            raise ValueError("no picture")
        return draw()

    target.snapshot = snapshot  # type: ignore[method-assign]  # it fails once

    async def play(callers: Callers) -> None:
        reader, writer = await callers.ask()
        assert b"the scheduler cannot answer this: ValueError: no picture" in await reader.readline()
        writer.write(STATUS)
        assert b'"snapshot"' in await reader.readline()

    serve(tmp_path, target, play)


def test_what_costs_too_much_waits_until_it_is_made_good() -> None:
    share = Allowance(1.0, 0.25, 0.0)
    assert share.wait_s(0.0) <= 0
    share.take(0.0, 0.9)
    assert share.wait_s(0.0) <= 0
    share.take(0.0, 0.6)
    assert share.wait_s(0.0) == pytest.approx(2.0)
    assert share.wait_s(1.5) == pytest.approx(0.5)
    assert share.wait_s(2.0) <= 0
    share.take(1000.0, 1.25)
    assert share.wait_s(1000.0) == pytest.approx(1.0), "no more is saved up than the burst"


@pytest.mark.usefixtures("stranger")
def test_a_user_over_the_share_waits_and_others_do_not(tmp_path: Path) -> None:
    async def play(callers: Callers) -> None:
        reader, _ = await callers.ask(b"[]\n")
        await reader.readline()
        reader, _ = await callers.ask(b"[]\n")
        waiting = asyncio.ensure_future(reader.readline())
        owner, _ = await callers.ask(b"[]\n", "control.sock")
        assert b"not a request" in await owner.readline()
        await asyncio.sleep(0.1)
        assert not waiting.done()
        waiting.cancel()

    def charged(_: object, now: float, cost: float = 1.0) -> bool:
        return original(_, now, 5.0 if 0 < cost < 1 else cost)  # type: ignore[arg-type]

    original = Allowance.take
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Allowance, "take", charged)
        serve(tmp_path, Target(), play)


def test_lines_about_strangers_are_counted(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "EVERY_S", 0.1)
    log = Counted(logging.getLogger("counted"))

    async def play() -> None:
        for at in range(138_000):
            log.log(logging.WARNING, "%s is refused a message: %s", "a stranger", at)
        log.log(logging.WARNING, "%s is refused a message: %s", "job 1", "too long")
        await asyncio.sleep(0.3)
        log.log(logging.WARNING, "%s is refused a message: %s", "a stranger", "again")

    asyncio.run(play())
    assert len(caplog.messages) == Counted.MOST + 3
    assert caplog.messages[Counted.MOST] == "job 1 is refused a message: too long"
    assert caplog.messages[-2] == "137980 more times within 0.1 s: a stranger is refused a message: 0"
    assert caplog.messages[-1] == "a stranger is refused a message: again"


@pytest.mark.parametrize(
    ("error", "hint"),
    [(UnknownPolicyError("no policy 'x'"), "malleable policies describes them"), (PolicyError("it raised"), "")],
)
def test_policies_are_described_to_those_who_name_one_that_is_none(error: Exception, hint: str) -> None:
    class Refusing(Target):
        def carry_out(self, request: AnyRequest) -> AnyReply:
            raise error

    server = ControlServer(cast("Any", Refusing()), Limits())
    assert server._answered(Use(policy="x"), "anna") == Failure(reason=str(error), hint=hint)
