"""What the unit tests share."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from apgas.transport.loop import EventLoop


@pytest.fixture(autouse=True)
def one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates in the process of the tests, which can be a place of one job only."""
    monkeypatch.setenv("MALLEABLE_PLACES", "1")


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    made = EventLoop("test-io")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def threads_to_be_had(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """While it is not set, the system gives no threads."""
    given = threading.Event()
    start = threading.Thread.start

    def start_if_given(thread: threading.Thread) -> None:
        if not given.is_set():
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_if_given)
    yield given
    given.set()
