"""A thread that leads, signals in its way, and what it waits for coming about at the last moment."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest
from support.loops import pass_through

from apgas.transport.loop import EventLoop, Events, Poller


@pytest.fixture
def always_in_succession(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apgas.transport.loop._SUCCESSION_S", 1e9)


@pytest.mark.usefixtures("always_in_succession")
def test_a_signal_never_finds_a_thread_that_leads_without_a_sign_of_it(
    loop: EventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler must not raise between taking a lock and the block that gives it back."""
    found: list[bool] = []

    class Interrupted:
        """A lock; a signal comes as soon as it is held, and another before it is free."""

        def __init__(self, lock: Any) -> None:
            self._lock = lock
            self.locked = lock.locked

        def acquire(self, *args: Any, **kwargs: Any) -> bool:
            held: bool = self._lock.acquire(*args, **kwargs)
            if held and threading.current_thread() is threading.main_thread():
                signal.raise_signal(signal.SIGUSR1)
            return held

        def release(self) -> None:
            if threading.current_thread() is threading.main_thread():
                signal.raise_signal(signal.SIGUSR1)
            self._lock.release()

    before = signal.signal(signal.SIGUSR1, lambda *_: found.append(loop.may_lead()))
    try:
        pass_through(loop)
        monkeypatch.setattr(loop, "_guest", Interrupted(loop._guest))
        monkeypatch.setattr(loop, "_leadership", Interrupted(loop._leadership))
        for _ in range(10):
            loop.lead(lambda: True, 0.001)
            assert not loop.may_lead()
        monkeypatch.undo()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(found) >= 4
    assert all(found)


@pytest.mark.usefixtures("always_in_succession")
def test_a_leader_does_not_sleep_on_what_came_about_before_it_said_so(loop: EventLoop) -> None:
    """What it waits for comes about, and is reported, between its look and its sleep."""
    came: list[bool] = []
    sleeps: list[float | None] = []
    poll = loop._poller.poll

    class Recording(Poller):
        def poll(self, timeout_s: float | None) -> Events:
            if threading.current_thread() is threading.main_thread():
                sleeps.append(timeout_s)
            return poll(timeout_s)

    def done() -> bool:
        before = bool(came)
        if not before:
            came.append(True)
            loop.nudge()
        return before

    pass_through(loop)
    loop._poller = Recording(loop._epoll.poll)
    for _ in range(10):
        came.clear()
        loop.lead(done, 0.05)
    assert sleeps
    assert set(sleeps) == {0.0}
