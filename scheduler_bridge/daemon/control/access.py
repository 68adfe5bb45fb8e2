"""Who may come in and do what: the sockets by which users call, who calls there, and what each may ask for.

A call is by a Unix socket, and the kernel says who is at its other end. Over a network users come by ssh or Slurm,
which prove who they are, and encrypt what they say.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import socket
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeAlias, assert_never

import msgspec

from scheduler_bridge.daemon import requests
from scheduler_bridge.daemon.admission import JobFacts
from scheduler_bridge.daemon.config import DaemonError, HintedError
from scheduler_bridge.daemon.listener import Listener

_CREDENTIALS: Final = struct.Struct("3i")
"""ucred: pid, uid, gid."""


Known: TypeAlias = Callable[[int], JobFacts | None]
"""What is known of a job that waits or runs; None: there is no such job."""


class NotPermittedError(HintedError):
    """A caller may not ask for that; ``hint`` says who may."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Attributes:
        name: Of the user, as jobs are kept for it.
        operator: Whether everything may be asked for.
    """

    name: str
    operator: bool = False


def permitted(request: requests.AnyRequest, caller: Caller, known: Known) -> requests.AnyRequest:
    """Return what ``caller`` asks for by ``request``: jobs and holds are the caller's, unless an operator says whose.

    Raises:
        NotPermittedError: It is not for this caller.
    """
    if caller.operator:
        return _by_operator(request, caller, known)
    match request:
        case requests.Submit(job=wanted):
            if wanted.user not in ("", caller.name):
                raise NotPermittedError(f"{caller.name} submits no jobs for {wanted.user}", "only an operator can")
            _check_priority(wanted.priority)
            return _by(request, caller)
        case requests.Status() | requests.Explain():
            return request
        case requests.Cancel() | requests.Resize() | requests.Hold() | requests.Prioritise():
            job = known(request.job)
            if job is not None and (owner := job.request.user) != caller.name:
                raise NotPermittedError(f"job {request.job} is not {caller.name}'s", f"{owner} or an operator may")
            if isinstance(request, requests.Prioritise):
                _check_priority(request.priority)
            return _as_user(request, job) if isinstance(request, requests.Hold) else request
        case (
            requests.Use() | requests.ChangeNode() | requests.LimitUsers() | requests.Reserve() | requests.Unreserve()
            | requests.GetRecord() | requests.Shutdown()
        ):  # fmt: skip
            raise NotPermittedError(f"{caller.name} is no operator of this scheduler", "ask one")
        case _:
            assert_never(request)


def _by_operator(request: requests.AnyRequest, caller: Caller, known: Known) -> requests.AnyRequest:
    match request:
        case requests.Submit() if not request.job.user:
            return _by(request, caller)
        case requests.Hold(held=True) if (job := known(request.job)) is not None and job.request.user == caller.name:
            return msgspec.structs.replace(request, as_user=True)
        case _:
            return request


def _as_user(request: requests.Hold, job: JobFacts | None) -> requests.Hold:
    """What a user asks for whose job it is: as in Slurm, an operator's hold is not hers to release."""
    if not request.held and job is not None and job.held_by == "operator":
        raise NotPermittedError(f"job {request.job} is not released: an operator holds it", "ask one to release it")
    return msgspec.structs.replace(request, as_user=True)


def _by(request: requests.Submit, caller: Caller) -> requests.Submit:
    return msgspec.structs.replace(request, job=msgspec.structs.replace(request.job, user=caller.name))


def _check_priority(priority: int) -> None:
    if priority > 0:
        raise NotPermittedError(f"priority {priority} is above that of others", "a user can give 0 or less")


# Sockets for users who are not the scheduler's own --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Door:
    """Where all users of the machine can reach a scheduler; the control socket in its folder is for its own user.

    Attributes:
        path: Of the Unix socket.
    """

    path: Path

    @staticmethod
    def is_meant(text: str) -> bool:
        """Whether a text is to name a door, rather than a folder."""
        return text.startswith(("unix:", "tcp:"))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``unix:PATH``.

        Raises:
            DaemonError: It is something else.
        """
        kind, _, rest = text.partition(":")
        if kind == "tcp":
            raise DaemonError(
                f"{text} is not a door: a scheduler takes no users by TCP",
                "give unix:PATH; from other machines: ssh HOST malleable queue --state unix:PATH",
            )
        if kind != "unix" or not rest:
            raise DaemonError(f"{text} is not a door", "give unix:PATH")
        return cls(Path(rest).absolute())

    def __str__(self) -> str:
        return f"unix:{self.path}"

    async def open(self, listener: Listener, limit_bytes: int) -> None:
        """Have a socket that callers can be let in by; one that a killed scheduler left is replaced.

        Raises:
            DaemonError: It cannot be had.
        """
        try:
            folder = self.path.parent.stat()
            if folder.st_uid not in (os.geteuid(), 0) or (folder.st_mode & 0o022 and not folder.st_mode & stat.S_ISVTX):
                raise OSError(
                    0, "other users could put a door of their own in its place, for they may write into its folder"
                )
            if self.path.exists():
                if not stat.S_ISSOCK(self.path.stat().st_mode) or not self._is_left():
                    raise OSError(0, "it is there already")
                self.path.unlink()
            with contextlib.ExitStack() as undo:
                bound = socket.socket(socket.AF_UNIX)
                undo.callback(bound.close)
                bound.bind(str(self.path))
                undo.callback(self.remove)
                self.path.chmod(0o666)  # every user may call, the kernel says who it is
                await listener.start_unix(bound, limit_bytes)
                undo.pop_all()
        except OSError as error:
            raise DaemonError(f"cannot listen at {self}: {error.strerror or error}", "choose another --door") from None

    def remove(self) -> None:
        """Leave nothing behind."""
        self.path.unlink(missing_ok=True)

    def _is_left(self) -> bool:
        """Whether no process listens at the socket: a killed scheduler left it."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)  # a full queue of callers has a listener
            try:
                probe.connect(str(self.path))
            except ConnectionRefusedError:
                return True
            except OSError:
                return False
            return False


# Who calls ------------------------------------------------------------------------------------------------------------

Know: TypeAlias = Callable[[asyncio.StreamWriter], Caller | requests.Failure]
"""Finds out who calls, or what to say to one who is not let in."""


def peer_of(connection: socket.socket) -> int:
    """The user at the other end of a Unix socket, as the kernel noted it when that connected, or began to listen."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])


def any_user(writer: asyncio.StreamWriter) -> Caller:
    """The user at the other end of a Unix socket, as the kernel noted it when it connected."""
    peer = writer.get_extra_info("socket")
    uid = peer_of(peer)
    name = f"uid{uid}"
    with contextlib.suppress(KeyError):  # it has no name, as in some containers
        name = pwd.getpwuid(uid).pw_name
    return Caller(name, operator=uid in (os.getuid(), 0))


def owner_only(writer: asyncio.StreamWriter) -> Caller | requests.Failure:
    """The same at the control socket, where only the scheduler's user and root are let in, as by its folder."""
    caller = any_user(writer)
    return caller if caller.operator else requests.Failure(reason="this scheduler belongs to another user")
