"""Finding and ending what a job left behind, by the mark in its environment.

Every process of a job inherits ``MALLEABLE_MARK=<uuid>``. Whoever started it and whatever session it moved to, it is
found in ``/proc/*/environ``. The mark is no secret and stands for nothing else.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ENV_MARK: Final = "MALLEABLE_MARK"

_PROC = Path("/proc")
_SHARED_MEMORY = Path("/dev/shm")
_SEGMENT = re.compile(r"/dev/shm/(mpich_shm_[A-Za-z0-9_.\-]+)")
_PAUSE_S = 0.02


def new_mark() -> str:
    """Return a mark that no other job has."""
    return uuid.uuid4().hex


def marked_processes(mark: str) -> list[int]:
    """Return the ids of the living processes that carry ``mark`` (zombies and this process excepted)."""
    return [pid for pid in _processes() if pid != os.getpid() and _carries(pid, mark)]


def end_marked(mark: str, patience_s: float) -> list[int]:
    """End every process that carries ``mark``: TERM, then KILL after ``patience_s``. Blocks until none is left.

    Returns:
        The processes that could not be ended within two further seconds; normally none.
    """
    give_up = time.monotonic() + patience_s + 2.0
    kill_from = time.monotonic() + patience_s
    termed: set[int] = set()
    while left := marked_processes(mark):
        now = time.monotonic()
        if now >= give_up:
            return left
        for pid in left:
            if now >= kill_from:
                _signal(pid, mark, signal.SIGKILL)
            elif pid not in termed:
                termed.add(pid)
                _signal(pid, mark, signal.SIGTERM)
        time.sleep(_PAUSE_S)
    return []


def shared_segments(mark: str) -> set[str]:
    """Return the names of MPICH's shared-memory files that processes with ``mark`` have mapped."""
    found: set[str] = set()
    for pid in marked_processes(mark):
        found |= _mapped_segments(pid)
    return found


def remove_segments(names: Iterable[str]) -> list[str]:
    """Remove those of the files that nobody maps any more; return the names of the removed ones."""
    present = {name for name in names if (_SHARED_MEMORY / name).exists()}
    if not present:
        return []
    for pid in _processes():
        present -= _mapped_segments(pid)
    for name in present:
        (_SHARED_MEMORY / name).unlink(missing_ok=True)
    return sorted(present)


def _processes() -> list[int]:
    return [int(entry) for entry in os.listdir(_PROC) if entry.isdigit()]  # noqa: PTH208 - names only, and often


def _carries(pid: int, mark: str) -> bool:
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:  # Gone meanwhile, or someone else's.
        return False
    return f"{ENV_MARK}={mark}".encode() in environment.split(b"\0")


def _mapped_segments(pid: int) -> set[str]:
    try:
        maps = (_PROC / str(pid) / "maps").read_text(errors="replace")
    except OSError:
        return set()
    return set(_SEGMENT.findall(maps))


def _signal(pid: int, mark: str, number: signal.Signals) -> None:
    """Send ``number`` to the process that carries ``mark``, and to no other that got its id meanwhile."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # ended just now, or not ours any more
        handle = os.pidfd_open(pid)
        try:
            if _carries(pid, mark):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
