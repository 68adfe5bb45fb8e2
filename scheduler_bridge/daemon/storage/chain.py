"""Shows that the log is whole: digests chained from row to row, and a mark outside of the database.

A digest finds each row that was changed, and each that is missing between others. Of rows that are missing at the end,
as in a database whose write-ahead log was cut off, the database itself knows nothing; so the last row's number and
digest are in a file of their own, the mark. It is written after the rows, and so is never ahead of them.
"""

from __future__ import annotations

import logging
import os
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Final

import msgspec

from scheduler_bridge.daemon.config import DaemonError
from scheduler_bridge.daemon.storage.log_entries import Row

MARK: Final = "scheduler.mark"

_logger = logging.getLogger(__name__)
_DIGEST_BYTES: Final = 16
_HEAD: Final = Struct("<qqdqqq")
_MARK_BYTES: Final = 256


class DamagedError(DaemonError):
    """The log is not what was written; the text says where."""

    def __init__(self, what: str) -> None:
        super().__init__(
            what,
            "malleable serve --salvage starts from the last sound row, and lists what may be lost; it keeps the rest",
        )


def seed(era: int) -> bytes:
    """Return what the first row of an era, which has this number, is chained to."""
    return digest("era", era)


def link(previous: bytes, seq: int, era: int, row: Row) -> bytes:
    """Return the digest of a row that follows the one with the digest ``previous``."""
    events, facts, effects = row.events.encode(), row.facts.encode(), row.effects.encode()
    head = _HEAD.pack(seq, era, row.at_s, len(events), len(facts), len(effects))
    return blake2b(b"".join((previous, head, events, facts, effects)), digest_size=_DIGEST_BYTES).digest()


def digest(*values: object) -> bytes:
    """Return the digest of some values: bytes as they are, others as Python writes them."""
    made = blake2b(digest_size=_DIGEST_BYTES)
    for value in values:
        content = value if isinstance(value, bytes) else repr(value).encode()
        made.update(f"{type(value).__name__} {len(content)} ".encode())
        made.update(content)
    return made.digest()


class Mark(msgspec.Struct, frozen=True):
    """How far the log had come.

    Attributes:
        seq: Number of the last row; 0: there is none.
        digest: Digest of that row, in hexadecimal.
        next_job: Least id that no job was ever given, also none that the log lacks.
    """

    seq: int = 0
    digest: str = ""
    next_job: int = 1


def read_mark(folder: Path) -> Mark | None:
    """Return the mark of a state folder; None if there is none.

    Raises:
        DamagedError: It is not what was written.
    """
    path = folder / MARK
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror}") from None
    check, _, text = content.rstrip(b" \n").partition(b" ")
    if len(content) != _MARK_BYTES or check.decode(errors="replace") != digest(text).hex():
        raise DamagedError(f"{path} is damaged: so it cannot be seen whether the log is whole")
    return msgspec.json.decode(text, type=Mark)


class MarkFile:
    """The mark of a log that is being written.

    Args:
        folder: The state folder; None: the log is in memory, and so is the mark.
        mark: What the file says; None: there is none yet.
    """

    def __init__(self, folder: Path | None, mark: Mark | None) -> None:
        self.now = mark or Mark()
        self._path = folder / MARK if folder is not None else None
        self._file = -1  # opened when it is written: those who only look may not
        self._synced = True
        self._failed = False

    def move(self, *, sync: bool = False, **changes: int | str) -> None:
        """Write what has changed; ``sync``: wait until it is on the disk.

        The log has what the mark is about, so an error is said and keeps nothing from being written.
        """
        self.now = msgspec.structs.replace(self.now, **changes)
        if self._path is None:
            return
        text = msgspec.json.encode(self.now)
        content = (digest(text).hex().encode() + b" " + text).ljust(_MARK_BYTES - 1) + b"\n"
        try:
            if self._file < 0:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(self._file, content, 0)
            self._synced = self._failed = False
        except OSError as error:
            self._fail(error)
        if sync:
            self.settle()

    def settle(self) -> None:
        """Have on the disk what was written."""
        if self._synced:
            return
        try:
            os.fdatasync(self._file)
            self._synced = True
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        if not self._failed:
            _logger.error("%s cannot be written: %s", self._path, error.strerror)
        self._failed = True

    def close(self) -> None:
        """Write nothing more."""
        self.settle()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
