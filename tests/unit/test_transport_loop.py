from __future__ import annotations

import logging
import math
import socket
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import PATIENCE_S
from support.loops import count_rounds, pass_through

from apgas.transport.loop import READ, EventLoop


def open_files() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_sockets_are_watched_until_unwatched(loop: EventLoop) -> None:
    ours, theirs = socket.socketpair()
    seen = threading.Event()

    def handle(events: int) -> None:
        assert loop.in_thread()
        assert events & READ
        loop.unwatch(ours)
        seen.set()

    loop.call_soon(lambda: loop.watch(ours, READ, handle))
    theirs.send(b"x")
    assert seen.wait(PATIENCE_S)
    pass_through(loop)
    rounds = count_rounds(loop)
    theirs.send(b"y")
    pass_through(loop)
    assert len(rounds) <= 2
    ours.close()
    theirs.close()


def test_a_failing_handler_is_logged_and_the_loop_goes_on(loop: EventLoop, caplog: pytest.LogCaptureFixture) -> None:
    ours, theirs = socket.socketpair()

    def handle(_events: int) -> None:
        loop.unwatch(ours)
        raise ValueError("on purpose")

    loop.call_soon(lambda: loop.watch(ours, READ, handle))
    theirs.send(b"x")
    done = threading.Event()
    loop.call_later(0.01, done.set)
    assert done.wait(PATIENCE_S)
    ours.close()
    theirs.close()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_cancelled_timers_do_not_pile_up(loop: EventLoop) -> None:
    def set_and_cancel() -> None:
        for _ in range(5000):
            loop.call_later(3600, lambda: None).cancel()

    loop.call_soon(set_and_cancel)
    pass_through(loop)
    assert len(loop._timers) <= 128


def test_live_timers_survive_the_cleaning_up(loop: EventLoop) -> None:
    done = threading.Event()

    def set_many() -> None:
        loop.call_later(0.02, done.set)
        for _ in range(500):
            loop.call_later(0.01, lambda: None).cancel()

    loop.call_soon(set_many)
    assert done.wait(PATIENCE_S)


def test_timers_of_the_same_time_run_in_the_order_of_the_calls(
    loop: EventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr("apgas.transport.loop.time", clock)
    monkeypatch.setattr("apgas.transport.loop.time", clock)
    ran: list[int] = []

    def set_timers() -> None:
        for number in range(20):
            loop.call_later(0.0, partial(ran.append, number))

    loop.call_soon(set_timers)
    for _ in range(3):
        pass_through(loop)
    assert ran == list(range(20))


def test_stop_runs_what_was_posted_and_frees_everything() -> None:
    before = open_files()
    ran: list[int] = []
    loop = EventLoop("test-io")
    loop.call_soon(lambda: ran.append(1))
    loop.start()
    loop.call_soon(lambda: ran.append(2))
    loop.stop()
    loop.stop()
    loop.call_soon(lambda: ran.append(3))
    assert ran == [1, 2]
    assert open_files() <= before


def test_posting_from_many_threads_loses_no_wake_up(loop: EventLoop) -> None:
    def ping_pong() -> None:
        for _ in range(500):
            pass_through(loop)

    threads = [threading.Thread(target=ping_pong) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@pytest.mark.parametrize("delay_s", [30 * 86400.0, 1e300, math.inf])
def test_a_timer_may_be_far_off(loop: EventLoop, delay_s: float) -> None:
    loop.call_later(delay_s, lambda: None)
    pass_through(loop)
    soon = threading.Event()
    loop.call_later(0.001, soon.set)
    assert soon.wait(PATIENCE_S)
