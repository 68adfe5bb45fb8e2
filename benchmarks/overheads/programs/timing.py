"""Loops that time calls, alike for all contenders."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

WARM_UP: Final = 20


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
