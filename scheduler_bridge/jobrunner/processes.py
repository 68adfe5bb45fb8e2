"""Who a process is, beyond its id, which the system gives to others later."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

_PROC = Path("/proc")


def boot() -> str:
    """What tells this start of the machine from all others."""
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
    """Return a handle (pidfd) of the process with this identity, to be closed; None if it is gone."""
    pid = int(who.partition(".")[0])
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return None
    if identity(pid) == who:  # Asked after opening: the handle cannot be another's.
        return handle
    os.close(handle)
    return None


def send(who: str, number: signal.Signals) -> bool:
    """Send a signal to the process with this identity, and to no other; whether it was there."""
    handle = open_process(who)
    if handle is None:
        return False
    try:
        with contextlib.suppress(ProcessLookupError):  # ended just now
            signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)
    return True


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to all processes of a group that are still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # ended just now, or no more ours
        os.killpg(pid, number)
