"""What the two drivers of v1 share: addresses, and a port that takes short lines from few peers."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Collection

from apgas.errors import UsageError
from apgas.malleability.v1.lines import MAX_LINE_BYTES, BadLineError

_logger = logging.getLogger(__name__)

CONNECT_S = 5.0
_LINE_S = 5.0
_ACCEPT_AGAIN_S = 0.1
_PEEK_BYTES = 4096
_LOOPBACK = frozenset({"127.0.0.1", "::1"})
_CALLERS = 16
"""Connections at a time; further ones are closed at once."""


def address(text: str, name: str, default_host: str = "") -> tuple[str, int]:
    """Read ``HOST:PORT``, or ``PORT`` where there is a default host.

    Raises:
        UsageError: It is neither; the text calls it ``name``.
    """
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or default_host
    if not (host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise UsageError(f"{name} is {text!r}; it is to be HOST:PORT")
    return host, int(port)


def callers_of(host: str, port: int) -> set[str]:
    """The addresses that callers on the machine ``host`` may have: those of its name, and if it is this one, loopback.

    Raises:
        OSError: The name is unknown.
    """
    found = {str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    return found | _LOOPBACK if any(map(_is_ours, found)) else found


def _is_ours(ip: str) -> bool:
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family) as probe:  # cannot be bound to: not ours
        probe.bind((ip, 0))
        return True
    return False


def read_line(caller: socket.socket, until_s: float, longest: int = MAX_LINE_BYTES) -> bytes:
    """Read up to a newline, which is left out.

    Raises:
        OSError: It did not come by ``until_s`` (``time.monotonic``), or the connection ended before.
        BadLineError: The line is too long.
    """
    line = b""
    while not line.endswith(b"\n"):
        caller.settimeout(max(0.001, until_s - time.monotonic()))
        # What follows the newline stays where it is: the next line may be someone else's to read.
        seen = caller.recv(_PEEK_BYTES, socket.MSG_PEEK)
        if not seen:
            raise ConnectionError("the connection ended in the middle of a line" if line else "nothing was said")
        if time.monotonic() > until_s:
            raise TimeoutError("it took too long to be said")
        line += caller.recv(seen.find(b"\n") + 1 or len(seen))
        if len(line) > longest:
            raise BadLineError(f"a line has at most {longest} bytes")
    return line.rstrip(b"\r\n")


class LinePort:
    """Listens, and hands the first line of each connection on; threads do both.

    Args:
        listen: Where; port 0 for a free one.
        take: Called with the line and the connection; returns whether it keeps the connection.
        peers: Addresses that may call; None: all.

    Raises:
        OSError: The port is not to be had.
    """

    def __init__(
        self,
        listen: tuple[str, int],
        take: Callable[[bytes, socket.socket], bool],
        peers: Collection[str] | None = None,
    ) -> None:
        self._take = take
        self._peers = peers
        family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
        self._server = socket.create_server(listen, family=family)
        self.port = int(self._server.getsockname()[1])
        self._room = threading.BoundedSemaphore(_CALLERS)
        self._closed = False
        self._thread = threading.Thread(target=self._accept, name=f"v1-port-{self.port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more. Idempotent."""
        self._closed = True
        with contextlib.suppress(OSError):  # nobody accepts any more
            self._server.shutdown(socket.SHUT_RDWR)  # Wakes the thread that accepts.
        self._server.close()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _accept(self) -> None:
        taken = threading.Event()
        taken.set()
        while not self._closed:
            try:
                caller, peer = self._server.accept()
            except OSError:
                if not self._closed:
                    time.sleep(_ACCEPT_AGAIN_S)  # Out of file descriptors, for example; it may pass.
                continue
            stranger = self._peers is not None and peer[0] not in self._peers
            if stranger or not self._room.acquire(blocking=False):
                _logger.warning("a connection from %s is not taken", peer[0])
                caller.close()
                continue
            before, taken = taken, threading.Event()
            try:
                threading.Thread(target=self._hear, args=(caller, before, taken), daemon=True).start()
            except RuntimeError:  # No thread is to be had.
                self._room.release()
                caller.close()
                taken.set()

    def _hear(self, caller: socket.socket, before: threading.Event, taken: threading.Event) -> None:
        kept = False
        try:
            line = read_line(caller, time.monotonic() + _LINE_S)
            before.wait(_LINE_S)  # What was said first on another connection is taken first.
            kept = self._take(line, caller)
        except BadLineError as error:
            _logger.warning("a line that is none of protocol v1 is dropped: %s", error)
        except OSError as error:
            _logger.debug("a caller said no line: %s", error)
        finally:
            taken.set()
            self._room.release()
            if not kept:
                caller.close()
