"""What the unit tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apgas.transport.loop import EventLoop


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    made = EventLoop("test-io")
    made.start()
    yield made
    made.stop()
