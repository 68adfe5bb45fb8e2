"""Threads of activities, futures and the io thread, when what they run behaves badly."""

from __future__ import annotations

import threading

import pytest
from support import PATIENCE_S

import apgas
from apgas import Future
from apgas.runtime import context
from apgas.runtime.context import Executor, call_within
from apgas.runtime.driver import required_driver
from apgas.testing.pytest_plugin import MakeJob
from apgas.transport.loop import EventLoop


def leave() -> None:
    raise SystemExit(3)


def test_a_call_that_raises_is_reported_and_takes_no_thread_along() -> None:
    raised: list[BaseException] = []
    executor = Executor("test", raised.append, limit=1)
    done = threading.Event()
    executor.submit(leave)
    executor.submit(done.set)
    assert done.wait(PATIENCE_S)
    assert [type(error) for error in raised] == [SystemExit]
    executor.close()


@pytest.mark.parametrize("wait", ["result", "exception"])
def test_whoever_waits_for_a_future_lets_others_run(wait: str) -> None:
    executor = Executor("test", lambda _: None, limit=1)
    inner: Future[int] = Future()
    outer: Future[object] = Future()

    def waits() -> None:
        outer.set_result(call_within(None, executor.waiting, getattr(inner, wait), PATIENCE_S))

    executor.submit(waits)
    executor.submit(lambda: inner.set_result(7))
    assert outer.result(PATIENCE_S) == (7 if wait == "result" else None)
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
    assert done.wait(PATIENCE_S)
    loop.stop()


gates: dict[str, threading.Event] = {}


def pass_gate(name: str) -> None:
    assert gates[name].wait(PATIENCE_S)


def test_a_callback_of_a_future_must_not_wait(apgas_job: MakeJob, caplog: pytest.LogCaptureFixture) -> None:
    """It runs on the thread that receives what it would wait for."""

    def main() -> None:
        def callback(_: object) -> None:
            try:
                later.result(PATIENCE_S)
            finally:
                gates["later"].set()

        with apgas.finish():
            first, later = (apgas.async_at(apgas.place(1), pass_gate, name) for name in gates)
            first.add_done_callback(callback)
            gates["first"].set()

    gates.update(first=threading.Event(), later=threading.Event())
    apgas_job(main, places=2).run()
    assert "UsageError: this waits on the thread that receives what it would wait for" in caplog.text


ended = threading.Event()


def note_the_end() -> None:
    context.at_end(ended.set)


def test_an_uncounted_activity_has_an_end_too(apgas_job: MakeJob) -> None:
    def main() -> None:
        apgas.uncounted(apgas.place(1), note_the_end)
        assert ended.wait(PATIENCE_S)

    ended.clear()
    apgas_job(main, places=2).run()


def test_an_interrupt_is_for_the_main_thread_and_once(apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    def main() -> None:
        driver = required_driver()
        driver.interrupted = KeyboardInterrupt
        assert apgas.at(apgas.place(1), pow, 2, 3) == 8
        monkeypatch.setattr(threading, "main_thread", threading.current_thread)
        with pytest.raises(KeyboardInterrupt):
            apgas.at(apgas.place(1), pow, 2, 3)
        assert apgas.at(apgas.place(1), pow, 2, 3) == 8

    apgas_job(main, places=2).run()


def test_a_call_without_a_thread_is_refused_and_does_not_run_later(threads_to_be_had: threading.Event) -> None:
    executor = Executor("test", lambda _: None)
    ran: list[str] = []
    done = threading.Event()
    with pytest.raises(RuntimeError):
        executor.submit(lambda: ran.append("refused"))
    threads_to_be_had.set()
    executor.submit(done.set)
    assert done.wait(PATIENCE_S)
    executor.close()
    assert ran == []


def test_the_threads_that_there_are_do_what_those_would_that_are_not(threads_to_be_had: threading.Event) -> None:
    executor = Executor("test", lambda _: None)
    began, goes_on, done = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        began.set()
        goes_on.wait(PATIENCE_S)

    threads_to_be_had.set()
    executor.submit(first)
    assert began.wait(PATIENCE_S)
    threads_to_be_had.clear()
    executor.submit(done.set)
    goes_on.set()
    assert done.wait(PATIENCE_S)
    executor.close()


def test_a_handler_call_without_a_thread_does_not_stop_the_line(threads_to_be_had: threading.Event) -> None:
    executor = Executor("test", lambda _: None, limit=1)
    ran: list[str] = []
    done = threading.Event()
    with pytest.raises(RuntimeError):
        executor.submit(lambda: ran.append("refused"), first=True)
    threads_to_be_had.set()
    executor.submit(lambda: ran.append("taken"))
    executor.submit(done.set)
    assert done.wait(PATIENCE_S)
    executor.close()
    assert ran == ["taken"]


def test_a_handler_call_that_undoes_another_comes_before_those_that_wait() -> None:
    executor = Executor("test", lambda _: None, limit=1)
    ran: list[str] = []
    began, goes_on, done = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        began.set()
        goes_on.wait(PATIENCE_S)
        ran.append("first")

    executor.submit(first)
    assert began.wait(PATIENCE_S)
    executor.submit(lambda: ran.append("third"))
    executor.submit(lambda: ran.append("second"), first=True)
    executor.submit(done.set)
    goes_on.set()
    assert done.wait(PATIENCE_S)
    executor.close()
    assert ran == ["first", "second", "third"]
