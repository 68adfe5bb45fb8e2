"""What a measured daemon took in, kind by kind: what its core handled, as its log has it, and what it only noted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from scheduler_bridge.core import events as ev
from scheduler_bridge.live.log_entries import decode
from scheduler_bridge.live.store import Store

_BY_MESSAGE: Final = {
    ev.EvolvingRequest: "a job asks for a node, or offers one",
    ev.GrowCompleted: "a job has grown",
    ev.ShrinkCompleted: "a job has shrunk",
    ev.ResizeFailed: "a job has not resized",
    ev.MalleableReady: "a job is ready for orders",
}
_OTHERS: Final = {
    ev.JobSubmitted: "a job is submitted",
    ev.JobStarted: "a job has started",
    ev.JobEnded: "a job has ended",
}
PROGRESS: Final = "a job reports progress"


class Kind(msgspec.Struct, frozen=True):
    """Events of one kind: how many there were, and whether the core handles them or they are only noted."""

    what: str
    count: int
    handled: bool


def last_row(folder: Path) -> int:
    """Return the number of the last row of the log in ``folder``."""
    store = Store(folder, read_only=True)
    try:
        return store.last_seq()
    finally:
        store.close()


def kinds(folder: Path, after: int, messages: int) -> list[Kind]:
    """Return what a daemon took in, by kind; times that it was woken at are not among it, for nobody sent them.

    Args:
        folder: Its state folder.
        after: The last row of the log before.
        messages: How many messages of jobs it took in.
    """
    counts = _logged(folder, after)
    by_message = sum(counts[kind] for kind in _BY_MESSAGE)
    found = [Kind(what, counts[kind], handled=True) for kind, what in (_BY_MESSAGE | _OTHERS).items()]
    return [*found, Kind(PROGRESS, max(0, messages - by_message), handled=False)]


def _logged(folder: Path, after: int) -> Counter[type]:
    store = Store(folder, read_only=True)
    try:
        era = store.last_era()
        rows = store.rows(era.number, after) if era is not None else ()
        return Counter(type(event) for _, row in rows for event in decode(row)[0].events)
    finally:
        store.close()
