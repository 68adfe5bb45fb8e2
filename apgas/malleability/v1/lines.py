"""The lines of v1, read and written (pure), and the port that takes them.

Orders come from the scheduler on the job's port: ``grow N h1 ... hN``, ``shrink N`` (answered by N lines, a host
each). Reports come from the job on the scheduler's port, one a connection: ``APGAS-Ready:IP``,
``growTimeAPGAS;n;ns:IP`` and so on, ``Evolving;Request;1:IP``, ``Evolving;Release;host:IP``.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Collection
from typing import Final, Literal, TypeAlias, assert_never

import msgspec

from apgas.malleability import orders as wire

DEFAULT_PORT: Final = 8081

_HOST: Final = re.compile(r"[A-Za-z0-9_.\-]{1,255}")
_COUNT: Final = re.compile(r"[0-9]{1,7}")
_NANOSECONDS: Final = re.compile(r"[0-9]{1,18}")

PHASES: Final[dict[str, tuple[Literal["grow", "shrink"], str]]] = {
    "preGrowTimeGLB": ("grow", "pre"),
    "postGrowTimeGLB": ("grow", "post"),
    "growTimeAPGAS": ("grow", ""),
    "preShrinkTimeGLB": ("shrink", "pre"),
    "postShrinkTimeGLB": ("shrink", "post"),
    "shrinkTimeAPGAS": ("shrink", ""),
}
"""What a report of time is about: the kind of order, and the phase of it (empty: all of it, those phases included).

