"""The log on disk: an SQLite database in the state folder (docs/how-to/operate-the-scheduler.md has the schema).

``append`` is called from one thread at a time, which need not be the one that opened the store.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler_bridge.daemon.config import DaemonError
from scheduler_bridge.daemon.storage.log_entries import Row

DATABASE: Final = "scheduler.db"
SCHEMA_VERSION: Final = 1
_APPLICATION_ID: Final = 0x4D414C4C  # "MALL"
_BUSY_S: Final = 5.0
_IN_MEMORY: Final = ":memory:"

_SCHEMA: Final = """
CREATE TABLE eras (
    era INTEGER PRIMARY KEY,
    about TEXT NOT NULL,
    next_job INTEGER
) STRICT;
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY,
    era INTEGER NOT NULL REFERENCES eras,
    at_s REAL NOT NULL,
    events TEXT NOT NULL,
    facts TEXT NOT NULL,
    effects TEXT NOT NULL
) STRICT;
CREATE INDEX entries_by_era ON entries (era, seq);
CREATE TABLE snapshots (
    era INTEGER PRIMARY KEY REFERENCES eras,
    seq INTEGER NOT NULL,
    version TEXT NOT NULL,
    state BLOB NOT NULL
) STRICT;
"""


class Era(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the log with one beginning: a scheduler that started with no jobs.

    Attributes:
        nodes: The nodes at the beginning.
        policy: The policy at the beginning.
        parameters: Its parameters.
        cores_per_node: Cores of each node.
        past_use: Per user, the used parts of the walltimes of the last jobs of earlier eras.
        use_at_end: The same at the end of this one, if it has ended in good order.
        first_job: Id of the era's first job.
        started_at: The beginning as an ISO date.
        wall_s: The beginning in seconds since 1970, for clocks of other boots of the machine.
        boot: Which boot of the machine ``monotonic_s`` counts in.
        monotonic_s: The beginning on the machine's monotonic clock.
    """

    nodes: tuple[str, ...]
    policy: str
    parameters: dict[str, Any]
    first_job: int
    started_at: str
    wall_s: float
    boot: str
    monotonic_s: float
    cores_per_node: int = 1
    past_use: dict[str, list[float]] = {}
    use_at_end: dict[str, list[float]] = {}


@dataclass(frozen=True, slots=True)
class StoredEra:
    """An era of the log; ``next_job``, the least id of a job of the next one, is 0 until it ended in good order."""

    number: int
    era: Era
    next_job: int

    @property
    def ended(self) -> bool:
        """Whether it ended in good order."""
        return self.next_job > 0


@dataclass(frozen=True, slots=True)
class Frozen:
    """A state as of row ``seq``, written by ``version`` of this software."""

    seq: int
    version: str
    state: bytes


class StoreError(OSError):
    """The log could not be written; nothing of what was to be written is in it."""


