"""Threads of activities, futures and the io thread, when what they run behaves badly."""

from __future__ import annotations

import threading

import pytest

import apgas
from apgas import Future
from apgas.runtime.context import pooled
from apgas.runtime.executor import Executor
from apgas.transport.loop import EventLoop

SOON_S = 20.0


def leave() -> None:
    raise SystemExit(3)


def test_a_call_that_raises_is_told_and_takes_no_thread_along() -> None:
    told: list[BaseException] = []
    executor = Executor("test", told.append, limit=1)
    done = threading.Event()
    executor.submit(leave)
    executor.submit(done.set)
    assert done.wait(SOON_S)
    assert [type(error) for error in told] == [SystemExit]
    executor.close()


@pytest.mark.parametrize("wait", ["result", "exception"])
def test_whoever_waits_for_a_future_lets_others_run(wait: str) -> None:
    executor = Executor("test", lambda _: None, limit=1)
    inner: Future[int] = Future()
    outer: Future[object] = Future()

    def waits() -> None:
        with pooled(executor.waiting):
            outer.set_result(getattr(inner, wait)(SOON_S))

    executor.submit(waits)
    executor.submit(lambda: inner.set_result(7))
    assert outer.result(SOON_S) == (7 if wait == "result" else None)
    executor.close()


def test_an_activity_cannot_be_cancelled() -> None:
    future: Future[int] = Future()
    assert not future.cancel()
    future.set_result(1)
    assert future.result() == 1


def test_a_program_runs_in_the_main_thread_only() -> None:
    said: list[str] = []

    def run() -> None:
        try:
            apgas.run(lambda: None)
        except apgas.UsageError as error:
            said.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "main thread only" in said[0]


def test_the_io_thread_outlives_system_exit() -> None:
    loop = EventLoop("test")
    loop.start()
    done = threading.Event()
    loop.call_soon(leave)
    loop.call_later(0, leave)
    loop.call_later(0.001, done.set)
    assert done.wait(SOON_S)
    loop.stop()
