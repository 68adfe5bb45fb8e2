"""The web server of a daemon: the page, its events, the same as JSON, and the metrics."""

from __future__ import annotations

import hashlib
from importlib import resources
from types import TracebackType
from typing import Final, Self

import msgspec

from scheduler_bridge.daemon import DaemonError
from scheduler_bridge.web.feed import EVENT_STREAM, Feed, Watched
from scheduler_bridge.web.http import Answer, HttpServer, Stream, WebConfig
from scheduler_bridge.web.metrics import CONTENT_TYPE, Metrics

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class WebServer:
    """Serves the live page of a daemon; an async context manager, to be entered where the daemon serves.

    Args:
        daemon: What is shown.
        config: Where to listen, and limits.

    Raises:
        DaemonError: On entering: the port is not to be had.
    """

    def __init__(self, daemon: Watched, config: WebConfig) -> None:
        self._config = config
        self._files = _files()
        version = hashlib.sha256(b"\0".join(body for _, body in sorted(self._files.items()))).hexdigest()[:12]
        self._feed = Feed(daemon, config, version)
        self._metrics = Metrics(daemon, lambda: self._feed.watchers)
        self._http = HttpServer(config, self._answer)

    @property
    def url(self) -> str:
        """Where the page is; ends in a slash."""
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        return f"http://{host}:{self._http.port}/"

    async def __aenter__(self) -> Self:
        try:
            await self._http.start()
        except OSError as error:
            raise DaemonError(
                f"cannot serve the page on port {self._config.port} of {self._config.host}: {error.strerror or error}",
                "choose another port with --web, or 0 for a free one",
            ) from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._feed.stop()
        await self._http.stop()

    def _answer(self, path: str) -> Answer | Stream:
        match path:
            case "/events":
                if self._feed.watchers >= self._config.watchers:
                    return Answer(503, b"too many follow this page already\n", headers={"Retry-After": "10"})
                return Stream(self._feed.events(), EVENT_STREAM)
            case "/state.json":
                return Answer(200, msgspec.json.encode(self._feed.document()), "application/json")
            case "/metrics":
                return Answer(200, self._metrics.text(), CONTENT_TYPE)
            case "/":
                return self._file("index.html")
            case _:
                return self._file(path.removeprefix("/"))

    def _file(self, name: str) -> Answer:
        body = self._files.get(name)
        if body is None:
            return Answer(404, b"there is no such page here\n")
        return Answer(200, body, _TYPES[name.rpartition(".")[2]])


def _files() -> dict[str, bytes]:
    """Read the page's files once: what is served does not depend on what is asked for."""
    folder = resources.files("scheduler_bridge.web") / "static"
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.rpartition(".")[2] in _TYPES}
