"""Readers of options' texts, which refuse what cannot work before anything starts: they raise ``BadUsage``."""

from __future__ import annotations

import math
from pathlib import Path

from apgas.errors import UsageError

from .errors import BadUsage

TRANSPORTS = ("tcp", "mpi")


def check_orders(text: str) -> None:
    """Refuse what is no schedule of resizes, like ``"1.5:+2,3:workers=1"``; none is one, too.

    Its items have the form SECONDS:+N, SECONDS:-N or SECONDS:workers=N with SECONDS >= 0 and N >= 1.
    """
    from apgas.runtime.resizing import parse_orders

    try:
        for item in text.split(",") if text.strip() else ():
            parse_orders(item)  # one by one, for the runtime passes over items that are empty
    except UsageError as error:
        raise BadUsage(
            f'--orders "{text}"',
            str(error),
            'write orders as SECONDS:+N, SECONDS:-N or SECONDS:workers=N, joined by commas, like --orders "1:+2,8:-3"',
        ) from None


def check_transport(text: str) -> None:
    """Refuse what is neither ``tcp`` nor ``mpi``."""
    if text not in TRANSPORTS:
        raise BadUsage(f"--transport {text}", "places talk over tcp or mpi", "give --transport tcp or --transport mpi")


def check_scheduler_loss(text: str) -> None:
    """Refuse what is neither ``end`` nor ``reconnect:SECONDS``."""
    from apgas.malleability.communicator import reconnect_s

    try:
        reconnect_s(text)
    except UsageError:
        raise BadUsage(
            f"--on-scheduler-loss {text}",
            "a job that loses its scheduler either ends or tries to reconnect for some seconds",
            "give end or reconnect:SECONDS, like reconnect:30",
        ) from None


def check_efficiency(target: float | None, max_nodes: int | None) -> None:
    """Refuse a target that is no share of 1, and a largest size that is none, or without a target."""
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
    """Parse ``"0.5,1.2"``: seconds added to a grow and to a shrink; empty: None."""
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

    Not both may be given.
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
    """Parse a positive whole number that may be written as ``1e9`` or ``1_000``."""
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
