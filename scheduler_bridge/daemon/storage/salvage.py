"""Makes a log of the sound rows of a damaged one, and says what may be lost."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler_bridge.atomic_write import synchronise
from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon.config import DaemonError
from scheduler_bridge.daemon.storage.chain import MARK, DamagedError, Mark, MarkFile, digest, read_mark, seed
from scheduler_bridge.daemon.storage.log_entries import BadEntryError, Entry, Requested, Row, decode
from scheduler_bridge.daemon.storage.log_state import VERSION
from scheduler_bridge.daemon.storage.store import DATABASE, Store, is_linked

_FILES: Final = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", MARK)
_COLUMNS: Final = (int, int, float, str, str, str, bytes)
_SHOWN: Final = 50
_MAKING: Final = "salvaging"
_MADE: Final = "salvaged"


def salvage(folder: Path) -> list[str]:
    """Put a log of the sound rows in the place of a damaged one, which is kept beside it.

    Returns:
        What was done, and what may be lost, a line each; none: the log is sound.

    Raises:
        DaemonError: What is sound cannot be written.
    """
    damaged = _damage(folder)
    if damaged is None:
        return []
    try:
        kept = next(path for number in count(1) if not (path := folder / f"damaged-{number}").exists())
        making = folder / _MAKING
        old, new = making / "old", making / "new"
        for made in (making, old, new):
            made.mkdir(mode=0o700)
        for name in _FILES:
            if (folder / name).exists():
                shutil.copy2(folder / name, old / name)
        lines = _rebuild(old, new)
        for path in (*old.iterdir(), old, *new.iterdir(), new):
            synchronise(path)
        old.rename(kept)
        new.rename(folder / _MADE)
        synchronise(folder)
    except OSError as error:
        shutil.rmtree(folder / _MAKING, ignore_errors=True)
        raise DaemonError(f"the log cannot be salvaged: {error}", "make room where the state folder is") from None
    finish_salvage(folder)
    return [damaged, f"the damaged log is kept in {kept}", *lines]


def finish_salvage(folder: Path) -> None:
    """Put a log in its place that ``salvage`` has made, also one that was killed before all of it was there.

    The files are several, which cannot be replaced at once. What is made is complete from when it has its name on.

    Raises:
        DaemonError: It cannot be moved.
    """
    shutil.rmtree(folder / _MAKING, ignore_errors=True)
    made = folder / _MADE
    if not made.exists():
        return
    try:
        for name in _FILES[1:3]:  # those of the damaged database
            (folder / name).unlink(missing_ok=True)
        for name in (DATABASE, MARK):
            if (made / name).exists():
                (made / name).replace(folder / name)
        synchronise(folder)
        shutil.rmtree(made)
    except OSError as error:
        raise DaemonError(f"the log that was salvaged cannot be moved out of {made}: {error.strerror}") from None


def _damage(folder: Path) -> str | None:
    """Say what is wrong with the log; None if nothing is that a restart needs."""
    if not any((folder / name).exists() for name in _FILES):
        return None
    try:
        with contextlib.closing(Store(folder)) as store:
            store.check()
            store.check_end()
            if (last := store.last_era()) is not None and last.end is None:
                frozen = store.snapshot(last)
                usable = frozen is not None and frozen.version == VERSION
                after = (frozen.seq, frozen.chain) if frozen is not None and usable else (0, b"")
                for _ in store.rows(last, *after):
                    pass
    except DamagedError as error:
        return str(error)
    return None


def _rebuild(old: Path, new: Path) -> list[str]:
    """Write what is sound of the log in ``old`` to ``new``; return what may be lost."""
    try:
        mark = read_mark(old)
    except DamagedError:
        mark = None
    if not (old / DATABASE).exists() or not (old / DATABASE).stat().st_size:
        (old / DATABASE).write_bytes(bytes(4096))  # a page; of an empty one SQLite would remove the write-ahead log
    name = f"{(old / DATABASE).as_uri()}?mode=ro"
    with contextlib.closing(Store(new)) as sound, contextlib.closing(sqlite3.connect(name, uri=True)) as base:
        base.text_factory = lambda text: text.decode(errors="replace")
        rows = list(_all(base, "entries"))
        begun = [values for values in rows if values[0] == values[1] and _follows(seed(values[0]), values, values[0])]
        era = begun[-1][0] if begun else 0
        snapshots = [values for values in _all(base, "snapshots") if _is_sound(values) and values[2] == VERSION]
        snapshots = [values for values in snapshots if values[0] == era]
        chained, lost = _parted(rows, era, snapshots)
        sound.take_over(chained, [values for values in snapshots if chained and values[1] <= chained[-1][0]])
    last = chained[-1] if chained else None
    requested = (fact for entry in _entries(lost) for fact in entry.facts if isinstance(fact, Requested))
    given = [job_id + 1 for fact in requested for job_id, _ in fact.jobs()]
    writing = MarkFile(new, None)
    writing.move(
        sync=True, seq=last[0] if last else 0, digest=last[-1].hex() if last else "",
        next_job=max([mark.next_job if mark is not None else 1, *given]),
    )  # fmt: skip
    writing.close()
    return _described(last[0] if last else 0, mark, _entries(lost))


def _all(base: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table as far as they can be read."""
    with contextlib.suppress(sqlite3.Error):
        yield from base.execute(f"SELECT * FROM {table} ORDER BY 1")


