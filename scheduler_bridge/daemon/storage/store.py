"""The log on disk: an SQLite database in the state folder (docs/how-to/operate-the-scheduler.md has the schema).

``append`` is called from one thread at a time, which need not be the one that opened the store.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler_bridge.daemon.config import DaemonError
from scheduler_bridge.daemon.storage.chain import MARK, DamagedError, Mark, MarkFile, digest, link, read_mark, seed
from scheduler_bridge.daemon.storage.log_entries import Row

DATABASE: Final = "scheduler.db"
SCHEMA_VERSION: Final = 3
_APPLICATION_ID: Final = 0x4D414C4C  # "MALL"
_BUSY_S: Final = 5.0
_IN_MEMORY: Final = ":memory:"

_SCHEMA: Final = """
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY,
    era INTEGER NOT NULL REFERENCES entries,
    at_s REAL NOT NULL,
    events TEXT NOT NULL,
    facts TEXT NOT NULL,
    effects TEXT NOT NULL,
    digest BLOB NOT NULL
) STRICT;
CREATE TABLE snapshots (
    era INTEGER PRIMARY KEY REFERENCES entries,
    seq INTEGER NOT NULL,
    version TEXT NOT NULL,
    state BLOB NOT NULL,
    chain BLOB NOT NULL,
    digest BLOB NOT NULL
) STRICT;
"""


class Era(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="era"):
    """A stretch of the log with one beginning: a scheduler that started with no jobs. Its first row says this.

    Attributes:
        run: Its number.
        before: Number of the first row of the era before; 0: there is none.
        nodes: The nodes at the beginning.
        policy: The policy at the beginning.
        parameters: Its parameters.
        cores_per_node: Cores of each node.
        past_use: Per user, the used parts of the walltimes of the last jobs of earlier eras.
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
    run: int = 1
    before: int = 0


class Ended(msgspec.Struct, frozen=True, tag_field="type", tag="ended"):
    """The scheduler ended in good order: nothing of its jobs is left. The last row of such an era says this.

    Attributes:
        next_job: Least id of a job of the next era.
        past_use: As for ``Era``, those of this one included.
    """

    next_job: int
    past_use: dict[str, list[float]] = {}


@dataclass(frozen=True, slots=True)
class StoredEra:
    """An era of the log, whose rows are those from ``first_seq`` to ``last_seq``; ``end``: None if it goes on."""

    era: Era
    first_seq: int
    last_seq: int
    end: Ended | None


@dataclass(frozen=True, slots=True)
class Frozen:
    """A state as of row ``seq``, written by ``version`` of this software; ``chain`` is that row's digest."""

    seq: int
    version: str
    state: bytes
    chain: bytes = b""


_ERA: Final = msgspec.json.Decoder(tuple[Era])
_ENDED: Final = msgspec.json.Decoder(tuple[Ended])


class StoreError(OSError):
    """The log could not be written; nothing of what was to be written is in it."""


