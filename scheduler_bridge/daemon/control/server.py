"""The server that users talk to: at a socket in the state folder, which its owner alone can enter, and at doors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, assert_never

import msgspec

from scheduler_bridge.core import Explanation
from scheduler_bridge.daemon.config import Limits
from scheduler_bridge.daemon.control import access
from scheduler_bridge.daemon.control.access import Caller, Door, Know, NotPermittedError, Standing, permitted
from scheduler_bridge.daemon.control.client import bind_in
from scheduler_bridge.daemon.control.submission import log_error
from scheduler_bridge.daemon.listener import Allowance, Listener
from scheduler_bridge.daemon.requests import (
    CONTROL_VERSION,
    REQUEST_MOST_BYTES,
    REQUESTS,
    AnyReply,
    AnyRequest,
    Cancel,
    ChangeNode,
    Done,
    Explain,
    Explained,
    Failure,
    GetRecord,
    Hold,
    JobRequest,
    Kept,
    LimitUsers,
    Manage,
    Prioritise,
    Recorded,
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

_IDLE_S = 30.0
_CONNECTIONS = 256
_LINGER_S = 1.0


class Scheduler(Protocol):
    """What users may ask of a scheduler."""

    def cancel(self, job_id: int) -> None:
        """End a job; raises ``KeyError`` if there is none, ``ValueError`` if it has ended."""

    def resize(self, job_id: int, delta: int) -> int:
        """Have a job resized; return the change ordered; raises ``KeyError`` or ``ValueError``."""

    def explain(self, job_id: int) -> Explanation:
        """Say why a job is where it is; raises ``KeyError``."""

    def snapshot(self) -> Snapshot:
        """Say what runs and waits."""

    def record(self) -> RunRecord:
        """Give the record of the run so far."""

    def standing(self, job_id: int) -> Standing | None:
        """Say whose a job is that waits or runs, and who holds it back; None if there is no such job."""

    def request_stop(self) -> None:
        """Begin to end."""

    def submit_array(self, request: JobRequest, array: Sequence[int]) -> list[int]:
        """Queue a job, or one for each number of ``array``; raises ``SubmitError``."""

    def manage(self, request: Manage) -> str:
        """Carry out what an operator wants; say what was done; raises ``ValueError`` if that cannot be."""

    def reserve(self, request: Reserve) -> ReservationStatus:
        """Keep nodes for a time to come; raises ``ValueError`` if that cannot be."""

    def leave_jobs(self) -> None:
        """Begin to end alone; raises ``ValueError`` if that cannot be."""

    def retract(self, reply: Submitted | Kept) -> None:
        """Undo what was taken but could not be written."""

    async def durable(self) -> str:
        """Wait until everything so far outlasts the daemon; return why it does not, empty if it does."""


class ControlServer:
    """Answers requests, one line each, in order.

    Args:
        scheduler: What the requests are about.
        limits: What one connection may cost.
        doors: Where users come in who are not the scheduler's own.
        one_program: Whether it runs one program, which users may look at, resize and end; there is nothing to schedule.
    """

    def __init__(
        self, scheduler: Scheduler, limits: Limits, doors: Sequence[Door] = (), *, one_program: bool = False
    ) -> None:
        self._scheduler = scheduler
        self._one_program = one_program
        self._limits = limits
        self._wanted = doors
        self._listeners: list[Listener] = []
        self.doors: list[Door] = []

    async def start(self, folder: Path) -> None:
        """Have a socket in ``folder``, and the doors; no caller is let in before ``serve``.

        Raises:
            DaemonError: A door cannot be opened.
        """
        bound = socket.socket(socket.AF_UNIX)
        try:
            bind_in(folder, bound)
            await self._listener(access.owner_only).start_unix(bound, REQUEST_MOST_BYTES)
        except BaseException:
            bound.close()
            raise
        for door in self._wanted:
            await door.open(self._listener(access.any_user), REQUEST_MOST_BYTES)
            self.doors.append(door)

    async def serve(self) -> None:
        """Let callers in."""
        for listener in self._listeners:
            await listener.serve()

    def _listener(self, know: Know) -> Listener:
        self._listeners.append(Listener(partial(self._serve, know), _CONNECTIONS))
        return self._listeners[-1]

    async def stop(self) -> None:
        """Close every connection and the listening sockets. Idempotent."""
        for listener in self._listeners:
            await listener.stop()
        while self.doors:
            self.doors.pop().remove()

    async def _serve(self, know: Know, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            caller = know(writer)
            if isinstance(caller, Failure):
                await _finish(reader, writer, caller)
            else:
                await self._converse(caller, reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            _logger.debug("a user's connection ended: %r", error)

    async def _converse(self, caller: Caller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        allowance = Allowance(self._limits.burst_requests, self._limits.requests_per_s, loop.time())
        while True:
            try:
                async with asyncio.timeout(_IDLE_S):
                    line = await reader.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                too_long = Failure(reason=f"a request may have at most {REQUEST_MOST_BYTES} bytes")
                return await _finish(reader, writer, too_long)
            if not allowance.take(loop.time()):
                flood = Failure(reason=f"more than {self._limits.requests_per_s:g} requests a second")
                return await _finish(reader, writer, flood)
            reply = self._reply(caller, line)
            # What is answered holds, whatever happens next.
            reply = self._held_true(reply, await self._scheduler.durable())
            writer.write(_encode(reply))
            async with asyncio.timeout(_IDLE_S):
                await writer.drain()

    def _held_true(self, reply: AnyReply, behind: str) -> AnyReply:
        """Return what can be answered if the log does not have on the disk what the request led to."""
        if not behind:
            return reply
        if isinstance(reply, Submitted | Kept):
            self._scheduler.retract(reply)
            return _failure(log_error(behind))
        if isinstance(reply, Done):
            unwritten = f"the log cannot be written ({behind}), and forgets this if the scheduler is killed now"
            return Done(text=f"{reply.text}; {unwritten}")
        return reply

    def _reply(self, caller: Caller, line: bytes) -> AnyReply:
        try:
            request = REQUESTS.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return Failure(reason=f"not a request: {error}")
        if request.version != CONTROL_VERSION:
            return Failure(
                reason=f"control protocol {request.version} is not spoken here, only {CONTROL_VERSION}",
                hint="use the malleable command of the scheduler's own installation",
            )
        try:
            return self._carry_out(permitted(request, caller, self._scheduler.standing))
        except NotPermittedError as error:
            return Failure(reason=str(error), hint=error.hint)

    def _carry_out(self, request: AnyRequest) -> AnyReply:
        match request:
            case Status():
                return self._scheduler.snapshot()
            case Cancel() | Resize() | Explain():
                return self._concern(request)
            case GetRecord():
                return Recorded(record=msgspec.Raw(msgspec.json.encode(self._scheduler.record())))
            case Shutdown(keep_jobs=False):
                self._scheduler.request_stop()
                return Done(text="the scheduler ends")
            case _ if self._one_program:
                return Failure(
                    reason="one program runs here, without a scheduler: its nodes are Slurm's",
                    hint="run the scheduler in the allocation: malleable serve --backend slurm",
                )
            case _:
                return self._schedule(request)

    def _schedule(self, request: Submit | Manage | Reserve | Shutdown) -> AnyReply:
        """Carry out what takes a scheduler."""
        match request:
            case Submit(job=job, array=array):
                try:
                    ids = self._scheduler.submit_array(job, array)
                    return Submitted(job=ids[0], jobs=tuple(ids) if array else ())
                except SubmitError as error:
                    return _failure(error)
            case Use() | Hold() | Prioritise() | ChangeNode() | LimitUsers() | Unreserve():
                return self._manage(request)
            case Reserve():
                try:
                    return Kept(reservation=self._scheduler.reserve(request))
                except SubmitError as error:
                    return _failure(error)
                except ValueError as error:
                    return Failure(reason=f"nothing is reserved: {error}")
            case Shutdown():
                try:
                    self._scheduler.leave_jobs()
                except ValueError as error:
                    return Failure(reason=str(error))
                return Done(text="the scheduler ends, its jobs go on")
            case _:
                assert_never(request)

    def _manage(self, request: Manage) -> AnyReply:
        try:
            return Done(text=self._scheduler.manage(request))
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
                return Explained(explanation=self._scheduler.explain(request.job))
            if isinstance(request, Cancel):
                self._scheduler.cancel(request.job)
                return Done(text=f"job {request.job} is being ended")
            ordered = self._scheduler.resize(request.job, request.delta)
            return Done(text=f"job {request.job} is ordered to {'grow' if ordered > 0 else 'shrink'} by {abs(ordered)}")
        except KeyError:
            return Failure(reason=f"there is no job {request.job}", hint="malleable queue lists the jobs")
        except ValueError as error:
            return Failure(reason=str(error))


def _failure(error: SubmitError) -> Failure:
    return Failure(reason=str(error), field=error.field, why=error.why, hint=error.hint)


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
            while await reader.read(REQUEST_MOST_BYTES):
                pass
