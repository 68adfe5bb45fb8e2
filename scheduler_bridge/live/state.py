"""The state folder of a daemon: lock, endpoint, log of events and effects, marks of running jobs, history."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable
from io import FileIO
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec

from scheduler_bridge.core.effects import Effect
from scheduler_bridge.core.events import Event
from scheduler_bridge.live import marks
from scheduler_bridge.live.config import DaemonError
from scheduler_bridge.record import RunRecord, encode_record

CONTROL_SOCKET: Final = "control.sock"
ENDPOINT: Final = "endpoint.json"
EVENTS: Final = "events.jsonl"
HISTORY: Final = "history.json"
LOCK: Final = "lock"

_logger = logging.getLogger(__name__)

_MARKS = "marks"
_OUTPUT_NAME = re.compile(r"job-(\d+)\.(?:out|err)")


class StateFolder:
    """One daemon's folder, locked as long as it is open.

    Args:
        path: The folder; made with mode 0700 if it is not there.

    Raises:
        DaemonError: Another daemon serves it, or it cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._torn = self._incomplete = False
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _require_safe(self.path)
            self._lock = _lock(self.path / LOCK)
            (self.path / _MARKS).mkdir(mode=0o700, exist_ok=True)
            self._events = self._private(EVENTS)
        except OSError as error:
            raise DaemonError(
                f"cannot use the state folder {self.path}: {error.strerror}", "choose it with --state"
            ) from None
        self._end_forgotten_jobs()

    @property
    def control_socket(self) -> Path:
        """Where users reach the daemon."""
        return self.path / CONTROL_SOCKET

    def output(self, job_id: int) -> Path:
        """Standard output of a job."""
        return self.path / f"job-{job_id}.out"

    def errors(self, job_id: int) -> Path:
        """Standard error of a job."""
        return self.path / f"job-{job_id}.err"

    def next_job_id(self) -> int:
        """Return an id above all that left output here, so that a new run overwrites nothing."""
        ids = [int(match[1]) for entry in self.path.iterdir() if (match := _OUTPUT_NAME.fullmatch(entry.name))]
        return max(ids, default=0) + 1

    def log(self, now_s: float, event: Event, effects: Iterable[Effect]) -> None:
        """Append one event and the effects that it had."""
        entry = {"now_s": now_s, "event": _named(event), "effects": [_named(effect) for effect in effects]}
        self._append(msgspec.json.encode(entry))

    def begin(self, **about: Any) -> None:
        """Append the line that separates the runs in the log."""
        self._append(json.dumps({"began": about}).encode())

    def _append(self, entry: bytes) -> None:
        """Add a line to the log. It is there to be read later: that it cannot be written must not stop the jobs."""
        line = b"\n" * self._torn + entry + b"\n"
        try:
            self._torn = self._events.write(line) != len(line)
            problem = "the disk is full" if self._torn else ""
        except OSError as error:
            problem = error.strerror or str(error)
        if problem and not self._incomplete:
            _logger.error("%s is incomplete from now on: %s", self.path / EVENTS, problem)
        self._incomplete = self._incomplete or bool(problem)

    def publish(self, **endpoint: Any) -> None:
        """Write where the daemon is reached."""
        _replace(self.path / ENDPOINT, json.dumps(endpoint, indent=1).encode())

    def write_history(self, record: RunRecord) -> None:
        """Write the record of the run."""
        _replace(self.path / HISTORY, encode_record(record))

    def note_mark(self, mark: str) -> None:
        """Remember that processes with ``mark`` may exist."""
        (self.path / _MARKS / mark).touch(mode=0o600)

    def forget_mark(self, mark: str) -> None:
        """The processes with ``mark`` are gone."""
        (self.path / _MARKS / mark).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove what only a running daemon needs and release the lock."""
        self._events.close()
        for name in (CONTROL_SOCKET, ENDPOINT):
            (self.path / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # Not empty: a job's processes could not be ended; the next daemon tries.
            (self.path / _MARKS).rmdir()
        (self.path / LOCK).unlink(missing_ok=True)
        self._lock.close()

    def _private(self, name: str) -> FileIO:
        descriptor = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return FileIO(descriptor, "w")  # Unbuffered: what cannot be written is not tried again and again.

    def _end_forgotten_jobs(self) -> None:
        """End the jobs of a daemon that was killed: nobody else can, and nobody knows their nodes any more."""
        for entry in (self.path / _MARKS).iterdir():
            segments = marks.shared_segments(entry.name)
            if not marks.end_marked(entry.name, patience_s=0.0):
                marks.remove_segments(segments)
                shutil.rmtree(scratch_folder(entry.name), ignore_errors=True)
                entry.unlink(missing_ok=True)


def scratch_folder(mark: str) -> Path:
    """Temporary folder of the job with ``mark``; not in the state folder, so that paths of sockets in it are short."""
    return Path(tempfile.gettempdir()) / f"malleable-job-{mark}"


def _require_safe(folder: Path) -> None:
    """See that nobody else can put files into ``folder``. A folder that was there keeps its mode: it may be /tmp."""
    status = folder.stat()
    if status.st_uid != os.getuid():
        raise DaemonError(f"{folder} belongs to someone else", "give another folder with --state")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise DaemonError(f"others may write into {folder}", f"give a folder of your own: --state {folder}/malleable")


def _lock(path: Path) -> TextIO:
    while True:
        file = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise DaemonError(
                f"a scheduler (process {holder}) serves {path.parent} already",
                f"end it with: kill {holder}; or choose another folder with --state",
            ) from None
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                file.truncate(0)
                file.write(f"{os.getpid()}\n")
                file.flush()
                return file
        file.close()  # The previous holder removed the file between our open and our lock.


def _replace(path: Path, content: bytes) -> None:
    """Write ``path`` such that a reader sees the old or the new content, never a part."""
    partial = path.with_name(f".{path.name}.part")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None  # Writing names no file.


def _named(thing: Event | Effect) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(thing)
    return {"type": type(thing).__name__, **fields}