class Store:
    """The database of one state folder, which is opened for writing when it is first written.

    Until then its files stay as they are: to close a database that may be written folds its write-ahead log into it,
    and of a log that is damaged less could be salvaged afterwards.

    What writes raises ``StoreError`` if that cannot be done, what reads ``DaemonError`` if the database is damaged.

    Args:
        folder: The state folder; a database is made if there is none. None: it is in memory, and ends with this object.
        read_only: Only look; there must be a database then.

    Raises:
        DaemonError: It is damaged, of a newer version, no such database at all, or cannot be made.
    """

    def __init__(self, folder: Path | None, *, read_only: bool = False) -> None:
        self._on_disk = folder is not None
        self.path = folder / DATABASE if folder is not None else Path(_IN_MEMORY)
        self.mark = read_mark(folder) if folder is not None else None
        self._marking = MarkFile(folder, self.mark)
        self._tip: tuple[int, int, bytes] | None = None
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._only_reads = read_only
        made = self._on_disk and self.path.exists() and self.path.stat().st_size > 0
        # a log has no journal: it was left while the database was made
        self._writes = not read_only and not (made and not Path(f"{self.path}-journal").exists())
        lacks = self._on_disk and (self._writes or not made)  # SQLite would remove the write-ahead log of an empty one
        if lacks and (self.mark is not None or Path(f"{self.path}-wal").exists()):
            raise DamagedError(f"{self.path} is missing or empty, but rows were written")
        try:
            self._base = self._open(self.path, read_only=not self._writes)
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def _open(self, path: Path, *, read_only: bool) -> sqlite3.Connection:
        try:
            return self._connect(path, read_only=read_only)
        except sqlite3.OperationalError:
            if not self._only_reads or self._copy is not None or os.access(path.parent, os.W_OK, effective_ids=True):
                raise
        # SQLite wants to make files beside a database that has a write-ahead log, also where it only reads it.
        self._copy = tempfile.TemporaryDirectory(prefix="malleable-log-")
        for name in (DATABASE, f"{DATABASE}-wal"):
            if (path.parent / name).exists():
                shutil.copyfile(path.parent / name, Path(self._copy.name) / name)
        return self._open(Path(self._copy.name) / DATABASE, read_only=True)

    def _connect(self, path: Path, *, read_only: bool) -> sqlite3.Connection:
        name = _IN_MEMORY
        if self._on_disk:
            name = f"{path.as_uri()}?mode={'ro' if read_only else 'rw'}"
            if read_only and not self._only_reads and not Path(f"{self.path}-wal").exists():
                name += "&immutable=1"  # else SQLite makes an empty one, also to read; there is no other who writes
            if not read_only:
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite would make it readable for others.
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
        if empty and self.mark is not None:
            raise DamagedError(f"row 1 of {self.path} is missing: it is empty, but had {self.mark.seq} rows")
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
        return DamagedError(f"{self.path} is damaged: {error}")

    def _ask(self, query: str, *values: object) -> list[Any]:
        """Return all rows that a query finds."""
        try:
            return self._base.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def check(self) -> None:
        """See that the database is sound; else a ``DaemonError``."""
        found = self._ask("PRAGMA quick_check(1)")[0][0]
        if found != "ok":
            raise self._unusable(sqlite3.DatabaseError(found))

    def check_end(self) -> None:
        """See that the log has all that the mark knows of; else a ``DamagedError``."""
        last, mark = self.last_seq(), self.mark
        if mark is None and last:
            raise DamagedError(f"{self.path.parent / MARK} is missing: so it cannot be seen whether the log is whole")
        if mark is not None and mark.seq and self._digest_of(mark.seq) != bytes.fromhex(mark.digest):
            seq = min(mark.seq, last + 1)
            raise DamagedError(f"row {seq} of {self.path} is missing or damaged: {mark.seq} rows were written")

    def _digest_of(self, seq: int) -> bytes | None:
        rows = self._ask("SELECT digest FROM entries WHERE seq = ?", seq)
        return rows[0][0] if rows else None

    # writing --------------------------------------------------------------------------------------------------------

    def append(self, rows: Sequence[Row], next_job: int = 1, *, sync: bool = False) -> None:
        """Add rows to the last era; when this returns they outlast everything but the disk itself.

        Ids below ``next_job`` are not given to other jobs, whether or not the rows could be added. ``sync``: then the
        mark is on the disk, too.
        """
        if self._tip is None and (stored := self.last_era()) is not None:
            self._tip = stored.first_seq, stored.last_seq, self._digest_of(stored.last_seq) or b""
        assert self._tip is not None, "rows are those of an era"
        era, seq, last = self._tip
        next_job = max(next_job, self._marking.now.next_job)
        values: list[tuple[object, ...]] = []
        snapshots: list[tuple[object, ...]] = []
        for row in rows:
            seq += 1
            last = link(last, seq, era, row)
            values.append((seq, era, row.at_s, row.events, row.facts, row.effects, last))
            if row.frozen is not None:
                own = (era, seq, *row.frozen, last)
                snapshots = [(*own, digest(*own))]
        try:
            self._transact(
                ("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", values),
                ("DELETE FROM snapshots", [() for _ in snapshots]),
                ("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?)", snapshots),
            )
        except StoreError:
            self._marking.move(next_job=next_job)
            raise
        if rows:
            self._tip = (era, seq, last)
            self._marking.move(sync=sync, seq=seq, digest=last.hex(), next_job=next_job)

    def begin_era(self, era: Era) -> None:
        """Add an era, after those that there are."""
        if (stored := self.last_era()) is not None:
            era = msgspec.structs.replace(era, run=stored.era.run + 1, before=stored.first_seq)
        elif self._marking.now == Mark():
            self._marking.move(sync=True)  # first, lest a scheduler that is killed in between leave a log without one
        seq = self.last_seq()
        self._tip = (seq + 1, seq, seed(seq + 1))
        self.append([_bound(0.0, era)], era.first_job, sync=True)

    def end_era(self, next_job: int, past_use: dict[str, list[float]] | None = None, at_s: float = 0.0) -> None:
        """The scheduler ended in good order: nothing of its jobs is left; see ``Ended``."""
        self.append([_bound(at_s, Ended(next_job, past_use or {}))], next_job, sync=True)

    def take_over(self, rows: list[Any], snapshots: list[Any]) -> None:
        """Add what another log has, as it is."""
        self._transact(
            ("INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", rows),  # a damaged table may have one twice
            ("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?)", snapshots),
        )

    def _transact(self, *changes: tuple[str, Sequence[tuple[object, ...]]]) -> None:
        try:
            if not self._writes:
                self._base.close()
                self._base = self._open(self.path, read_only=False)
                self._writes = True
            self._base.execute("BEGIN IMMEDIATE")
            for statement, values in changes:
                self._base.executemany(statement, values)
            self._base.execute("COMMIT")
        except (sqlite3.Error, OverflowError) as error:  # OverflowError: a text is too long for SQLite
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            raise StoreError(0, str(error), str(self.path)) from None

    # reading --------------------------------------------------------------------------------------------------------

    def last_era(self) -> StoredEra | None:
        """Return the last era."""
        last = self.last_seq()
        if not last:
            return None
        return self._stored(self._ask("SELECT era FROM entries WHERE seq = ?", last)[0][0], last, self._ended_at(last))

    def eras(self) -> list[StoredEra]:
        """Return all eras, the first first."""
        found: list[StoredEra] = []
        stored = self.last_era()
        while stored is not None:
            found.insert(0, stored)
            before = stored.era.before  # it has ended, for another one follows
            stored = self._stored(before, stored.first_seq - 1, Ended(stored.era.first_job)) if before else None
        return found

    def _stored(self, first: int, last: int, end: Ended | None) -> StoredEra:
        """Return the era with these rows."""
        for seq, of, *content, check in self._ask("SELECT * FROM entries WHERE seq = ?", first):
            if is_linked(seed(first), seq, of, row := Row(*content), check):
                return StoredEra(_ERA.decode(row.facts)[0], first, last, end)
        raise DamagedError(f"{self.path} is damaged where it describes a run: in row {first}, or {last}")

    def _ended_at(self, seq: int) -> Ended | None:
        """Return what a row says of the end of its era; None if it is another one."""
        found = self._ask("SELECT * FROM entries WHERE seq IN (?, ?) ORDER BY seq", seq - 1, seq)
        try:
            (end,) = _ENDED.decode(found[-1][4])
        except (msgspec.DecodeError, IndexError, TypeError):
            return None
        number, era, *content, check = found[-1]
        if number != seq or not is_linked(found[0][-1], seq, era, Row(*content), check):
            raise DamagedError(f"row {seq} of {self.path} is damaged: it is not what was written")
        return end

    def rows(self, stored: StoredEra, after: int = 0, chain: bytes = b"") -> Iterator[tuple[int, Row]]:
        """Yield the rows between the bounds of an era, in order, each when it is seen to be sound.

        Args:
            stored: The era.
            after: Number of a row, before which none is wanted, or 0.
            chain: Digest of that row; empty: the one that is stored with it counts.

        Raises:
            DamagedError: A row is missing or not what was written; the text has its number.
        """
        seq, last_seq = max(after, stored.first_seq), stored.last_seq - (stored.end is not None)
        last = chain or self._digest_of(seq) or b""
        query = "SELECT * FROM entries WHERE seq > ? AND seq <= ? ORDER BY seq"
        try:
            for number, of, at_s, events, facts, effects, check in self._base.execute(query, (seq, last_seq)):
                seq += 1
                if number != seq:
                    raise DamagedError(f"row {seq} of {self.path} is missing")
                row = Row(at_s, events, facts, effects)
                if of != stored.first_seq or not is_linked(last, seq, of, row, check):
                    raise DamagedError(f"row {seq} of {self.path} is damaged: it is not what was written")
                last = check
                yield seq, row
        except sqlite3.Error as error:
            raise DamagedError(f"row {seq + 1} of {self.path} is damaged: {error}") from None
        if seq < last_seq:
            raise DamagedError(f"row {seq + 1} of {self.path} is missing: {last_seq} rows were written")

    def extent(self, stored: StoredEra) -> tuple[int, float]:
        """Return how many jobs an era had, and its last moment in seconds of its clock."""
        query = """
            SELECT (SELECT coalesce(sum(max(1, coalesce(json_array_length(value, '$.array'), 0))), 0)
                    FROM entries, json_each(facts) WHERE seq BETWEEN ? AND ? AND value->>'type' = 'requested'),
                   (SELECT coalesce(max(at_s), 0) FROM entries WHERE seq BETWEEN ? AND ?)"""
        span = (stored.first_seq, stored.last_seq)
        jobs, seconds = self._ask(query, *span, *span)[0]
        return int(jobs), float(seconds)

    def last_seq(self) -> int:
        """Return the number of the last row; 0 if there is none."""
        return int(self._ask("SELECT coalesce(max(seq), 0) FROM entries")[0][0])

    def snapshot(self, stored: StoredEra) -> Frozen | None:
        """Return the last snapshot of an era; None if there is none that is sound."""
        for row in self._ask("SELECT * FROM snapshots WHERE era = ?", stored.first_seq):
            if row[-1] == digest(*row[:-1]):
                return Frozen(*row[1:-1])
        return None

    def settle(self) -> None:
        """Have on the disk how far the log has come; the rows are there already."""
        self._marking.settle()

    def close(self) -> None:
        """Close the database; its write-ahead log is folded into it."""
        self._base.close()
        self._marking.close()
        if self._copy is not None:
            self._copy.cleanup()


def _bound(at_s: float, bound: Era | Ended) -> Row:
    """Return the first or the last row of an era."""
    return Row(at_s, "[]", msgspec.json.encode([bound]).decode())


def is_linked(last: bytes, seq: int, era: int, row: Row, check: object) -> bool:
    """Whether ``check`` is the digest of a row that follows the one with the digest ``last``."""
    try:
        return check == link(last, seq, era, row)
    except (AttributeError, TypeError, struct.error):  # a column has another type than was written
        return False
