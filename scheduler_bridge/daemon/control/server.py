"""The server that users talk to: at a socket in the state folder, which its owner alone can enter, and at doors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Protocol

import msgspec

from scheduler_bridge.daemon import requests
from scheduler_bridge.daemon.admission import JobFacts
from scheduler_bridge.daemon.config import Limits
from scheduler_bridge.daemon.control import access
from scheduler_bridge.daemon.control.access import Caller, Door, Know, Known, NotPermittedError, permitted
from scheduler_bridge.daemon.control.client import bind_in
from scheduler_bridge.daemon.control.submission import log_error
from scheduler_bridge.daemon.listener import Allowance, Counted, Listener
from scheduler_bridge.daemon.requests import AnyReply, AnyRequest, Done, Failure, Status, SubmitError
from scheduler_bridge.policies import PolicyError, UnknownPolicyError

_logger = logging.getLogger(__name__)

_IDLE_S = 30.0
_CONNECTIONS = 256
_PART_BYTES = 256 * 1024
_LINGER_S = 1.0


class _Scheduler(Protocol):
    """Some methods of ``Daemon``, which says what they do, and what they raise."""

    def carry_out(self, request: AnyRequest) -> AnyReply: ...
    def standing(self, job_id: int) -> JobFacts | None: ...
    def retract(self, reply: requests.Submitted | requests.Kept) -> None: ...
    async def durable(self) -> str: ...


class _User:
    """What one caller may ask for, by all connections together."""

    def __init__(self, limits: Limits, now: float) -> None:
        self.connections = 0
        self.requests = Allowance(limits.burst_requests, limits.requests_per_s, now)
        self.bytes = Allowance(limits.burst_bytes, limits.bytes_per_s, now)
        self._seconds = Allowance(1.0, limits.user_share, now)

    async def turn(self) -> None:
        """Wait until others have had their share of the daemon's time."""
        while (wait_s := self._seconds.wait_s(asyncio.get_running_loop().time())) > 0:
            await asyncio.sleep(wait_s)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Charge the time that the block takes; to wait in it would be charged, too."""
        began_s = perf_counter()
        try:
            yield
        finally:
            self._seconds.take(asyncio.get_running_loop().time(), perf_counter() - began_s)


class _Shared:
    """An answer that is large, made once for all who wait for it, so often that a fifth of the time goes into it.

    It is never older than the question: one that is asked too soon after the last answer waits for the next one.
    """

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._due_s = 0.0
        self._next: asyncio.Future[bytes] | None = None

    async def get(self) -> bytes:
        """Return the next one."""
        if self._next is None:
            loop = asyncio.get_running_loop()
            self._next = loop.create_future()
            loop.call_at(max(self._due_s, loop.time()), self._answer, self._next)
        return await asyncio.shield(self._next)

    def _answer(self, waiting: asyncio.Future[bytes]) -> None:
        self._next = None
        began_s = perf_counter()
        try:
            waiting.set_result(self._make())
        except Exception as error:  # noqa: BLE001 - those who wait get it
            waiting.set_exception(error)
        self._due_s = asyncio.get_running_loop().time() + 4 * (perf_counter() - began_s)


class ControlServer:
    """Answers requests, one line each, in order.

    Args:
        scheduler: What the requests are about.
        limits: What one connection may cost.
        doors: Where users come in who are not the scheduler's own.
    """

    def __init__(self, scheduler: _Scheduler, limits: Limits, doors: Sequence[Door] = ()) -> None:
        self._scheduler = scheduler
        self._limits = limits
        self._wanted = doors
        self._listeners: list[Listener] = []
        self._users: dict[str, _User] = {}
        self._log = Counted(_logger)
        self._status = _Shared(lambda: _encode(self._answered(Status(), "all users")))
        self.doors: list[Door] = []

    async def start(self, folder: Path) -> None:
        """Have a socket in ``folder``, and the doors; no caller is let in before ``serve``.

        Raises:
            DaemonError: A door cannot be opened.
        """
        bound = socket.socket(socket.AF_UNIX)
        try:
            bind_in(folder, bound)
            await self._listener(access.owner_only).start_unix(bound, requests.REQUEST_MOST_BYTES)
        except BaseException:
            bound.close()
            raise
        for door in self._wanted:
            await door.open(self._listener(access.any_user), requests.REQUEST_MOST_BYTES)
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
                await self._admit(caller, reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            _logger.debug("a user's connection ended: %r", error)

    async def _admit(self, caller: Caller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let a caller speak who has not too many connections."""
        user, most = _User(self._limits, asyncio.get_running_loop().time()), self._limits.user_connections
        if not caller.operator:
            user = self._users.setdefault(caller.name, user)
        user.connections += 1
        try:
            if user.connections <= most:
                await self._converse(caller, user, reader, writer)
            elif user.connections <= 2 * most:  # to say so takes a connection, too
                await _finish(reader, writer, Failure(reason=f"{caller.name} has {most} connections already"))
            else:
                writer.transport.abort()
        finally:
            user.connections -= 1

    async def _converse(
        self, caller: Caller, user: _User, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(_IDLE_S):
                    line = await reader.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                too_long = Failure(reason=f"a request may have at most {requests.REQUEST_MOST_BYTES} bytes")
                return await _finish(reader, writer, too_long)
            if not (user.requests.take(loop.time()) and user.bytes.take(loop.time(), len(line))):
                limits = self._limits
                most = f"{limits.requests_per_s:g} requests a second, or {limits.bytes_per_s:.0f} bytes of them"
                return await _finish(reader, writer, Failure(reason=f"more than {most}"))
            if not caller.operator:
                await user.turn()
            with user.at_work():
                request = _permitted(line, caller, self._scheduler.standing)
                reply: AnyReply | bytes = b"" if isinstance(request, Status) else self._answered(request, caller.name)
            if isinstance(request, Status):
                reply = await self._status.get()
            # What is answered holds, whatever happens next.
            reply = self._held_true(reply, await self._scheduler.durable())
            answer = reply if isinstance(reply, bytes) else _encode(reply)
            async with asyncio.timeout(_IDLE_S):
                for at in range(0, len(answer), _PART_BYTES):  # a connection keeps no copy of a large one
                    with user.at_work():
                        writer.write(answer[at : at + _PART_BYTES])
                    await writer.drain()

    def _held_true(self, reply: AnyReply | bytes, behind: str) -> AnyReply | bytes:
        """Return what can be answered if the log does not have on the disk what the request led to."""
        if not behind:
            return reply
        if isinstance(reply, requests.Submitted | requests.Kept):
            self._scheduler.retract(reply)
            return _failure(log_error(behind, "reservation" if isinstance(reply, requests.Kept) else "job"))
        if isinstance(reply, Done):
            return Done(text=reply.text, log_behind=behind)
        return reply

    def _answered(self, request: AnyRequest | Failure, who: str) -> AnyReply:
        if isinstance(request, Failure):
            return request
        try:
            return self._scheduler.carry_out(request)
        except Exception as error:  # noqa: BLE001 - one who asks for what was not foreseen is answered, too
            if (refusal := _refusal(request, error)) is not None:
                return refusal
            self._log.log(logging.ERROR, "a request of %s cannot be answered: %r", who, error)
            return Failure(reason=f"the scheduler cannot answer this: {type(error).__name__}: {error}")


def _refusal(request: AnyRequest, error: Exception) -> Failure | None:
    """Return what is said to one who asked for what cannot be done; None: that is not why there was an error."""
    match error:
        case SubmitError():
            return _failure(error)
        case _ if isinstance(request, requests.Submit | Status | requests.GetRecord):
            return None
        case UnknownPolicyError():
            return Failure(reason=str(error), hint="malleable policies describes them")
        case KeyError(args=[job]) if job == getattr(request, "job", None):
            return Failure(reason=f"there is no job {job}", hint="malleable queue lists the jobs")
        case PolicyError() | ValueError() | TypeError():
            what = "nothing is reserved: " if isinstance(request, requests.Reserve) else ""
            return Failure(reason=f"{what}{error}")
        case _:
            return None


def _failure(error: SubmitError) -> Failure:
    return Failure(reason=str(error), field=error.field, why=error.why, hint=error.hint)


def _permitted(line: bytes, caller: Caller, known: Known) -> AnyRequest | Failure:
    """Return what is asked for, or why it is not answered."""
    try:
        request = requests.REQUESTS.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Failure(reason=f"not a request: {error}")
    if request.version != requests.CONTROL_VERSION:
        return Failure(
            reason=f"control protocol {request.version} is not spoken here, only {requests.CONTROL_VERSION}",
            hint="use the malleable command of the scheduler's own installation",
        )
    try:
        return permitted(request, caller, known)
    except NotPermittedError as error:
        return Failure(reason=str(error), hint=error.hint)


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
            while await reader.read(requests.REQUEST_MOST_BYTES):
                pass
