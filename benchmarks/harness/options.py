"""Readers of options' texts, which refuse what cannot work before anything starts."""

from __future__ import annotations

import math
import re
from pathlib import Path

from .errors import BadUsage

TRANSPORTS = ("tcp", "mpi")
_ORDER = re.compile(r"(?P<at>[^:]+):(?P<change>[+-]|workers=)(?P<count>[0-9]+)")


def parse_orders(text: str) -> list[tuple[float, str, int]]:
    """Parse ``"1.5:+2,3:workers=1"`` into ``[(1.5, "+", 2), (3.0, "workers=", 1)]``: seconds, what, how many.

    Raises:
        BadUsage: An item is not of the form SECONDS:+N, SECONDS:-N or SECONDS:workers=N with SECONDS >= 0 and N >= 1.
    """
    if not text.strip():
        return []
    return [_parse_order(item.strip(), text) for item in text.split(",")]


def _parse_order(item: str, text: str) -> tuple[float, str, int]:
    remedy = 'write orders as SECONDS:+N, SECONDS:-N or SECONDS:workers=N, joined by commas, like --orders "1:+2,8:-3"'
    culprit = f'--orders "{text}"'
    match = _ORDER.fullmatch(item)
    if match is None:
        raise BadUsage(culprit, f'"{item}" is not of the form SECONDS:+N, SECONDS:-N or SECONDS:workers=N', remedy)
    try:
        at_s = float(match["at"])
    except ValueError:
        raise BadUsage(culprit, f'"{match["at"]}" in "{item}" is not a number of seconds', remedy) from None
    if not math.isfinite(at_s) or at_s < 0:
        raise BadUsage(culprit, f'"{item}" falls due at {at_s:g} s, which never comes', remedy)
    count = int(match["count"])
    if count == 0:
        what = "leaves no worker" if match["change"] == "workers=" else "resizes by no node"
        raise BadUsage(culprit, f'"{item}" {what}', remedy)
    return at_s, match["change"], count


def check_transport(text: str) -> None:
    """Refuse what is neither ``tcp`` nor ``mpi``.

    Raises:
        BadUsage: It is neither.
    """
    if text not in TRANSPORTS:
        raise BadUsage(f"--transport {text}", "places talk over tcp or mpi", "give --transport tcp or --transport mpi")


def check_scheduler_loss(text: str) -> None:
    """Refuse what is neither ``end`` nor ``reconnect:SECONDS``.

    Raises:
        BadUsage: It is neither.
    """
    kind, _, seconds = text.partition(":")
    if text == "end":
        return
    try:
        fits = kind == "reconnect" and math.isfinite(float(seconds)) and float(seconds) > 0
    except ValueError:
        fits = False
    if not fits:
        raise BadUsage(
            f"--on-scheduler-loss {text}",
            "a job that loses its scheduler either ends or tries to reconnect for some seconds",
            "give end or reconnect:SECONDS, like reconnect:30",
        )


def check_efficiency(target: float | None, max_nodes: int | None) -> None:
    """Refuse what no job can hold.

    Raises:
        BadUsage: The target is no share of 1, or there is a largest size without a target, or it is none.
    """
    if target is not None and not 0 < target < 1:
        raise BadUsage(
            f"--target-efficiency {target:g}",
            "the efficiency is a share of the nodes' time, above 0 and below 1",
            "give a share, like --target-efficiency 0.9",
        )
    if max_nodes is not None and (target is None or max_nodes < 1):
        why = "a job has 1 node or more" if target is not None else "the job does not ask for nodes"
        raise BadUsage(
            f"--max-nodes {max_nodes}",
            why,
            "give it with --target-efficiency, like --target-efficiency 0.9 --max-nodes 8",
        )


def parse_slow_resizes(text: str) -> tuple[float, float] | None:
    """Parse ``"0.5,1.2"``: seconds added to a grow and to a shrink; empty: None.

    Raises:
        BadUsage: It is not that.
    """
    if not text.strip():
        return None
    try:
        added = [float(part) for part in text.split(",")]
    except ValueError:
        added = []
    if len(added) != 2 or not all(math.isfinite(seconds) and seconds >= 0 for seconds in added):
        raise BadUsage(
            f'--slow-resizes "{text}"',
            "what is added to a grow and to a shrink are two numbers of seconds, not negative",
            "give them like --slow-resizes 0.5,1.2",
        )
    return added[0], added[1]


def parse_hosts(hosts: str | None, hostfile: Path | None) -> tuple[str, ...]:
    """Return the host names of ``--hosts a,b`` or of a hostfile (one ``name`` or ``name:places`` a line, # comments).

    Raises:
        BadUsage: Both are given, the file cannot be read, or a line makes no sense.
    """
    if hosts is not None and hostfile is not None:
        raise BadUsage(f"--hosts {hosts} --hostfile {hostfile}", "the hosts are given twice", "give one of the two")
    if hostfile is not None:
        return _read_hostfile(hostfile)
    if hosts is None:
        return ()
    names = tuple(name.strip() for name in hosts.split(","))
    if not all(names):
        raise BadUsage(f'--hosts "{hosts}"', "a host name is empty", "give names joined by commas, like --hosts a,b")
    return names


def _read_hostfile(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise BadUsage(f"--hostfile {path}", f"cannot read it: {reason}", "give a file with one host a line") from None
    names: list[str] = []
    for number, line in enumerate(lines, 1):
        entry = line.partition("#")[0].strip()
        name, _, places = entry.partition(":")
        if entry and not (name and (places or "1").isdecimal() and " " not in entry):
            raise BadUsage(f"{path}:{number}: {entry}", "not a host", "write one name or name:places a line")
        names += [name] * int(places or "1") if entry else []
    if not names:
        raise BadUsage(f"--hostfile {path}", "it names no host", "write one host a line")
    return tuple(names)


def parse_count(option: str, text: str) -> int:
    """Parse a positive whole number that may be written as ``1e9`` or ``1_000``.

    Raises:
        BadUsage: It is not a whole number, or below 1.
    """
    remedy = f"give a whole number, like {option} 1000000 or {option} 1e9"
    try:
        value = int(text)
    except ValueError:
        try:
            number = float(text)
        except ValueError:
            raise BadUsage(f"{option} {text}", "not a number", remedy) from None
        if not math.isfinite(number) or not number.is_integer():
            raise BadUsage(f"{option} {text}", "not a whole number", remedy) from None
        value = int(number)
    if value < 1:
        raise BadUsage(f"{option} {text}", "must be at least 1", remedy)
    return value
