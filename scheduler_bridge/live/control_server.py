"""The server that users talk to: a Unix socket in the state folder, which only its owner can enter."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, assert_never

import msgspec

from scheduler_bridge.core import Explanation
from scheduler_bridge.live.allowance import Allowance
from scheduler_bridge.live.client import bind_in
from scheduler_bridge.live.config import Limits
from scheduler_bridge.live.listener import Listener
from scheduler_bridge.live.requests import (
    CONTROL_VERSION,
    REQUESTS,
    AnyReply,
    AnyRequest,
    Cancel,
    ChangeNode,
    Done,
    Explain,
    Explained,
    Failure,
    Hold,
    JobRequest,
    Kept,
    LimitUsers,
    Manage,
    Prioritise,
    Recorded,
    Report,
    ReservationStatus,
    Reserve,
    Resize,
    Shutdown,
    Snapshot,
    Status,
    Submit,
    SubmitError,
    Submitted,
    Unreserve,
    Use,
)
from scheduler_bridge.policies import UnknownPolicyError
from scheduler_bridge.record import RunRecord

_logger = logging.getLogger(__name__)

MAX_REQUEST_BYTES: Final = 256 * 1024
_IDLE_S = 30.0
_CONNECTIONS = 256
_LINGER_S = 1.0
_CREDENTIALS = struct.Struct("3i")  # ucred: pid, uid, gid


class Controlled(Protocol):
    """What users may ask of a daemon."""

    def submit_array(self, request: JobRequest, array: Sequence[int]) -> list[int]:
        """Queue a job, or one for each number of ``array``; raises ``SubmitError``."""

    def cancel(self, job_id: int) -> None:
        """End a job; raises ``KeyError`` if there is none, ``ValueError`` if it has ended."""

    def resize(self, job_id: int, delta: int) -> int:
        """Have a job resized; return the change ordered; raises ``KeyError`` or ``ValueError``."""

    def manage(self, request: Manage) -> str:
        """Carry out what an operator wants; say what was done; raises ``ValueError`` if that cannot be."""

    def reserve(self, request: Reserve) -> ReservationStatus:
        """Keep nodes for a time to come; raises ``ValueError`` if that cannot be."""

    def explain(self, job_id: int) -> Explanation:
        """Say why a job is where it is; raises ``KeyError``."""

    def snapshot(self) -> Snapshot:
        """Say what runs and waits."""

    def record(self) -> RunRecord:
        """Give the record of the run so far."""

    async def durable(self) -> None:
        """Wait until everything so far outlasts the daemon."""

    def request_stop(self) -> None:
        """Begin to end."""


class ControlServer:
    """Answers requests, one line each, in order.

    Args:
        target: Whom the requests concern.
        limits: What one connection may cost.
    """

    def __init__(self, target: Controlled, limits: Limits) -> None:
        self._target = target
        self._limits = limits
        self._listener = Listener(self._serve, _CONNECTIONS)

    async def start(self, folder: Path) -> None:
        """Listen in ``folder``."""
        bound = socket.socket(socket.AF_UNIX)
        try:
            bind_in(folder, bound)
            await self._listener.start_near(bound, MAX_REQUEST_BYTES)
        except BaseException:
            bound.close()
            raise

    async def stop(self) -> None:
        """Close every connection and the listening socket."""
        await self._listener.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if _user_of(writer) not in (os.getuid(), 0):  # The folder keeps others out; this holds if it is opened.
                await _finish(reader, writer, Failure(reason="this scheduler belongs to another user"))
            else:
                await self._converse(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            _logger.debug("a user's connection ended: %r", error)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        allowance = Allowance(self._limits.burst_requests, self._limits.requests_per_s, loop.time())
        while True:
            try:
                async with asyncio.timeout(_IDLE_S):
                    line = await reader.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                too_long = Failure(reason=f"a request may have at most {MAX_REQUEST_BYTES} bytes")
                return await _finish(reader, writer, too_long)
            if not allowance.take(loop.time()):
                flood = Failure(reason=f"more than {self._limits.requests_per_s:g} requests a second")
                return await _finish(reader, writer, flood)
            reply = self._reply(line)
            await self._target.durable()  # What is answered holds, whatever happens next.
            writer.write(_encode(reply))
            async with asyncio.timeout(_IDLE_S):
                await writer.drain()

    def _reply(self, line: bytes) -> AnyReply:
        try:
            request = REQUESTS.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return Failure(reason=f"not a request: {error}")
        if request.version != CONTROL_VERSION:
            return Failure(
                reason=f"control protocol {request.version} is not spoken here, only {CONTROL_VERSION}",
                hint="use the malleable command of the scheduler's own installation",
            )
        return self._carry_out(request)

    def _carry_out(self, request: AnyRequest) -> AnyReply:
        match request:
            case Submit(job=job, array=array):
                try:
                    ids = self._target.submit_array(job, array)
                    return Submitted(job=ids[0], jobs=tuple(ids) if array else ())
                except SubmitError as error:
                    return Failure(reason=str(error), field=error.field, why=error.why, hint=error.hint)
            case Status():
                return self._target.snapshot()
            case Cancel() | Resize() | Explain():
                return self._concern(request)
            case Use() | Hold() | Prioritise() | ChangeNode() | LimitUsers() | Unreserve():
                return self._manage(request)
            case Reserve():
                try:
                    return Kept(reservation=self._target.reserve(request))
                except ValueError as error:
                    return Failure(reason=f"nothing is reserved: {error}")
            case Report():
                return Recorded(record=msgspec.Raw(msgspec.json.encode(self._target.record())))
            case Shutdown():
                self._target.request_stop()
                return Done(text="the scheduler ends")
            case _:
                assert_never(request)

    def _manage(self, request: Manage) -> AnyReply:
        try:
            return Done(text=self._target.manage(request))
        except UnknownPolicyError as error:
            return Failure(reason=str(error), hint="malleable policies describes them")
        except KeyError as error:
            return Failure(reason=f"there is no job {error.args[0]}", hint="malleable queue lists the jobs")
        except (ValueError, TypeError) as error:
            return Failure(reason=str(error))

    def _concern(self, request: Cancel | Resize | Explain) -> AnyReply:
        """Carry out what is about one job."""
        try:
            if isinstance(request, Explain):
                return Explained(explanation=self._target.explain(request.job))
            if isinstance(request, Cancel):
                self._target.cancel(request.job)
                return Done(text=f"job {request.job} is being ended")
            ordered = self._target.resize(request.job, request.delta)
            return Done(text=f"job {request.job} is told to {'grow' if ordered > 0 else 'shrink'} by {abs(ordered)}")
        except KeyError:
            return Failure(reason=f"there is no job {request.job}", hint="malleable queue lists the jobs")
        except ValueError as error:
            return Failure(reason=str(error))


def _encode(reply: AnyReply) -> bytes:
    return msgspec.json.encode(reply) + b"\n"


async def _finish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, last: Failure) -> None:
    """Say ``last`` such that the peer can read it: closing with unread input would destroy it."""
    writer.write(_encode(last))
    async with asyncio.timeout(_IDLE_S):
        await writer.drain()
    writer.write_eof()
    with contextlib.suppress(TimeoutError):  # it has had its time
        async with asyncio.timeout(_LINGER_S):
            while await reader.read(MAX_REQUEST_BYTES):
                pass


def _user_of(writer: asyncio.StreamWriter) -> int:
    """Return the user id of the peer, as the kernel noted it when it connected."""
    peer = writer.get_extra_info("socket")
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])
