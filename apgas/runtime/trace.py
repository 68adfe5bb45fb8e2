"""A timeline of all places on one clock, in the Chrome trace event format (Perfetto, chrome://tracing).

Every place keeps its own events; while tracing is off, an event costs a test of a global. Leavers hand theirs to
place 0 when they have been chosen to leave, the others at the end, by a tree. Times are those of the monotonic clock,
which all processes of a machine share; for places elsewhere the offset to place 0's clock is measured when they begin
to trace, by a message there and back.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from apgas.core.identity import Place
from apgas.core.relay import DEGREE, branches
from apgas.errors import DeadPlaceError
from apgas.runtime.context import ThreadState, this_thread

if TYPE_CHECKING:
    from pathlib import Path

    from apgas.core.resize import ResizeRecord

Arguments: TypeAlias = Mapping[str, int | float | str]
Ask: TypeAlias = Callable[[Place, Callable[[], Any]], Any]
"""Runs a function on a place and waits for its value."""


class Event(msgspec.Struct, frozen=True, array_like=True):
    """Something that happened on one place: a span, or an instant if ``ended_ns`` is 0."""

    name: str
    category: str
    thread: str
    began_ns: int
    ended_ns: int
    arguments: dict[str, Any]


on = False
"""Whether a place of this process is traced."""
_events_of: WeakKeyDictionary[object, list[Event]] = WeakKeyDictionary()
"""The events since the last ``take``, by place: of one, or of several where a process simulates places. Those of
threads that work for none are under ``ThreadState``."""


def _events() -> list[Event] | None:
    """Those of this place; None: it is not traced."""
    return _events_of.get(this_thread.driver or ThreadState) if on else None


def _note(row: str, name: str, category: str, began_ns: int, ended_ns: int, arguments: Arguments) -> None:
    """Note an event, in the row of the thread that calls unless ``row`` names another."""
    if (events := _events()) is not None:
        thread = row or threading.current_thread().name
        events.append(Event(name, category, thread, began_ns, ended_ns, dict(arguments)))


def enable() -> int:
    """Begin to trace on this place; returns its clock, in ns."""
    global on  # noqa: PLW0603 - tested at every activity: nothing is quicker
    _events_of.setdefault(this_thread.driver or ThreadState, [])
    on = True
    return time.monotonic_ns()


def take() -> list[Event]:
    """The events of this place since the last call."""
    events = _events() or []
    taken = events[:]
    del events[: len(taken)]  # others may be noted just now
    return taken


def take_all(below: Sequence[Place]) -> list[tuple[int, list[Event]]]:
    """The events of this place, and of those ``below``, of which each asks some of the others; with their ids."""
    from apgas.runtime.api import async_at, finish, here  # which trace themselves

    with finish():
        asked = [async_at(branch[0], take_all, branch[1:]) for branch in branches(below, DEGREE)]
        mine = here().id, take()
    return [mine, *(taken for branch in asked for taken in branch.result())]


def instant(name: str, category: str, **arguments: int | float | str) -> None:
    """Note that something happened now, in the timeline of this place; nothing without a timeline.

    Args:
        name: What happened.
        category: The kind of event, by which a viewer sorts.
        **arguments: Numbers and texts to show with it.

    Example:
        >>> apgas.trace_instant("checkpoint", "program", step=3)
    """
    if on:
        _note("", name, category, time.monotonic_ns(), 0, arguments)


def span(name: str, category: str, **arguments: int | float | str) -> AbstractContextManager[None]:
    """Note the time that a ``with`` block takes, in the timeline of this place; nothing without a timeline.

    Args:
        name: What the block does.
        category: The kind of event, by which a viewer sorts.
        **arguments: Numbers and texts to show with it.

    Returns:
        The context of the block.

    Example:
        >>> with apgas.trace_span("sort", "program", rows=3):
        ...     rows = sorted([3, 1, 2])
    """
    return nullcontext() if _events() is None else _timed(name, category, arguments)


def between(
    name: str, category: str, began_s: float, ended_s: float, *, row: str, **arguments: int | float | str
) -> None:
    """Note what took from one time to another, in a row of its own in the timeline of this place.

    For what is known only when it is over, or moves from thread to thread; nothing without a timeline.

    Args:
        name: What it was.
        category: The kind of event, by which a viewer sorts.
        began_s: When it began, in s of ``time.monotonic``.
        ended_s: When it ended, in s of ``time.monotonic``.
        row: Name of the row, which is shown like a thread; what is in it should not overlap.
        **arguments: Numbers and texts to show with it.

    Example:
        >>> import time
        >>> began_s = time.monotonic()
        >>> rows = sorted([3, 1, 2])
        >>> apgas.trace_between("sort", "program", began_s, time.monotonic(), row="sorting", rows=3)
    """
    if on:
        # an event that ends at 0 would be an instant
        _note(row, name, category, round(began_s * 1e9), max(1, round(ended_s * 1e9)), arguments)


@contextmanager
def _timed(name: str, category: str, arguments: Arguments) -> Iterator[None]:
    began_ns = time.monotonic_ns()
    try:
        yield
    finally:
        _note("", name, category, began_ns, time.monotonic_ns(), arguments)


class Timeline:
    """(place 0) Turns tracing on everywhere, collects the events of all places, and writes them."""

    def __init__(self, path: Path, ask: Ask) -> None:
        self.path = path
        self._ask = ask
        self._places: dict[int, str] = {}
        self._offsets_ns: dict[int, int] = {}
        self._events: list[tuple[int, Event]] = []

    def join(self, places: Iterable[Place]) -> None:
        """Have ``places`` trace; learn their clocks. One that dies is left out."""
        for place in places:
            asked_ns = time.monotonic_ns()
            with suppress(DeadPlaceError):
                clock_ns = self._ask(place, enable)
                self.meet(place, clock_ns, asked_ns, time.monotonic_ns())

    def collect(self, places: Iterable[Place]) -> None:
        """Take what happened on ``places`` so far. One that dies takes its own along."""
        for place in places:
            with suppress(DeadPlaceError):
                self.add(place.id, self._ask(place, take))

    def meet(self, place: Place, clock_ns: int, asked_ns: int, answered_ns: int) -> None:
        """Learn a place and its clock: ``clock_ns`` was read there between two readings here."""
        self._places[place.id] = place.node
        early, late = asked_ns - clock_ns, answered_ns - clock_ns
        # On one machine the clock is the same: do not add the measurement's error.
        self._offsets_ns[place.id] = 0 if early <= 0 <= late else (early + late) // 2

    def add(self, place: int, events: Iterable[Event]) -> None:
        """Take events of a place."""
        self._events += [(place, event) for event in events]

    def add_resizes(self, records: Iterable[tuple[ResizeRecord, int]]) -> None:
        """Take what became of the orders, each with the clock when its times began."""
        for record, zero_ns in records:
            at_ns = zero_ns + round(record.at_s * 1e9)
            name = f"{record.kind} {record.n}: {record.outcome}"
            arguments = {"order": record.order, "reason": record.reason, "nodes": " ".join(record.nodes)}
            end_ns = at_ns + round(record.seconds * 1e9)
            self._events.append((0, Event(name, "order", "orders", at_ns, end_ns, arguments)))
            for phase, seconds in record.phases.items():
                until_ns = at_ns + round(seconds * 1e9)
                self._events.append((0, Event(phase, "phase", "phases", at_ns, until_ns, {})))
                at_ns = until_ns

    def as_json(self) -> dict[str, object]:
        """The timeline as a Chrome trace; the first event is at time 0."""
        zero_ns = min((self._here(place, event.began_ns) for place, event in self._events), default=0)
        events: list[dict[str, object]] = []
        for place, node in sorted(self._places.items()):
            label = {"name": f"place {place} ({node})"}
            events.append({"ph": "M", "name": "process_name", "pid": place, "tid": 0, "args": label})
        threads: dict[tuple[int, str], int] = {}
        for place, event in self._events:
            number = threads.setdefault((place, event.thread), len(threads))
            events.append(self._as_json(place, event, number, zero_ns))
        for (place, thread), number in threads.items():
            events.append({"ph": "M", "name": "thread_name", "pid": place, "tid": number, "args": {"name": thread}})
        return {"traceEvents": events, "displayTimeUnit": "ms"}

    def write(self) -> None:
        """Write the timeline, atomically.

        Raises:
            OSError: The file cannot be written.
        """
        import json

        part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        try:
            part.write_text(json.dumps(self.as_json()), encoding="utf-8")
            part.replace(self.path)
        finally:
            part.unlink(missing_ok=True)

    def _here(self, place: int, clock_ns: int) -> int:
        return clock_ns + self._offsets_ns.get(place, 0)

    def _as_json(self, place: int, event: Event, thread: int, zero_ns: int) -> dict[str, object]:
        began_us = (self._here(place, event.began_ns) - zero_ns) / 1000
        common = {"name": event.name, "cat": event.category, "pid": place, "tid": thread, "ts": began_us}
        if event.ended_ns == 0:
            return {**common, "ph": "i", "s": "t", "args": event.arguments}
        return {**common, "ph": "X", "dur": (event.ended_ns - event.began_ns) / 1000, "args": event.arguments}
