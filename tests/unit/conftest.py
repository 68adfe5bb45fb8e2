"""What the unit tests share."""

from __future__ import annotations

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
