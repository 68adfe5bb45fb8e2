"""A web server in a thread of its own, for tests that read it from outside: with sockets or with a browser."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from scheduler_bridge.web import WebConfig, WebServer
from support.mpi import PATIENCE_S

_T = TypeVar("_T")


class Served:
    """Serves `daemon` until the block is left; `do` runs something where the daemon lives."""

    def __init__(self, daemon: Any, config: WebConfig) -> None:
        self._daemon = daemon
        self._config = config
        self._ready: concurrent.futures.Future[WebServer] = concurrent.futures.Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> Served:
        self._thread.start()
        self.url = self._ready.result(PATIENCE_S).url
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2].rstrip("/"))

    def do(self, act: Callable[[], _T]) -> _T:
        async def acted() -> _T:
            return act()

        return asyncio.run_coroutine_threadsafe(acted(), self._loop).result(PATIENCE_S)

    def call(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def get(self, path: str, *headers: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
        """Ask once; return status, headers and body."""
        words = [f"{method} {path} HTTP/1.1", *headers, "Connection: close", "", ""]
        if not any(header.lower().startswith("host:") for header in headers):
            words.insert(1, "Host: localhost")
        with self.call() as caller:
            caller.sendall("\r\n".join(words).encode())
            answer = b""
            while part := caller.recv(65536):
                answer += part
        head, _, body = answer.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        return int(first.split()[1]), {name.lower(): value for name, _, value in map(_halves, lines)}, body

    async def _serve(self) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with WebServer(self._daemon, self._config) as server:
                self._ready.set_result(server)
                await self._done.wait()
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)


class Events:
    """Reads server-sent events."""

    def __init__(self, served: Served) -> None:
        self._caller = served.call()
        self._caller.sendall(b"GET /events HTTP/1.0\r\nHost: localhost\r\n\r\n")
        self._lines = self._caller.makefile("rb")
        assert self._lines.readline().split()[1] == b"200"
        while self._lines.readline().strip():
            pass

    def next(self) -> tuple[str, dict[str, Any]]:
        """The next event and its data."""
        kind = ""
        while True:
            line = self._lines.readline()
            if not line:
                raise EOFError
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                return kind, json.loads(value)

    def next_or_end(self) -> tuple[str, dict[str, Any]] | None:
        """The next event and its data, or None where there will be no further one."""
        try:
            return self.next()
        except EOFError:
            return None

    def close(self) -> None:
        self._lines.close()
        self._caller.close()


def _halves(line: str) -> tuple[str, str, str]:
    return line.partition(": ")
