"""Samples as tasks. A sample is a number; so any division of them over places, at any time, gives the same hits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from ..harness.jit import has_numba
from ..harness.machine_code import load_kernels
from ..harness.ranges import RangeBag
from . import reference


@functools.cache
def load_kernel() -> Callable[[int, int, int], int]:
    """Return the count of hits over counters: compiled where numba is installed, else in NumPy with the same bits."""
    kernels = load_kernels(f"{__package__}.kernel") if has_numba() else reference
    count_hits: Callable[[int, int, int], int] = kernels.count_hits
    return count_hits


def count_span(first: int, last: int, seed: int) -> int:
    """Count the hits among the samples [first, last); ``first`` is even."""
    hits = int(load_kernel()(first // 2, last // 2, seed))
    return hits + (last % 2 == 1 and reference.is_hit(last - 1, seed))


@dataclass
class Hits:
    """The folded result: how many points of how many fell into the quarter circle."""

    hits: int = 0
    samples: int = 0

    def merge(self, other: Hits) -> None:
        """Add the counts of ``other``."""
        self.hits += other.hits
        self.samples += other.samples

    @property
    def pi(self) -> float:
        """Four times the share of hits."""
        return 4 * self.hits / self.samples


class PiBag(RangeBag[Hits, int]):
    """A bag of samples.

    The problem is the key of the generator, 64 bits.
    """

    result = Hits
    grain = 1 << 12
    """Even, since a counter yields two samples."""

    def _compute(self, first: int, last: int, partial: Hits) -> None:
        partial.merge(Hits(count_span(first, last, self._problem), last - first))