def _is_sound(values: tuple[Any, ...]) -> bool:
    return bool(values[-1] == digest(*values[:-1]))


def _follows(last: bytes, values: tuple[Any, ...], era: int) -> bool:
    """Whether a row of an era is sound, and follows the one with the digest ``last``."""
    seq, of, *content, check = values
    return tuple(map(type, values)) == _COLUMNS and of == era and is_linked(last, seq, of, Row(*content), check)


def _parted(
    rows: list[tuple[Any, ...]], era: int, snapshots: list[tuple[Any, ...]]
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Part rows into those up to the first one that is missing or not sound, of those that a restart reads, and others.

    What lies before a snapshot of the last ``era`` is taken over as it is, as are other eras: a restart does not read
    it.
    """
    sound: list[tuple[Any, ...]] = []
    begin, last = (snapshots[0][1] + 1, snapshots[0][4]) if snapshots else (era, seed(era))
    due = begin
    for place, values in enumerate(rows):
        if values[0] >= begin:
            if values[0] != due or not _follows(last, values, era):
                return sound, rows[place:]
            due, last = due + 1, values[-1]
        if tuple(map(type, values)) == _COLUMNS:  # else it could not be written again
            sound.append(values)
    return sound, []


def _described(last: int, mark: Mark | None, lost: Iterable[Entry]) -> list[str]:
    """Say what rows are lost, and what jobs those were about, as far as that can be read."""
    if mark is None:
        rows = f"rows after {last} may be lost: how many were written is not known"
    elif mark.seq > last:
        rows = f"rows {last + 1} to {mark.seq} are lost"
    else:
        rows = f"all {last} rows are kept"
    found = [rows]
    for entry in lost:
        for fact in entry.facts:
            if isinstance(fact, Requested):
                found += [f"lost: the submission of job {job_id}, {fact.request.name}" for job_id, _ in fact.jobs()]
        for event in entry.events:
            if isinstance(event, ev.JobEnded):
                found.append(f"lost: the end of job {event.job_id}, {event.outcome}")
    if mark is not None and mark.next_job > 1:
        found.append(f"job ids go on at {mark.next_job}; jobs below it that the queue does not know are lost")
    if len(found) > _SHOWN:
        found[_SHOWN:] = [f"and {len(found) - _SHOWN} more"]
    return found


def _entries(rows: list[tuple[Any, ...]]) -> Iterator[Entry]:
    """Yield what rows say, as far as they can be read."""
    for values in rows:
        with contextlib.suppress(BadEntryError, TypeError, msgspec.MsgspecError):
            yield decode(Row(*values[2:6]))[0]
