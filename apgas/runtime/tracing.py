"""Place 0's part in a timeline: turns tracing on everywhere, collects, and writes at the end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from apgas.core.identity import Place
from apgas.core.resize import ResizeRecord
from apgas.errors import UsageError
from apgas.runtime import trace as events
from apgas.runtime.api import at, places
from apgas.runtime.program import program

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
        self._timeline = events.Timeline()

    def join(self, places: Iterable[Place]) -> None:
        """Have ``places`` trace; learn their clocks."""
        for place in places:
            asked_ns = time.monotonic_ns()
            clock_ns = self._ask(place, events.enable)
            self._timeline.meet(place, clock_ns, asked_ns, time.monotonic_ns())

    def collect(self, places: Iterable[Place]) -> None:
        """Take what happened on ``places`` so far."""
        for place in places:
            self._timeline.add(place.id, self._ask(place, events.take))

    def write(self, records: Sequence[ResizeRecord], zero_ns: int) -> None:
        """Write the timeline; ``records``: what became of the orders, ``zero_ns``: the clock when their times began.

        Raises:
            OSError: The file cannot be written.
        """
        self._timeline.add_resizes(records, zero_ns)
        self._timeline.write(self.path)


def trace(path: Path | str) -> None:
    """(place 0) Trace all places from now on, newcomers too, and write the timeline when the program has ended well.

    Open the file in Perfetto or chrome://tracing: activities, what libraries note, and orders with their phases, of all
    places on one clock.

    Args:
        path: The file, JSON in the Chrome trace event format.

    Raises:
        UsageError: Tracing is on already, or the file's folder cannot be written.

    Example:
        >>> apgas.trace("timeline.json")
    """
    resizing = program().resizing
    path = Path(path).absolute()
    if resizing.tracing is not None:
        raise UsageError("the program is traced already")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"the timeline cannot be written: {path.parent} is no folder that can be written")
    resizing.tracing = Tracing(path, at)
    resizing.tracing.join(places())
