"""The state folder of a daemon: lock, endpoint, notes about running jobs, history. The log is ``store``'s."""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import json
import logging
import os
import re
import secrets
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Final, TextIO

from scheduler_bridge.atomic_write import write_whole
from scheduler_bridge.daemon.config import DaemonError
from scheduler_bridge.jobrunner import processes
from scheduler_bridge.jobrunner.notes import Notes, keys
from scheduler_bridge.record import RunRecord, encode_record

CONTROL_SOCKET: Final = "control.sock"
ENDPOINT: Final = "endpoint.json"
HISTORY: Final = "history.json"
LOCK: Final = "lock"
RUNS: Final = "runs"
SECRET: Final = "secret"

_logger = logging.getLogger(__name__)
_BOOKS = "books-"
_RESTARTS = "restarts"
"""What ``apgas.launch --by-caller`` leaves there."""
_SECRET_BYTES = 32
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
        self.runs = self.path / RUNS
        self._published = False
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _require_safe(self.path)
            self._lock = _lock(self.path / LOCK)
            self.runs.mkdir(mode=0o700, exist_ok=True)
            self._secret = self._load_secret()
        except OSError as error:
            raise DaemonError(
                f"cannot use the state folder {self.path}: {error.strerror}", "choose it with --state"
            ) from None

    def output(self, job_id: int) -> Path:
        """Standard output of a job."""
        return self.path / f"job-{job_id}.out"

    def errors(self, job_id: int) -> Path:
        """Standard error of a job."""
        return self.path / f"job-{job_id}.err"

    def next_job_id(self) -> int:
        """Return an id above all that left output or notes here, so that no job is taken for another one."""
        ids = [int(match[1]) for entry in self.path.iterdir() if (match := _OUTPUT_NAME.fullmatch(entry.name))]
        ids += [int(job) for key in keys(self.runs) if (job := key.partition(".")[0]).isdecimal()]
        return max(ids, default=0) + 1

    def last_port(self) -> int:
        """Return the port at which jobs reached a daemon that was killed, and still try to; 0 if there was none."""
        try:
            return int(str(json.loads((self.path / ENDPOINT).read_bytes())["jobs"]).rpartition(":")[2])
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def publish(self, **endpoint: Any) -> None:
        """Write where the daemon is reached."""
        self._published = True
        write_whole(self.path / ENDPOINT, json.dumps(endpoint, indent=1).encode(), 0o600)

    def result(self, key: str) -> Path:
        """The file into which an attempt may write what it found out."""
        return self.path / f"result-{key}.json"

    def drop_result(self, key: str) -> None:
        """Remove that file: it is in the log, or of an attempt that is not; it may be a folder."""
        try:
            self.result(key).unlink(missing_ok=True)
        except OSError:
            shutil.rmtree(self.result(key), ignore_errors=True)

    def books(self, job_id: int) -> Path:
        """The folder where a job keeps what it goes on with if it is started again; the job makes it."""
        return self.path / f"{_BOOKS}{job_id}"

    def goes_on(self, job_id: int) -> bool:
        """Whether a job's launcher has ended such that the job goes on if it is started again."""
        return (self.books(job_id) / _RESTARTS).is_file()

    def has_books(self, job_id: int) -> bool:
        """Whether a job has kept what it needs to go on."""
        return any(path.name.isdecimal() for path in self.books(job_id).glob("*"))

    def drop_books(self, job_id: int) -> None:
        """Remove that folder: the job is over."""
        shutil.rmtree(self.books(job_id), ignore_errors=True)

    def drop_other_books(self, jobs: Collection[int]) -> None:
        """Remove those of all jobs but these: a scheduler was killed, or a job was cancelled while it waited again."""
        kept = {self.books(job_id) for job_id in jobs}
        for folder in self.path.glob(f"{_BOOKS}*"):
            if folder not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def write_history(self, record: RunRecord) -> None:
        """Write the record of the run."""
        write_whole(self.path / HISTORY, encode_record(record), 0o600)

    def close(self) -> None:
        """Remove what only a running daemon needs and release the lock."""
        (self.path / CONTROL_SOCKET).unlink(missing_ok=True)
        if self._published:  # Else it is a killed daemon's, whose jobs still look for the next one there.
            (self.path / ENDPOINT).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # Not empty: a job's end could not be logged; the next daemon does it.
            self.runs.rmdir()
            (self.path / SECRET).unlink(missing_ok=True)
        (self.path / LOCK).unlink(missing_ok=True)
        self._lock.close()

    def leave(self) -> None:
        """Let the next daemon take over what runs; this one is about to end without a further word."""
        (self.path / CONTROL_SOCKET).unlink(missing_ok=True)
        (self.path / LOCK).unlink(missing_ok=True)

    # attempts to run jobs -------------------------------------------------------------------------------------------

    def notes(self, key: str) -> Notes:
        """The notes of the runner of an attempt."""
        return Notes(self.runs, key)

    def token(self, key: str) -> str:
        """The secret that an attempt's processes prove themselves with."""
        return self._derive("token", key)

    def mark(self, key: str) -> str:
        """What the processes of an attempt carry in their environment."""
        return self._derive("mark", key)[:32]

    def settle_strangers(
        self, known: Iterable[str], has_end: Callable[[str], bool], *, end: bool
    ) -> tuple[set[str], dict[str, set[str]]]:
        """See to attempts other than the ``known`` ones; each is named, unless it is over and the log has its end.

        What runs of them may be the work of a user: it goes on, unless it is to ``end``.

        Args:
            known: What goes on by the log.
            has_end: Whether the log has the end of an attempt; its claim is kept for a while after that.
            end: Whether what runs is ended.

        Returns:
            The keys of those that are over, and the nodes of the others by key; none, if they cannot be found out.
        """
        over, running = set(), {}
        for key in sorted(keys(self.runs) - set(known)):
            runs = self.processes_of(key)
            if runs and self.notes(key).ended is None and not end:
                nodes = running[key] = processes.nodes_of(self.mark(key))
                uses = f"jobs get no {', '.join(sorted(nodes))} meanwhile" if nodes else "uses nodes that jobs may get"
                _logger.error(
                    "attempt %s runs (processes %s), and the log does not know of it: it goes on, and %s; "
                    "malleable serve --end-unknown ends it",
                    key, ", ".join(map(str, runs[:5])) + (" ..." if len(runs) > 5 else ""),
                    uses,
                )  # fmt: skip
                continue
            if runs or not has_end(key):
                _logger.error("attempt %s, of which the log does not know, %s", key, "is ended" if runs else "is over")
            self.end_stranger(key)
            over.add(key)
        return over, running

    def processes_of(self, key: str) -> list[int]:
        """Return the processes that there are of an attempt, its runner first."""
        who = self.notes(key).claimed
        runner = [int(who.partition(".")[0])] if processes.lives(who) else []
        return runner + processes.marked_processes(self.mark(key))

    def end_stranger(self, key: str) -> None:
        """End what there is of an attempt; the next one may have the same name."""
        processes.send(self.notes(key).claimed, signal.SIGKILL)
        self.end_remains(key)
        self.drop_result(key)

    def end_remains(self, key: str) -> list[int]:
        """End the processes of an attempt that has no runner; return those that could not be ended."""
        mark = self.mark(key)
        left = processes.end_marked(mark, patience_s=0.0)
        shutil.rmtree(scratch_folder(mark), ignore_errors=True)
        return left

    def _derive(self, purpose: str, key: str) -> str:
        return hmac.digest(self._secret, f"{purpose} {key}".encode(), "sha256").hex()

    def _load_secret(self) -> bytes:
        path = self.path / SECRET
        with contextlib.suppress(FileNotFoundError):  # the first start here
            if len(secret := path.read_bytes()) == _SECRET_BYTES:
                return secret
        secret = secrets.token_bytes(_SECRET_BYTES)
        write_whole(path, secret, 0o600)
        return secret


def scratch_folder(mark: str) -> Path:
    """Temporary folder of the job with ``mark``; not in the state folder, so that paths of sockets in it are short."""
    return Path(tempfile.gettempdir()) / f"malleable-job-{mark}"


def _require_safe(folder: Path) -> None:
    """See that no other user can put files into ``folder``. A folder that was there keeps its mode: it may be /tmp."""
    status = folder.stat()
    if status.st_uid != os.getuid():
        raise DaemonError(f"{folder} belongs to someone else", "give another folder with --state")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise DaemonError(f"others may write into {folder}", f"give a folder of your own: --state {folder}/malleable")


def _lock(path: Path) -> TextIO:
    while True:
        # who may open it could hold it, and no scheduler would start
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "a+", encoding="utf-8")
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
        with contextlib.suppress(FileNotFoundError):  # removed by the one who held it: tried again below
            if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                file.truncate(0)
                file.write(f"{os.getpid()}\n")
                file.flush()
                return file
        file.close()  # The previous holder removed the file between our open and our lock.
