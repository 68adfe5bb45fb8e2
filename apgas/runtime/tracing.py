"""Place 0's part in a timeline: turns tracing on everywhere, collects, and writes at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from apgas.core.identity import Place
from apgas.core.resize import ResizeRecord
from apgas.runtime import trace

Ask: TypeAlias = Callable[[Place, Callable[[], Any]], Any]
"""Runs a function on a place and waits for its value."""


class Tracing:
    """Traces all places from now on.

    Args:
        path: Where the timeline is written at the end.
        ask: How to call other places.
    """

    def __init__(self, path: Path, ask: Ask) -> None:
        self.path = path
        self._ask = ask
        self._timeline = trace.Timeline()

    def join(self, places: Iterable[Place]) -> None:
        """Have ``places`` trace; learn their clocks."""
        for place in places:
            asked_ns = time.monotonic_ns()
            clock_ns = self._ask(place, trace.enable)
            self._timeline.meet(place, clock_ns, asked_ns, time.monotonic_ns())

    def collect(self, places: Iterable[Place]) -> None:
        """Take what happened on ``places`` so far."""
        for place in places:
            self._timeline.add(place.id, self._ask(place, trace.take))

    def write(self, records: Sequence[ResizeRecord], zero_ns: int) -> None:
        """Write the timeline; ``records``: what became of the orders, ``zero_ns``: the clock when their times began.

        Raises:
            OSError: The file cannot be written.
        """
        self._timeline.add_resizes(records, zero_ns)
        self._timeline.write(self.path)