They are reported in this order, the last one when all of the order is over.
"""


class BadLineError(ValueError):
    """A line that is none of v1; the text says what is wrong."""


class Ready(msgspec.Struct, frozen=True):
    """The job takes orders."""


class Took(msgspec.Struct, frozen=True):
    """A phase of an order took ``nanoseconds`` for ``count`` places; ``name`` is one of ``PHASES``."""

    name: str
    count: int
    nanoseconds: int


class Request(msgspec.Struct, frozen=True):
    """The job asks for ``count`` nodes more."""

    count: int


class Release(msgspec.Struct, frozen=True):
    """The job offers this host back."""

    host: str


Order: TypeAlias = wire.Grow | wire.Shrink
Report: TypeAlias = Ready | Took | Request | Release


def parse_order(line: bytes, number: int) -> Order:
    """Read what a scheduler says to a job, as the order with this number.

    Raises:
        BadLineError: It is no order.
    """
    words = _text(line).split()
    match words:
        case ["grow", count, *hosts]:
            if _count(count) != len(hosts):
                raise BadLineError(f"grow by {count}, but {len(hosts)} hosts are named")
            if len(set(hosts)) != len(hosts):
                raise BadLineError("a host is named twice")
            return wire.Grow(number, len(hosts), tuple(map(host, hosts)))
        case ["shrink", count]:
            return wire.Shrink(number, _count(count))
        case _:
            raise BadLineError(f"no order: {_shown(line)}")


def parse_report(line: bytes) -> tuple[Report, str]:
    """Read what a job says to a scheduler; the second value is the IP that the job gives as its own.

    Raises:
        BadLineError: It is no report.
    """
    said, colon, address = _text(line).strip().partition(":")
    if not colon:
        raise BadLineError(f"no address: {_shown(line)}")
    ip = address.strip()
    match said.split(";"):
        case ["APGAS-Ready"]:
            return Ready(), ip
        case ["Evolving", "Request", count]:
            return Request(_count(count)), ip
        case ["Evolving", "Release", name]:
            return Release(host(name)), ip
        case [name, count, nanoseconds] if name in PHASES and _NANOSECONDS.fullmatch(nanoseconds):
            return Took(name, _count(count), int(nanoseconds)), ip
        case _:
            raise BadLineError(f"no report: {_shown(line)}")


def host(name: str) -> str:
    """Return ``name`` without white space around it.

    Raises:
        BadLineError: It is not the name of a host.
    """
    name = name.strip()
    if not _HOST.fullmatch(name):
        raise BadLineError(f"{name[:60]!r} is not a host")
    return name


def parse_host(line: bytes) -> str:
    """Read one line of the answer to a shrink.

    Raises:
        BadLineError: It is not the name of a host.
    """
    return host(_text(line))


def order_line(order: Order) -> bytes:
    """Write an order."""
    if isinstance(order, wire.Grow):
        return " ".join(["grow", str(order.count), *order.nodes]).encode() + b"\n"
    return f"shrink {order.count}\n".encode()


def report_line(report: Report, ip: str) -> bytes:
    """Write a report of the job at ``ip``."""
    match report:
        case Ready():
            said = "APGAS-Ready"
        case Took():
            said = f"{report.name};{report.count};{report.nanoseconds}"
        case Request():
            said = f"Evolving;Request;{report.count}"
        case Release():
            said = f"Evolving;Release;{report.host}"
        case _:
            assert_never(report)
    return f"{said}:{ip}\n".encode()


def _text(line: bytes) -> str:
    try:
        return line.decode("ascii")
    except UnicodeDecodeError:
        raise BadLineError(f"not ASCII: {_shown(line)}") from None


def _count(word: str) -> int:
    if not _COUNT.fullmatch(word) or not 1 <= int(word) <= wire.MOST_COUNT:
        raise BadLineError(f"{word[:20]!r} is not a number of nodes")
    return int(word)


def _shown(line: bytes) -> str:
    return repr(line[:60])


# The port, which takes short lines from few peers, and addresses: for both drivers of v1 ----------------------------

_logger = logging.getLogger(__name__)

CONNECT_S = 5.0
_LINE_S = 5.0
_ACCEPT_AGAIN_S = 0.1
_PEEK_BYTES = 4096
_MOST_PORTS: Final = 2000
_LOOPBACK = frozenset({"127.0.0.1", "::1"})
_CALLERS = 16
"""Connections at a time; further ones are closed at once."""


def own_server() -> socket.socket:
    """Listen at a loopback address and a port that nothing else of this machine has.

    The published Java system has one port, to which it reports and on which it listens at an address of its own, and
    reports nothing to 127.0.0.1. So the port has to be free at all addresses, and the address is another one: each port
    has one of its own, so that of two that try the same port at once only one gets it. Where the system has no other
    address of 127/8 it is ``::1``, and 127.0.0.1 only where there is none of these.

    Raises:
        OSError: No port is to be had.
    """
    hosts = ["", "::1", "127.0.0.1"]
    for port in range(DEFAULT_PORT, DEFAULT_PORT + _MOST_PORTS):
        if not _is_free(port):
            continue
        while hosts:
            try:
                return listening((hosts[0], port) if hosts[0] else address_for(port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    break
                del hosts[0]  # The system has no such address.
    raise OSError(errno.EADDRINUSE, f"no port of {DEFAULT_PORT} to {port} is free")


def address_for(port: int) -> tuple[str, int]:
    """The loopback address, not 127.0.0.1, that a port has for reports."""
    return f"127.8.{port >> 8}.{port & 255}", port


def listening(where: tuple[str, int]) -> socket.socket:
    """Listen at an address of either family.

    Raises:
        OSError: It is not to be had.
    """
    return socket.create_server(where, family=_family(where[0]))


def callers_of(host: str, port: int) -> set[str]:
    """The addresses that callers on the machine ``host`` may have: those of its name, and if it is this one, loopback.

    Raises:
        OSError: The name is unknown.
    """
    found = {str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    return found | _LOOPBACK if any(map(is_ours, found)) else found


def is_ours(ip: str) -> bool:
    """Whether this machine has the address."""
    with contextlib.suppress(OSError), socket.socket(_family(ip)) as probe:  # cannot be bound to: not ours
        probe.bind((ip, 0))
        return True
    return False


def _is_free(port: int) -> bool:
    """Whether no program listens on the port, at whatever address."""
    with contextlib.suppress(OSError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that are over do not count
        probe.bind(("", port))
        return True
    return False


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def read_line(caller: socket.socket, until_s: float, longest: int = wire.MAX_LINE_BYTES) -> bytes:
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

    Port 0 stands for a free one. ``take`` is called with the line and the connection, and returns whether it keeps
    the connection. ``peers`` are the addresses that may call; None: all.

    Raises:
        OSError: The port is not to be had.
    """

    def __init__(
        self,
        listen: tuple[str, int] | socket.socket,
        take: Callable[[bytes, socket.socket], bool],
        peers: Collection[str] | None = None,
    ) -> None:
        self._take = take
        self._peers = peers
        self._server = listen if isinstance(listen, socket.socket) else listening(listen)
        self.port = int(self._server.getsockname()[1])
        self._room = threading.BoundedSemaphore(_CALLERS)
        self._closed = False
        self._thread = threading.Thread(target=self._accept, name=f"v1-port-{self.port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more. Idempotent."""
        self._closed = True
        with contextlib.suppress(OSError):  # the other side accepts no connections any more
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
