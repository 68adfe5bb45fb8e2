"""The lines of v1, read and written; pure.

Orders come from the scheduler on the job's port: ``grow N h1 ... hN``, ``shrink N`` (answered by N lines, a host
each). Reports come from the job on the scheduler's port, one a connection: ``APGAS-Ready:IP``,
``growTimeAPGAS;n;ns:IP`` and so on, ``Evolving;Request;1:IP``, ``Evolving;Release;host:IP``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never

MAX_LINE_BYTES: Final = 64 * 1024
DEFAULT_PORT: Final = 8081

_HOST: Final = re.compile(r"[A-Za-z0-9_.\-]{1,255}")
_COUNT: Final = re.compile(r"[0-9]{1,7}")
_NANOSECONDS: Final = re.compile(r"[0-9]{1,18}")
_MOST_NODES: Final = 1_000_000

PHASES: Final[dict[str, tuple[Literal["grow", "shrink"], str]]] = {
    "growTimeAPGAS": ("grow", ""),
    "preGrowTimeGLB": ("grow", "pre"),
    "postGrowTimeGLB": ("grow", "post"),
    "shrinkTimeAPGAS": ("shrink", ""),
    "preShrinkTimeGLB": ("shrink", "pre"),
    "postShrinkTimeGLB": ("shrink", "post"),
}
"""What a report of time is about: the kind of order, and the phase of it (empty: the runtime's own part, its end)."""


class BadLineError(ValueError):
    """A line that is none of v1; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Grow:
    """Run on these hosts as well."""

    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shrink:
    """Release so many hosts, and say which."""

    count: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The job takes orders."""


@dataclass(frozen=True, slots=True)
class Took:
    """Something of an order took so many nanoseconds, for ``count`` places; ``name`` is one of ``PHASES``."""

    name: str
    count: int
    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Request:
    """The job asks for so many nodes more."""

    count: int


@dataclass(frozen=True, slots=True)
class Release:
    """The job offers this host back."""

    host: str


Order: TypeAlias = Grow | Shrink
Report: TypeAlias = Ready | Took | Request | Release


def parse_order(line: bytes) -> Order:
    """Read what a scheduler says to a job.

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
            return Grow(tuple(map(host, hosts)))
        case ["shrink", count]:
            return Shrink(_count(count))
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
    if isinstance(order, Grow):
        return " ".join(["grow", str(len(order.hosts)), *order.hosts]).encode() + b"\n"
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
    if not _COUNT.fullmatch(word) or not 1 <= int(word) <= _MOST_NODES:
        raise BadLineError(f"{word[:20]!r} is not a number of nodes")
    return int(word)


def _shown(line: bytes) -> str:
    return repr(line[:60])
