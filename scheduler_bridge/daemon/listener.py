"""Listening sockets, their connections, and how many and how talkative these may be."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Final, TypeAlias

from scheduler_bridge.daemon.config import DaemonError

_logger = logging.getLogger(__name__)
_NOT_HERE: Final = (None, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Errors where an address is none of this machine; asyncio gives some no number."""

_WAITING: Final = 100
"""Callers that wait to be let in: as many as asyncio has."""

Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


class Listener:
    """Accepts connections and ends them, all of them at the latest when it stops.

    Args:
        serve: Serves one connection, which is closed when this returns; handles the errors that it expects.
        most: Connections at a time; further ones are closed at once.
    """

    def __init__(self, serve: Serve, most: int) -> None:
        self._serve = serve
        self._most = most
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = Counted(_logger)

    async def start(
        self, address: tuple[str, int], what: str, hints: tuple[str, str], limit: int = 2**16, *, serving: bool = True
    ) -> int:
        """Listen on a host's port (0: a free one), for lines of at most ``limit`` bytes.

        ``what`` is done there, and ``hints`` help where there is no such host, or no such port is to be had. Callers
        wait for ``serve``, unless it is ``serving``.

        Returns:
            The port.

        Raises:
            DaemonError: The address is not to be had.
        """
        host, port = address
        try:
            self._server = await asyncio.start_server(self._accepted, host, port, limit=limit, start_serving=serving)
            for one in self._server.sockets if not serving else ():
                with one.dup() as same:
                    same.listen(_WAITING)  # else another program could have the port, too, and callers be refused
        except (OSError, ValueError) as error:
            if not isinstance(error, OSError) or isinstance(error, socket.gaierror) or error.errno in _NOT_HERE:
                why = f"cannot {what} at {host}: no address of this machine has that name or number"
                raise DaemonError(why, hints[0]) from None
            raise DaemonError(f"cannot {what} on port {port} of {host}: {error.strerror}", hints[1]) from None
        return int(self._server.sockets[0].getsockname()[1])

    async def start_unix(self, bound: socket.socket, limit: int) -> None:
        """Take a Unix socket that is bound already; callers wait for ``serve``."""
        self._server = await asyncio.start_unix_server(self._accepted, sock=bound, limit=limit, start_serving=False)

    async def serve(self) -> None:
        """Let callers in."""
        assert self._server is not None
        await self._server.start_serving()

    async def stop(self) -> None:
        """Close every connection and the listening socket. Idempotent."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if server is not None:
            await server.wait_closed()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= self._most:
            # Without a word: a job takes a refusal for the last one, and it has only come with too many others.
            self._log.log(logging.WARNING, "a connection is not taken: there are too many")
            writer.transport.abort()
            return
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # The server stops; the streams' own callback would report the cancellation as an error.
        finally:
            self._tasks.discard(task)
            with contextlib.suppress(OSError):  # the other side was quicker
                writer.close()


# How many messages a peer may send -----------------------------------------------------------------------------------


class Allowance:
    """What one peer may still send, or cost: a token bucket.

    Args:
        burst: Messages at once.
        per_s: Messages a second in the long run.
        now: Seconds on the clock of every later ``now``.
    """

    def __init__(self, burst: float, per_s: float, now: float) -> None:
        self._burst = float(burst)
        self._per_s = per_s
        self._left = float(burst)
        self._at_s = now

    def take(self, now: float, cost: float = 1.0) -> bool:
        """Take one message in; say whether it was allowed."""
        elapsed_s = max(0.0, now - self._at_s)
        self._at_s = max(now, self._at_s)
        self._left = min(self._burst, self._left + elapsed_s * self._per_s) - cost
        return self._left >= 0.0

    def wait_s(self, now: float) -> float:
        """Return in how many seconds what was taken too much is made good; at most 0: nothing was."""
        self.take(now, 0.0)
        return -self._left / self._per_s


# Lines of the log about callers, of whom there may be any number -----------------------------------------------------


class Counted:
    """Writes some lines of each kind in a while, and then how many more there were.

    Lines are of one kind that have the same form, and the same name or number at its beginning.
    """

    MOST: Final = 20
    EVERY_S: Final = 60.0

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._seen: Counter[tuple[str, object]] = Counter()

    def log(self, level: int, form: str, *args: object) -> None:
        """Write or count a line; to be called on the event loop."""
        kind = (form, args[0] if args and isinstance(args[0], str | int) else None)
        self._seen[kind] += 1
        if self._seen[kind] == 1:
            asyncio.get_running_loop().call_later(self.EVERY_S, self._sum_up, kind, level, form % args)
        if self._seen[kind] <= self.MOST:
            self._logger.log(level, form, *args)

    def _sum_up(self, kind: tuple[str, object], level: int, first: str) -> None:
        if (more := self._seen.pop(kind) - self.MOST) > 0:
            self._logger.log(level, "%d more times within %g s: %s", more, self.EVERY_S, first)


# How many files this process may have open ---------------------------------------------------------------------------

ENOUGH_FILES: Final = 2048
"""Allows a scheduler all connections that it would take (``Limits``), its log and its jobs' output: each is a file."""


def file_limits() -> tuple[float, float]:
    """Return how many may be open, and to how many a process may raise that itself; infinite: any number."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (float("inf") if limit == resource.RLIM_INFINITY else float(limit) for limit in limits)
    return soft, hard


def raise_file_limit() -> float:
    """Let this process, and those that it starts, open as many files as the system lets it; return how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return file_limits()[0]
