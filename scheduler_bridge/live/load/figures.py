"""What the measured process says of itself."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from scheduler_bridge.live.journal import Step

_BEAT_S: Final = 0.005
_STATM: Final = Path("/proc/self/statm")


class Spread(msgspec.Struct, frozen=True):
    """How often something happened, and the median, 99th percentile and maximum of its seconds."""

    count: int = 0
    p50_s: float = 0.0
    p99_s: float = 0.0
    max_s: float = 0.0


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's process over ``wall_s`` seconds.

    Attributes:
        wall_s: Length of the time measured.
        cpu_s: CPU time of the process in it, all threads.
        memory_bytes: Resident memory at its end.
        open_files: Open file descriptors at its end.
        message: Messages of jobs, each from being read to what it led to.
        decision: Decisions.
        commit: Writes to the log.
        picture: Pictures of the whole queue.
        stall: How late the event loop was, whatever kept it, looked at about 200 times a second.
    """

    wall_s: float
    cpu_s: float
    memory_bytes: int
    open_files: int
    message: Spread
    decision: Spread
    commit: Spread
    picture: Spread
    stall: Spread


class Gauge:
    """Collects the figures of the process that it is in."""

    def __init__(self) -> None:
        self._seconds: dict[Step, list[float]] = {"message": [], "decision": [], "commit": [], "picture": []}
        self._late: list[float] = []
        self._began_s, self._cpu_s = time.perf_counter(), _cpu_s()

    def note(self, step: Step, seconds: float) -> None:
        """A step took so long."""
        self._seconds[step].append(seconds)

    def begin(self) -> None:
        """Forget all until now."""
        for seconds in (*self._seconds.values(), self._late):
            seconds.clear()
        self._began_s, self._cpu_s = time.perf_counter(), _cpu_s()

    async def beat(self) -> None:
        """See for ever how late the event loop is."""
        while True:
            before = time.perf_counter()
            await asyncio.sleep(_BEAT_S)
            self._late.append(max(0.0, time.perf_counter() - before - _BEAT_S))

    def figures(self) -> Figures:
        """Return what there is since the last ``begin``."""
        wall_s, cpu_s = time.perf_counter() - self._began_s, _cpu_s() - self._cpu_s
        return Figures(
            wall_s=wall_s,
            cpu_s=cpu_s,
            memory_bytes=int(_STATM.read_text(encoding="ascii").split()[1]) * resource.getpagesize(),
            open_files=len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - counted, not used as paths
            stall=spread(self._late),
            **{step: spread(seconds) for step, seconds in self._seconds.items()},
        )


def spread(seconds: Sequence[float]) -> Spread:
    """Return the spread of ``seconds``; percentiles are values that occurred (nearest rank)."""
    if not seconds:
        return Spread()
    ordered = sorted(seconds)
    count = len(ordered)
    return Spread(count, ordered[(count - 1) // 2], ordered[-(-99 * count // 100) - 1], ordered[-1])


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def allow_files(count: int) -> bool:
    """Let this process open about ``count`` files more than it may need itself; False if the system does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + 200
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return True
    if hard != resource.RLIM_INFINITY and hard < needed:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    return True
