"""Whether anything of a run is still there: every process of it carries a mark in its environment."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

ENV_RUN: Final = "MALLEABLE_DEMO"


def running(mark: str) -> list[int]:
    """Return the ids of living processes, other than this one, that were started with ``ENV_RUN=mark``."""
    wanted = f"{ENV_RUN}={mark}".encode()
    return [pid for pid in _processes() if pid != os.getpid() and wanted in _environment(pid)]


def wait_gone(mark: str, patience_s: float = 1.0) -> list[int]:
    """Return what is left of ``mark`` after at most ``patience_s``: processes may need a moment to be reaped."""
    until_s = time.monotonic() + patience_s
    while (left := running(mark)) and time.monotonic() < until_s:
        time.sleep(0.05)
    return left


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environment(pid: int) -> list[bytes]:
    try:
        # A zombie's environment reads as empty: what only waits to be reaped does not run.
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # gone meanwhile, or someone else's
        return []
