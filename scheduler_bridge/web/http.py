"""A small HTTP/1.1 server for pages and event streams: h11 reads and writes the protocol, asyncio the sockets.

It serves GET and HEAD only. What a stranger may cost is bounded: connections, the size of a request's head (16 KiB),
the time for it to arrive, the time for an answer to be taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import h11

_logger = logging.getLogger(__name__)

_READ_BYTES = 64 * 1024
_SECURITY: Final = {
    # Nothing is fetched from elsewhere, nothing is run that does not come from here, and no other page frames this one.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: whole, or parts that are sent as they come, until the connection is closed."""

    status: int
    body: bytes | AsyncGenerator[bytes, None]
    content_type: str = "text/plain; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)


Handler: TypeAlias = Callable[[str], Answer]
"""Answers a GET of a path (without its query)."""


class Connection:
    """One connection, with one request after another; ``handler`` is called for each, on the event loop."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, config: WebConfig, handler: Handler
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._config = config
        self._handler = handler
        self._http = h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        """Answer what is asked, until there is nothing more."""
        try:
            await self._serve()
        except (OSError, TimeoutError, h11.ProtocolError) as error:
            _logger.debug("a reader's connection ended: %r", error)
        finally:
            if self._writer.transport.get_write_buffer_size():
                self._writer.transport.abort()

    async def _serve(self) -> None:
        patience_s = self._config.request_s
        while True:
            try:
                async with asyncio.timeout(patience_s):
                    request = await self._request()
            except h11.RemoteProtocolError as error:
                if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                    status = error.error_status_hint
                    await self._say(Answer(status, f"this is no request: {error}\n".encode()), "GET")
                return
            if request is None:
                return
            await self._answer(request)
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()
            patience_s = self._config.idle_s

    async def _request(self) -> h11.Request | None:
        """Return the next request, body read and dropped; None if there is none."""
        request = None
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_READ_BYTES))
            elif isinstance(event, h11.Request):
                request = event
                if _has_body(event):
                    return event  # Its answer is a refusal, after which the connection is closed.
            elif isinstance(event, h11.EndOfMessage):
                return request
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                return None

    async def _answer(self, request: h11.Request) -> None:
        method = request.method.decode("ascii", "replace")
        answer = self._refusal(request, method)
        if answer is None:
            path = request.target.decode("ascii", "replace").partition("?")[0]
            try:
                answer = self._handler(path)
            except Exception:
                _logger.exception("the page %s could not be made", path)
                answer = Answer(500, b"this page could not be made; the scheduler's log says why\n")
        await self._say(answer, method)

    def _refusal(self, request: h11.Request, method: str) -> Answer | None:
        if method not in ("GET", "HEAD") or _has_body(request):
            return Answer(405, b"this is to be read only\n", headers={"Allow": "GET, HEAD", "Connection": "close"})
        hosts = [value.decode("ascii", "replace") for name, value in request.headers if name == b"host"]
        if hosts and not _is_ours(hosts[0], self._config.host):
            # A page elsewhere may have its name point here, to read with the rights of its visitors.
            return Answer(421, b"this scheduler goes by another name; use its address\n")
        return None

    async def _say(self, answer: Answer, method: str) -> None:
        body = answer.body
        ends = ("Content-Length", str(len(body))) if isinstance(body, bytes) else ("Connection", "close")
        headers = [*_SECURITY.items(), ("Content-Type", answer.content_type), ends, *answer.headers.items()]
        await self._send(h11.Response(status_code=answer.status, headers=headers))
        if method == "HEAD":
            pass
        elif isinstance(body, bytes):
            await self._send(h11.Data(data=body))
        else:
            async with contextlib.aclosing(body) as parts:
                async for part in parts:
                    await self._send(h11.Data(data=part))
        await self._send(h11.EndOfMessage())

    async def _send(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            async with asyncio.timeout(self._config.request_s):
                await self._writer.drain()


def _has_body(request: h11.Request) -> bool:
    lengths = [value for name, value in request.headers if name == b"content-length"]
    return any(name == b"transfer-encoding" for name, _ in request.headers) or any(int(value) for value in lengths)


def _is_ours(host: str, configured: str) -> bool:
    """Whether a Host header can be meant for us: an address, this machine, or the name that was configured."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and ":" in host else host
    name = name.strip("[]").lower()
    if name in ("localhost", configured.lower()):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


# Settings ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WebConfig:
    """Settings of one web server.

    Attributes:
        port: Where to listen; 0: a free port.
        host: Address to listen on. There is no password: all who reach it may read.
        window_s: How far back the page looks.
        interval_s: Time between two updates, at least; more where a picture of the cluster takes long to make.
        heartbeat_s: Time after which a watcher hears something even if nothing happens.
        request_s: Time for a request to arrive, and for a reader to take what it is sent.
        idle_s: Time that a connection may stay open between two requests.
        connections: How many at a time.
        watchers: How many of them may follow the events.
    """

    port: int
    host: str = "127.0.0.1"
    window_s: float = 900.0
    interval_s: float = 1.0
    heartbeat_s: float = 3.0
    request_s: float = 5.0
    idle_s: float = 30.0
    connections: int = 128
    watchers: int = 32
