"""Processes: who one is beyond its id, which the system gives to others later, and those that carry a job's mark."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PROC = Path("/proc")


def boot() -> str:
    """Return what distinguishes this start of the machine from all others."""
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def identity(pid: int) -> str:
    """Return ``PID.START.BOOT``, which no other process ever has; empty if the process does not run (any more)."""
    try:
        # The name, in parentheses, may hold anything; state is the first field after it, the start time the 20th.
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return ""
    if fields[0] in (b"Z", b"X"):
        return ""
    return f"{pid}.{int(fields[19])}.{boot()}"


def open_process(who: str) -> int | None:
    """Return a handle (pidfd) of the process with this identity, to be closed; None if it is gone, or there is none."""
    if not lives(who):
        return None
    pid = int(who.partition(".")[0])
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return None
    if identity(pid) == who:  # Asked after opening: the handle cannot be another's.
        return handle
    os.close(handle)
    return None


def children(who: str) -> list[str]:
    """Return the identities of the processes whose parent is the one with this identity, which has one thread."""
    pid = who.partition(".")[0]
    try:
        found = (_PROC / pid / "task" / pid / "children").read_text(encoding="ascii").split()
    except OSError:
        return []
    if identity(int(pid)) != who:  # asked after reading: they are not another's
        return []
    return [child for child in map(identity, map(int, found)) if child]


def lives(who: str) -> bool:
    """Whether the process with this identity runs; a text that is none, as in a damaged note, is no process's."""
    pid = who.partition(".")[0]
    return pid.isdecimal() and identity(int(pid)) == who


def send(who: str, number: signal.Signals) -> bool:
    """Send a signal to the process with this identity, and to no other; whether it was there."""
    handle = open_process(who)
    if handle is None:
        return False
    try:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # ended just now, or no more ours
            signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)
    return True


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to all processes of a group that are still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # ended just now, or no more ours
        os.killpg(pid, number)


# What a job left behind, by the mark in its environment --------------------------------------------------------------
#
# Every process of a job inherits ``MALLEABLE_MARK=<uuid>``. Whatever started it and whatever session it moved to, it is
# found in ``/proc/*/environ``. The mark is no secret and stands for nothing else.

ENV_MARK: Final = "MALLEABLE_MARK"
ENV_NODES: Final = "MALLEABLE_NODES"
"""Says to a job on which nodes it is started, commas between."""
_ENV_OWN_NODE: Final = "PMI_HOSTNAME"

_SHARED_MEMORY = Path("/dev/shm")
_SEGMENT = re.compile(r"/dev/shm/(mpich_shm_[A-Za-z0-9_.\-]+|[0-9]+:[0-9]+:[0-9]+(?::[0-9]+)?)")
_PAUSE_S, _EXEC_S = 0.02, 0.002


def marked_processes(mark: str, variable: str = ENV_MARK) -> list[int]:
    """Return the ids of the living processes that carry ``mark`` in a variable, or one that begins with it.

    Zombies, and this process, are not among them.
    """
    return [pid for pid in processes() if pid != os.getpid() and _carries(pid, mark, variable)]


def nodes_of(mark: str) -> set[str]:
    """Return the names of the nodes on which processes that carry ``mark`` were started, as far as they know them.

    A process of an MPI job knows its own node, also one that the job has grown on, all others those of the job's start.
    """
    found: set[str] = set()
    for pid in marked_processes(mark):
        if not _is_ours(pid):  # the mark is no secret, and names files of the job
            continue
        named = dict(entry.split("=", 1) for entry in environment(pid) if "=" in entry)
        found.update((named.get(_ENV_OWN_NODE) or named.get(ENV_NODES, "")).split(","))
    return found - {""}


def end_marked(mark: str, patience_s: float, variable: str = ENV_MARK) -> list[int]:
    """End every process that carries ``mark``: TERM, then KILL after ``patience_s``. Blocks until none is left.

    What they leave of MPI's shared memory is removed.

    Returns:
        The processes that could not be ended within two further seconds; normally none.
    """
    give_up = time.monotonic() + patience_s + 2.0
    kill_from = time.monotonic() + patience_s
    seen, termed, segments = set[int](), set[int](), set[str]()
    left, empty = list[int](), 0
    # one that begins another program has no variables meanwhile: that none is seen must be seen twice
    while empty < 2 and (now := time.monotonic()) < give_up:
        left = marked_processes(mark, variable)
        empty = 0 if left else empty + 1
        segments.update(*map(mapped_segments, set(left) - seen))
        seen.update(left)
        for pid in left:
            who = identity(pid)
            if _carries(pid, mark, variable):  # asked after its identity: it is not one that got the id meanwhile
                if now >= kill_from:
                    send(who, signal.SIGKILL)
                elif pid not in termed:
                    termed.add(pid)
                    send(who, signal.SIGTERM)
        time.sleep(_PAUSE_S if left else _EXEC_S)
    remove_segments(segments)
    return left


def shared_segments(mark: str) -> set[str]:
    """Return the names of MPICH's shared-memory files that processes with ``mark`` have mapped."""
    return set[str]().union(*map(mapped_segments, marked_processes(mark)))


def remove_segments(names: Iterable[str]) -> None:
    """Remove those of the files that no process maps any more."""
    present = {name for name in names if (_SHARED_MEMORY / name).exists()}
    for pid in processes() if present else ():
        present -= mapped_segments(pid)
    for name in present:
        (_SHARED_MEMORY / name).unlink(missing_ok=True)


def processes() -> list[int]:
    """Return the ids of all processes of this machine."""
    return [int(entry) for entry in os.listdir(_PROC) if entry.isdigit()]  # noqa: PTH208 - names only, and often


def _carries(pid: int, mark: str, variable: str) -> bool:
    return any(each.startswith(f"{variable}={mark}") for each in environment(pid))


def _is_ours(pid: int) -> bool:
    with contextlib.suppress(OSError):  # gone meanwhile
        return (_PROC / str(pid)).stat().st_uid == os.geteuid()
    return False


def environment(pid: int) -> list[str]:
    """Return what a process had in its environment when it began, as ``NAME=VALUE``; nothing if that cannot be read."""
    try:
        return (_PROC / str(pid) / "environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:  # Gone meanwhile, or someone else's.
        return []


def mapped_segments(pid: int) -> set[str]:
    """Return the names of MPI's shared-memory files that a process has mapped."""
    try:
        maps = (_PROC / str(pid) / "maps").read_text(errors="replace")
    except OSError:
        return set()
    return set(_SEGMENT.findall(maps))
