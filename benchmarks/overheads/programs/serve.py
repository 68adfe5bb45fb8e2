"""What all contenders use: their configuration, pinning, loops that time calls, the end of processes.

Nothing heavy is imported here: the floors are measured with it.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

WARM_UP: Final = 20
"""Calls before those that are timed."""


@dataclass(frozen=True)
class Config:
    """How a contender is to set itself up.

    Attributes:
        places: Processes, the caller among them.
        cpus: The cores to pin the caller and the other to; empty: no pinning.
    """

    places: int
    cpus: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Config:
        """Read the JSON that ``written`` wrote."""
        content = json.loads(text)
        return cls(content["places"], tuple(content["cpus"]))

    def written(self) -> str:
        """Write it as JSON."""
        return json.dumps({"places": self.places, "cpus": self.cpus})


def pin(cpu: int) -> None:
    """Pin every thread of this process, and those that they start, to one core."""
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - names are what is wanted
        os.sched_setaffinity(int(thread), {cpu})


def load_numpy() -> None:
    """Load NumPy, as a place does that computes."""
    __import__("numpy")


def memory_with_numpy() -> dict[str, float]:
    """Return what this process takes once NumPy is loaded."""
    from ...harness import procfs

    load_numpy()
    return procfs.memory()


def load_numba() -> None:
    """Load Numba, as a place does that computes."""
    __import__("numba")


def load_optional(name: str) -> Any:
    """Import a module that may not be installed, and that has no types for us.

    Raises:
        ImportError: It is not installed.
    """
    return importlib.import_module(name)


# Timing, alike for all contenders ------------------------------------------------------------------------------------


def timed(call: Callable[[], object], n: int, limit_s: float) -> list[float]:
    """Return the seconds of up to ``n`` calls, fewer if ``limit_s`` is over, after some that are not timed."""
    clock = time.perf_counter
    began_s = clock()
    for _ in range(WARM_UP):
        call()
        if clock() - began_s > limit_s:
            break
    until_s = clock() + limit_s
    samples: list[float] = []
    while len(samples) < n and (not samples or clock() < until_s):
        before_s = clock()
        call()
        samples.append(clock() - before_s)
    return samples


def per_second(batch: Callable[[int], object], n: int, limit_s: float) -> float:
    """Return how many items a second ``batch(items)`` does: ``n`` at once, or as many as ``limit_s`` seems to allow.

    The small batch is the warm-up, too.
    """
    small = max(1, min(n, 100))
    batch(small)
    items = max(small, min(n, int(small / _seconds(batch, small) * limit_s)))
    return items / _seconds(batch, items)


def _seconds(batch: Callable[[int], object], items: int) -> float:
    before_s = time.perf_counter()
    batch(items)
    return time.perf_counter() - before_s


# Waiting for processes to end ----------------------------------------------------------------------------------------


class Ends:
    """Handles on processes, opened while they live: their end is noticed at once, whoever their parent is.

    Args:
        pids: The processes.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._handles = [os.pidfd_open(pid) for pid in pids]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for handle in self._handles:
            os.close(handle)

    def wait(self, limit_s: float) -> None:
        """Wait until all have ended.

        Raises:
            TimeoutError: Some live on.
        """
        until_s = time.monotonic() + limit_s
        for handle in self._handles:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            if not poll.poll(max(0.0, until_s - time.monotonic()) * 1000):
                raise TimeoutError(f"processes live on after {limit_s:g} s")