class Store:
    """The database of one state folder.

    Args:
        folder: The state folder; a database is made if there is none. None: it is in memory, and ends with this object.
        read_only: Only look; there must be a database then.

    Raises:
        DaemonError: It is damaged, of a newer version, no such database at all, or cannot be made.
    """

    def __init__(self, folder: Path | None, *, read_only: bool = False) -> None:
        self._on_disk = folder is not None
        self.path = folder / DATABASE if folder is not None else Path(_IN_MEMORY)
        try:
            self._base = self._open(read_only=read_only)
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def _open(self, *, read_only: bool) -> sqlite3.Connection:
        name = _IN_MEMORY
        if self._on_disk:
            name = f"{self.path.as_uri()}?mode={'ro' if read_only else 'rw'}"
            if not read_only:
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite would make it readable for others.
        base = sqlite3.connect(
            name, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False,
        )  # fmt: skip
        try:
            self._check_version(base, read_only=read_only)
            if not read_only:
                base.execute("PRAGMA journal_mode=WAL")
                base.execute("PRAGMA synchronous=FULL")
        except BaseException:
            base.close()
            raise
        return base

    def _check_version(self, base: sqlite3.Connection, *, read_only: bool) -> None:
        version = int(base.execute("PRAGMA user_version").fetchone()[0])
        application = int(base.execute("PRAGMA application_id").fetchone()[0])
        empty = base.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
        if empty and application == 0 and not read_only:
            base.executescript(
                f"BEGIN; {_SCHEMA} PRAGMA application_id={_APPLICATION_ID};"
                f"PRAGMA user_version={SCHEMA_VERSION}; COMMIT;"
            )
            return
        if application != _APPLICATION_ID:
            raise DaemonError(f"{self.path} is not a scheduler's log", "choose another folder with --state")
        if version != SCHEMA_VERSION:
            raise DaemonError(
                f"{self.path} has version {version}, this software reads version {SCHEMA_VERSION}",
                "use the version of this software that wrote it, or choose another folder with --state",
            )

    def _unusable(self, error: sqlite3.Error) -> DaemonError:
        if isinstance(error, sqlite3.OperationalError):
            return DaemonError(f"cannot use {self.path}: {error}", "choose another folder with --state")
        return DaemonError(
            f"{self.path} is damaged: {error}",
            f"move it away (its jobs are forgotten then): mv {self.path} {self.path}.damaged",
        )

    def check(self) -> None:
        """See that the database is sound.

        Raises:
            DaemonError: It is not.
        """
        try:
            found = self._base.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        if found != "ok":
            raise self._unusable(sqlite3.DatabaseError(found))

    # writing --------------------------------------------------------------------------------------------------------

    def append(self, era: int, first_seq: int, rows: Sequence[Row], frozen: Frozen | None = None) -> None:
        """Add rows, numbered from ``first_seq``; when this returns they outlast everything but the disk itself.

        Raises:
            StoreError: They could not be added.
        """
        values = [
            (seq, era, row.at_s, row.events, row.facts, row.effects) for seq, row in enumerate(rows, start=first_seq)
        ]
        self._transact(
            ("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", values),
            *([_keep(era, frozen)] if frozen is not None else []),
        )

    def begin_era(self, era: Era) -> int:
        """Add an era; return its number.

        Raises:
            StoreError: It could not be added.
        """
        number = max((stored.number for stored in self.eras()), default=0) + 1
        self._transact(("INSERT INTO eras (era, about) VALUES (?, ?)", [(number, msgspec.json.encode(era).decode())]))
        return number

    def rewrite_era(self, number: int, era: Era) -> None:
        """Replace what is said about an era: the machine has another boot, or the era is about to end.

        Raises:
            StoreError: It could not be replaced.
        """
        self._transact(("UPDATE eras SET about = ? WHERE era = ?", [(msgspec.json.encode(era).decode(), number)]))

    def end_era(self, number: int, next_job: int) -> None:
        """The scheduler ended in good order: nothing of its jobs is left, and the next one's ids begin at ``next_job``.

        Raises:
            StoreError: It could not be noted.
        """
        self._transact(
            ("UPDATE eras SET next_job = ? WHERE era = ?", [(next_job, number)]),
            ("DELETE FROM snapshots WHERE era = ?", [(number,)]),
        )

    def _transact(self, *changes: tuple[str, Sequence[tuple[object, ...]]]) -> None:
        try:
            self._base.execute("BEGIN IMMEDIATE")
            for statement, values in changes:
                self._base.executemany(statement, values)
            self._base.execute("COMMIT")
        except sqlite3.Error as error:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            raise StoreError(0, str(error), str(self.path)) from None

    # reading --------------------------------------------------------------------------------------------------------

    def last_era(self) -> StoredEra | None:
        """Return the last era."""
        rows = self.eras()
        return rows[-1] if rows else None

    def eras(self) -> list[StoredEra]:
        """Return all eras, the first first.

        Raises:
            DaemonError: The database is damaged.
        """
        try:
            rows = self._base.execute("SELECT era, about, coalesce(next_job, 0) FROM eras ORDER BY era").fetchall()
            return [StoredEra(number, msgspec.json.decode(about, type=Era), ended) for number, about, ended in rows]
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        except msgspec.DecodeError as error:
            raise self._unusable(sqlite3.DatabaseError(f"an era cannot be read: {error}")) from None

    def rows(self, era: int, after: int = 0) -> Iterator[tuple[int, Row]]:
        """Yield the rows of an era with numbers above ``after``, in order.

        Raises:
            DaemonError: The database is damaged.
        """
        query = "SELECT seq, at_s, events, facts, effects FROM entries WHERE era = ? AND seq > ? ORDER BY seq"
        try:
            for seq, at_s, events, facts, effects in self._base.execute(query, (era, after)):
                yield seq, Row(at_s, events, facts, effects)
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def extent(self, era: int) -> tuple[int, float]:
        """Return how many jobs an era had, and its last moment in seconds of its clock.

        Raises:
            DaemonError: The database is damaged.
        """
        query = """
            SELECT (SELECT coalesce(sum(max(1, coalesce(json_array_length(value, '$.array'), 0))), 0)
                    FROM entries, json_each(facts) WHERE era = :era AND value->>'type' = 'requested'),
                   (SELECT coalesce(max(at_s), 0) FROM entries WHERE era = :era)"""
        try:
            jobs, seconds = self._base.execute(query, {"era": era}).fetchone()
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        return int(jobs), float(seconds)

    def last_seq(self) -> int:
        """Return the number of the last row; 0 if there is none.

        Raises:
            DaemonError: The database is damaged.
        """
        try:
            return int(self._base.execute("SELECT coalesce(max(seq), 0) FROM entries").fetchone()[0])
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def snapshot(self, era: int) -> Frozen | None:
        """Return the last snapshot of an era."""
        row = self._base.execute("SELECT seq, version, state FROM snapshots WHERE era = ?", (era,)).fetchone()
        return Frozen(*row) if row is not None else None

    def close(self) -> None:
        """Close the database; its write-ahead log is folded into it."""
        self._base.close()


def _keep(era: int, frozen: Frozen) -> tuple[str, list[tuple[object, ...]]]:
    return "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", [(era, frozen.seq, frozen.version, frozen.state)]
