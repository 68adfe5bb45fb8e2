"""Sources as tasks, in blocks of sixteen, and the exact sum of what they contribute.

Floating-point sums depend on their order, hence on who computes what. Here what one source contributes to one vertex,
its dependency, is rounded once to a multiple of 2^-k and summed in 64-bit integers: exactly the same total for any
division of the sources over blocks, workers and places, at any time.

No overflow: the dependency of a vertex on a source is at most n - 2, the number of other ends, so a total is at most
n (n - 2) 2^k, and k = min(40, 62 - 2 ceil(log2 n)) for n vertices makes that less than 2^62. Rounding up adds at most
one half per source, less than 2^31 in all; the largest n is 2^31 - 1. A dependency itself is below 2^51 units, where
adding one half and cutting off is exact.

Precision: a total is off by at most n 2^-(k+1), if every single rounding went the same way (2.4e-4 at scale 17, where
the largest centralities are above 1e7; the square root of n instead of n, 7e-7, is what to expect), besides the
rounding of doubles in the dependencies, a few units in the 16th digit of each.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..harness.jit import has_numba
from ..harness.ranges import RangeBag

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .graph import Graph, Instance

BLOCK_SOURCES: Final = 16


def fraction_bits(vertices: int) -> int:
    """Return k, the number of binary digits after the point in a total."""
    return min(40, 62 - 2 * (vertices - 1).bit_length())


def factor_of(vertices: int) -> float:
    """Return 2^k, the units in one."""
    return 2.0 ** fraction_bits(vertices)


class Solver:
    """The kernel on one graph; may be called from several threads.

    Args:
        graph: The graph.
        compiled: Whether to use numba; by default, where it is installed.

    Attributes:
        sources: The vertices that contribute, in the same order on every place.
    """

    def __init__(self, graph: Graph, compiled: bool | None = None) -> None:
        self.graph = graph
        self.sources = graph.sources()
        factor = factor_of(graph.vertices)
        self._accumulate: Callable[[NDArray[np.uint32], NDArray[np.int64]], None]
        if has_numba() if compiled is None else compiled:
            from .kernel import Kernel

            self._accumulate = Kernel(graph, factor).accumulate
        else:
            from . import reference

            self._accumulate = functools.partial(reference.accumulate, graph, factor)

    def zeros(self) -> NDArray[np.int64]:
        """Return totals that nothing went into: one number per vertex with an edge."""
        import numpy as np

        return np.zeros(self.graph.active, np.int64)

    def accumulate(self, first: int, last: int, totals: NDArray[np.int64]) -> None:
        """Add the sources [first, last) of ``sources`` to ``totals``, in blocks that begin with ``first``."""
        last = min(last, len(self.sources))  # the other vertices contribute nothing
        for start in range(first, last, BLOCK_SOURCES):
            self._accumulate(self.sources[start : min(start + BLOCK_SOURCES, last)], totals)


_loading = threading.Lock()


def load_solver(instance: Instance) -> Solver:
    """Return this place's solver; the first call generates or fetches the graph and loads the kernel."""
    with _loading:
        return _load(instance)


@functools.lru_cache(maxsize=1)
def _load(instance: Instance) -> Solver:
    solver = Solver(instance.graph())
    solver.accumulate(0, 1, solver.zeros())  # the first call compiles the kernel, or loads it
    return solver


class Centrality:
    """The folded result: a total per vertex in units of 2^-k, or None while nothing went in."""

    def __init__(self, totals: NDArray[np.int64] | None = None) -> None:
        self.totals = totals

    def merge(self, other: Centrality) -> None:
        """Add the totals of ``other``."""
        if other.totals is None:
            return
        if self.totals is None:
            self.totals = other.totals.copy()
        else:
            self.totals += other.totals


class BCBag(RangeBag[Centrality, "Instance"]):
    """A bag of sources.

    The problem is the graph.
    """

    result = Centrality
    grain = BLOCK_SOURCES

    def _compute(self, first: int, last: int, partial: Centrality) -> None:
        solver = load_solver(self._problem)
        if partial.totals is None:
            partial.totals = solver.zeros()
        solver.accumulate(first, last, partial.totals)
