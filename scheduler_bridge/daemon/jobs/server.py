"""The server that jobs connect to: carries lines between sockets and ``Session``s, and knows who is connected."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from apgas.malleability import orders as wire
from apgas.malleability.communicator import keep_alive
from scheduler_bridge.daemon.config import DaemonError, Limits
from scheduler_bridge.daemon.jobs.session import Attach, Close, Heard, JobLink, Send, Session, Trespassed
from scheduler_bridge.daemon.listener import Counted, Listener

_logger = logging.getLogger(__name__)

_SEND_BUFFER_BYTES = 256 * 1024
_LINGER_S = 1.0


class JobServer:
    """Speaks wire protocol v2 with the running jobs.

    Args:
        heard: Called with every message that fits its job's state, in order, on the event loop.
        limits: What one connection may cost.

    Attributes:
        links: The running jobs, which may connect, by id.
    """

    def __init__(self, heard: Callable[[Heard | Trespassed], None], limits: Limits) -> None:
        self._heard = heard
        self._limits = limits
        self.links: dict[int, JobLink] = {}
        self._attached: dict[int, _Connection] = {}
        self._strangers = 0
        self._log = Counted(_logger)
        self.listener = Listener(self._serve, limits.connections)
        self.endpoint = ""

    async def start(self, host: str, port: int = 0) -> None:
        """Have ``port`` of ``host`` (0: a free one); ``endpoint`` says where. Jobs connect when ``listener`` serves.

        Before that those are to be known that an earlier scheduler had: others are refused.
        """
        hints = 'name another one in the configuration: host = "127.0.0.1"', ""
        limit = wire.MAX_LINE_BYTES
        try:
            port = await self.listener.start((host, port), "listen for jobs", hints, limit, serving=False)
        except DaemonError as error:
            if port == 0:
                raise
            _logger.error("jobs that knew port %d do not come back: %s", port, error)
            await self.start(host)
        else:
            self.endpoint = f"{host}:{port}"

    def dismiss(self, job_id: int) -> None:
        """Forget a job that ended and close its connection."""
        self.links.pop(job_id, None)
        connection = self._attached.pop(job_id, None)
        if connection is not None:
            connection.close()

    async def last_words(self, job_id: int) -> None:
        """Wait until all is heard that a job has said whose processes have ended: much may wait to be read still."""
        connection = self._attached.get(job_id)
        if connection is not None:
            with contextlib.suppress(TimeoutError):  # a host that is lost ends no connection
                async with asyncio.timeout(_LINGER_S):
                    await connection.over.wait()

    def withdraw(self, job_id: int) -> None:
        """Take the job's open order back; its outcome is still awaited."""
        link = self.links.get(job_id)
        if link is not None and link.open is not None and not link.open.withdrawn:
            link.open.withdrawn = True
            self.send(job_id, wire.Withdraw(order=link.open.order))

    def abandon(self, job_id: int) -> bool:
        """Wait no longer for the outcome of the job's open order, and give it no further ones.

        Returns:
            Whether the job claimed to have grown, on nodes that it was not given.
        """
        link = self.links.get(job_id)
        if link is None or link.open is None:
            return False
        order, link.open = link.open, None
        link.phase = "disabled"
        if order.kind == "grow":
            link.abandoned.add(order.order)
        return order.kind == "grow" and order.claimed

    def send(self, job_id: int, message: wire.Message) -> None:
        """Send ``message`` if the job is connected."""
        connection = self._attached.get(job_id)
        if connection is not None:
            connection.send(message)

    # connections ----------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer, self._limits.drain_s)
        session = Session(self.links, self._limits, _now())
        try:
            if self._strangers >= self._limits.strangers:
                # without a word, as ever
                self._log.log(logging.WARNING, "a connection is not taken: there are too many strangers")
                return
            keep_alive(writer.get_extra_info("socket"))
            await self._greet(session, connection)
            while not session.closed:
                await self._step(session, connection)
                # Lines that are buffered already would otherwise be handled without letting others have a turn.
                await asyncio.sleep(0)
        except (OSError, TimeoutError) as error:
            self._log.log(logging.INFO, "connection of job %s lost: %s", session.job_id, error)
        finally:
            if session.job_id is not None and self._attached.get(session.job_id) is connection:
                del self._attached[session.job_id]
            connection.close()
            connection.over.set()

    async def _greet(self, session: Session, connection: _Connection) -> None:
        self._strangers += 1
        try:
            async with asyncio.timeout(self._limits.hello_s):
                await self._step(session, connection)
        except TimeoutError:
            # Without a word, too: it may be this process that was stopped, while a job's hello was under way.
            self._log.log(logging.WARNING, "a connection is closed: no hello within %g s", self._limits.hello_s)
            session.closed = True
        finally:
            self._strangers -= 1

    async def _step(self, session: Session, connection: _Connection) -> None:
        try:
            line = await connection.reader.readuntil(b"\n")
        except asyncio.LimitOverrunError:
            actions = session.end(f"a line may have at most {wire.MAX_LINE_BYTES} bytes")
        except asyncio.IncompleteReadError:
            session.closed = True
            return
        else:
            actions = session.receive(line, _now())
        for action in actions:
            match action:
                case Send(message=message):
                    if isinstance(message, wire.Refused):
                        who = "a stranger" if session.job_id is None else f"job {session.job_id}"
                        self._log.log(logging.WARNING, "%s is refused a message: %s", who, message.reason)
                    connection.send(message)
                case Attach(job_id=job_id):
                    previous = self._attached.get(job_id)
                    self._attached[job_id] = connection
                    if previous is not None:
                        previous.close()
                case Heard() | Trespassed():
                    self._heard(action)
                case Close():
                    await connection.finish()
        await connection.drain()


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, drain_s: float) -> None:
        self.reader = reader
        self.over = asyncio.Event()
        self._writer = writer
        self._drain_s = drain_s

    def send(self, message: wire.Message) -> None:
        if self._writer.is_closing():
            return
        self._writer.write(wire.encode(message))
        if self._writer.transport.get_write_buffer_size() > _SEND_BUFFER_BYTES:
            self._writer.transport.abort()

    async def drain(self) -> None:
        # A deadline costs as much as a message that is only remembered; mostly there is nothing to wait for.
        if not self._writer.is_closing() and self._writer.transport.get_write_buffer_size():
            async with asyncio.timeout(self._drain_s):
                await self._writer.drain()

    async def finish(self) -> None:
        """Close such that the peer can read the last message: closing with unread input would destroy it."""
        with contextlib.suppress(OSError, TimeoutError):  # it has gone, or had its time
            await self.drain()
            self._writer.write_eof()
            async with asyncio.timeout(_LINGER_S):
                while await self.reader.read(wire.MAX_LINE_BYTES):
                    pass
        self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the job was quicker
            self._writer.close()


def _now() -> float:
    return asyncio.get_running_loop().time()
