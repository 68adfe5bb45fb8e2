"""Samples as tasks. A sample is a number; so any division of them over places, at any time, gives the same hits."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.harness.jit import has_numba, setup_cache
from benchmarks.harness.ranges import Ranges
from benchmarks.pi import reference

if TYPE_CHECKING:
    from collections.abc import Callable

GRAIN_SAMPLES: Final = 1 << 12
"""Samples that stay together when a bag is split; even, since a counter yields two."""


@functools.cache
def load_kernel() -> Callable[[int, int, int], int]:
    """Return the count of hits over counters: compiled where numba is installed, else in NumPy with the same bits."""
    if not has_numba():
        return reference.count_hits
    setup_cache()
    from benchmarks.pi.kernel import count_hits

    return count_hits  # type: ignore[no-any-return]


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


class PiBag:
    """A bag of samples.

    Args:
        samples: The samples held.
        seed: Key of the generator, 64 bits.

    Attributes:
        work: Samples drawn by this instance.
    """

    def __init__(self, samples: Ranges, seed: int) -> None:
        self.work = 0
        self._samples = samples
        self._seed = seed
        self._partial = Hits()

    @classmethod
    def whole(cls, samples: int, seed: int) -> PiBag:
        """Return the bag of all ``samples``."""
        return cls(Ranges([(0, samples)], GRAIN_SAMPLES), seed)

    def __len__(self) -> int:
        return len(self._samples)

    def process(self, n: int) -> bool:
        """Draw about ``n`` samples; True while some remain."""
        for first, last in self._samples.take(n):
            self._partial.merge(Hits(count_span(first, last, self._seed), last - first))
            self.work += last - first
        return bool(self._samples)

    def split(self, all: bool) -> PiBag | None:  # noqa: A002 (the protocol's name)
        """Give half of the samples, or all of them; None if there is nothing to give."""
        given = self._samples.take_all() if all else self._samples.take_half()
        return PiBag(given, self._seed) if given else None

    def partition(self, k: int) -> list[PiBag]:
        """Give everything as ``k`` bags of the same size; the first carries what was drawn so far."""
        bags = [PiBag(samples, self._seed) for samples in self._samples.partition(k)]
        self.submit(bags[0]._partial)
        return bags

    def merge(self, other: PiBag) -> None:
        """Take the samples and the partial result of ``other``."""
        self._samples.add(other._samples)
        other.submit(self._partial)

    def is_empty(self) -> bool:
        """Tell whether no sample is left."""
        return not self._samples

    def is_splittable(self) -> bool:
        """Tell whether ``split(False)`` would give something."""
        return self._samples.is_splittable()

    def submit(self, result: Hits) -> None:
        """Move the partial result into ``result``."""
        result.merge(self._partial)
        self._partial = Hits()
