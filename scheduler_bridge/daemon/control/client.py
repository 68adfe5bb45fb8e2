"""A user's side of the control protocol: one request, one answer, over the socket in the state folder."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from scheduler_bridge.core import Explanation, ReservationStatus, Snapshot
from scheduler_bridge.daemon import requests
from scheduler_bridge.daemon.config import HintedError
from scheduler_bridge.daemon.control.access import Door, peer_of
from scheduler_bridge.daemon.requests import JobRequest, SubmitError
from scheduler_bridge.daemon.storage.state import CONTROL_SOCKET, ENDPOINT, LOCK
from scheduler_bridge.record import RunRecord, decode_record

_LOOK_AGAIN_S = 0.02

_T = TypeVar("_T", bound=requests.AnyReply)


class ControlError(HintedError):
    """The daemon cannot be reached or did not do what was asked; ``hint`` says what to do."""


class RefusedError(ControlError):
    """The daemon did not do what was asked."""


class ControlClient:
    """Talks to a daemon.

    Every method raises ``ControlError`` if there is no daemon or no answer, or if what is asked for cannot be done:
    there is no such job or policy, a value is wrong, or the daemon does not end in time.

    Args:
        where: The daemon's state folder, or one of its doors.
        timeout_s: Time for one answer.
    """

    def __init__(self, where: Path | Door, timeout_s: float = 10.0) -> None:
        self._where = where
        self._timeout_s = timeout_s

    def submit(self, job: JobRequest) -> int:
        """Submit a job; return its id.

        Raises:
            SubmitError: The daemon does not take it.
        """
        return self._ask(requests.Submit(job=job), requests.Submitted).job

    def submit_array(self, job: JobRequest, numbers: Sequence[int]) -> list[int]:
        """Submit a job for each of ``numbers``, all of them or none; return their ids.

        Raises:
            SubmitError: The daemon does not take them.
        """
        return list(self._ask(requests.Submit(job=job, array=tuple(numbers)), requests.Submitted).jobs)

    def snapshot(self) -> Snapshot:
        """Return what runs and waits."""
        return self._ask(requests.Status(), Snapshot)

    def cancel(self, job_id: int) -> None:
        """End a job, waiting or running."""
        self._ask(requests.Cancel(job=job_id), requests.Done)

    def resize(self, job_id: int, delta: int) -> str:
        """Have a malleable job grow (positive ``delta``) or shrink; return the order that it gets."""
        return self._ask(requests.Resize(job=job_id, delta=delta), requests.Done).text

    def use(self, policy: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Let another policy decide from now on."""
        self.manage(requests.Use(policy=policy, parameters=dict(parameters or {})))

    def manage(self, request: requests.Manage) -> str:
        """Have something done that only a scheduler can do; return what was done."""
        return self._ask(request, requests.Done).text

    def reserve(self, request: requests.Reserve) -> ReservationStatus:
        """Have nodes kept for a time to come."""
        return self._ask(request, requests.Kept).reservation

    def explain(self, job_id: int) -> Explanation:
        """Return why a job is where it is, and how that came about."""
        return self._ask(requests.Explain(job=job_id), requests.Explained).explanation

    def record(self) -> RunRecord:
        """Return the record of the run so far."""
        return decode_record(bytes(self._ask(requests.GetRecord(), requests.Recorded).record))

    def shutdown(self, *, keep_jobs: bool = False) -> None:
        """End the daemon and, unless ``keep_jobs``, all jobs; returns when its folder is free for another one."""
        held = self._lock()
        self._ask(requests.Shutdown(keep_jobs=keep_jobs), requests.Done)
        until_s = time.monotonic() + self._timeout_s
        while held is not None and self._lock() == held:
            if time.monotonic() > until_s:
                raise ControlError(f"the scheduler at {self._where} is still ending", "malleable queue shows why")
            time.sleep(_LOOK_AGAIN_S)

    def _lock(self) -> int | None:
        """Return what distinguishes one holder's lock from the next one's, None if the folder is not held."""
        if isinstance(self._where, Door):
            return None
        try:
            return (self._where / LOCK).stat().st_ino
        except OSError:
            return None

    def _ask(self, request: requests.AnyRequest, expected: type[_T]) -> _T:
        reply = self._exchange(request)
        if isinstance(reply, requests.Failure):
            if isinstance(request, requests.Submit):
                raise SubmitError(reply.reason, field=reply.field, why=reply.why, hint=reply.hint)
            raise RefusedError(reply.reason, reply.hint)
        if not isinstance(reply, expected):
            raise ControlError(f"the scheduler answered a {type(request).__name__} with a {type(reply).__name__}")
        if isinstance(reply, requests.Done) and reply.log_behind:
            said = "the log cannot be written (%s): if the scheduler is killed now, this is lost"
            logging.getLogger(__name__).warning(said, reply.log_behind)
        return reply

    def _exchange(self, request: requests.AnyRequest) -> requests.AnyReply:
        try:
            words = msgspec.json.encode(request) + b"\n"
        except UnicodeEncodeError as error:  # The bytes of a file name or an argument may be anything.
            raise SubmitError(f"{error.object!r} is not UTF-8 text", why="a job is described in UTF-8") from None
        try:
            with self._connected() as connection:
                connection.sendall(words)
                with connection.makefile("rb") as lines:
                    line = lines.readline()
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            where, option = self._where, "--door" if isinstance(self._where, Door) else "--state"
            hint = f"start one with: malleable serve --nodes 4 {option} {where}"
            if isinstance(where, Path) and (where / ENDPOINT).exists():  # jobs on nodes that are not given would end
                hint = f"its run goes on: start it again with the nodes it had: malleable serve --state {where} ..."
            raise ControlError(f"no scheduler serves {where}", hint) from None
        except OSError as error:
            raise ControlError(f"the scheduler at {self._where} does not answer: {error}") from None
        if not line:
            raise ControlError(f"the scheduler at {self._where} ended before it answered")
        try:
            reply: requests.AnyReply = requests.REPLIES.decode(line)
        except msgspec.DecodeError as error:
            raise ControlError(
                f"the scheduler's answer cannot be read: {error}", "do both have the same version?"
            ) from None
        return reply

    def _connected(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(self._timeout_s)
        try:
            if isinstance(self._where, Door):
                connection.connect(str(self._where.path))
            else:
                connect_in(self._where, connection)
                # a user who makes the folder first could else have the jobs of others, with what these may do and know
                if (uid := peer_of(connection)) != os.geteuid() != 0:
                    raise ControlError(
                        f"user {uid} serves {self._where}, not you",
                        "choose another folder with --state, or a door: unix:PATH",
                    )
        except BaseException:
            connection.close()
            raise
        return connection


def connect_in(folder: Path, connection: socket.socket) -> None:
    """Connect to the control socket in ``folder``, however long its path (108 bytes is the limit)."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{descriptor}/{CONTROL_SOCKET}")
    finally:
        os.close(descriptor)


def bind_in(folder: Path, listener: socket.socket) -> None:
    """Bind ``listener`` to the control socket in ``folder``, replacing one that a killed daemon left."""
    (folder / CONTROL_SOCKET).unlink(missing_ok=True)
    os.fchmod(listener.fileno(), 0o600)  # Before it has a name, so that no other user can ever connect.
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{descriptor}/{CONTROL_SOCKET}")
    finally:
        os.close(descriptor)
