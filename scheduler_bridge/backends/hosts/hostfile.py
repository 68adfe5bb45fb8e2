"""The file that names the hosts: one a line, as mpiexec -f reads them, with what else there is to say of each.

::

    # name[:cores]  [cores=N]  [address=ADDRESS]
    alpha:16
    beta:16
    gamma  cores=8  address=10.0.0.7
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scheduler_bridge.daemon import DaemonError

_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]{0,254})")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9_\[](?:[A-Za-z0-9_.:@\-\]]{0,254})")
_MOST_CORES: Final = 1024
_FORM: Final = "a line is NAME, NAME:CORES, or NAME cores=CORES address=ADDRESS"


@dataclass(frozen=True, slots=True)
class Host:
    """One host.

    Attributes:
        name: Its name, as the scheduler and jobs use it.
        address: What the launcher is told; by default the name.
        cores: How many cores it has for jobs; None: it is not said.
    """

    name: str
    address: str
    cores: int | None = None


def read_hosts(path: Path) -> tuple[Host, ...]:
    """Read a file of hosts.

    Raises:
        DaemonError: It cannot be read, or a line is wrong; the text names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise DaemonError(f"{path}: {reason}", "give a file with one host a line") from None
    return parse_hosts(text, str(path))


def parse_hosts(text: str, where: str) -> tuple[Host, ...]:
    """Return the hosts that ``text`` names, in its order; ``where`` is what errors call it.

    Raises:
        DaemonError: A line is wrong, or there is none.
    """
    hosts: dict[str, tuple[Host, int]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        host = _host(words, f"{where}:{number}")
        if host.name in hosts:
            raise DaemonError(
                f"{where}:{number}: host {host.name} is named twice, first on line {hosts[host.name][1]}",
                "give every host one line",
            )
        hosts[host.name] = (host, number)
    if not hosts:
        raise DaemonError(f"{where}: it names no host", _FORM)
    return tuple(host for host, _ in hosts.values())


def _host(words: list[str], at: str) -> Host:
    name, colon, count = words[0].partition(":")
    if not _NAME.fullmatch(name):
        raise DaemonError(f"{at}: {name!r} is not a name of a host", "use letters, digits, '.', '_' and '-'")
    cores = _cores(count, at) if colon else None
    address = name
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if key == "address" and equals:
            if not _ADDRESS.fullmatch(value):
                raise DaemonError(f"{at}: {value!r} is not an address", "give a name, an IP address, or user@name")
            address = value
        elif key in ("cores", "slots") and equals:
            if cores is not None:
                raise DaemonError(f"{at}: the cores of {name} are given twice", _FORM)
            cores = _cores(value, at)
        else:
            raise DaemonError(f"{at}: {word!r} is not understood", _FORM)
    return Host(name, address, cores)


def _cores(text: str, at: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= _MOST_CORES:
        raise DaemonError(f"{at}: {text!r} is not a number of cores", f"give a number from 1 to {_MOST_CORES}")
    return int(text)


def fewest_cores(hosts: Iterable[Host]) -> int | None:
    """Return how many cores each of the hosts has at least; None if one does not say."""
    counts = [host.cores for host in hosts]
    known = [count for count in counts if count is not None]
    return min(known) if known and len(known) == len(counts) else None
