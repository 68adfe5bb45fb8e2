"""Sources as tasks, in blocks of eight, and the exact sum of what they contribute.

Floating-point sums depend on their order, hence on who computes what. Here each block's contribution to a vertex is
rounded once to a multiple of 2^-k and summed in 64-bit integers: exactly the same total for any division of the blocks
over places, at any time. k = min(40, 62 - 2 ceil(log2 n)) for n vertices, since no centrality exceeds n^2 and so no
total reaches 2^63. Tolerance: a total is off by at most (n / 8) 2^-(k+1) (3e-5 at scale 17, where the largest
centralities are above 1e7), besides the rounding of doubles inside a block.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Final

from benchmarks.harness.jit import has_numba, setup_cache
from benchmarks.harness.ranges import RangeBag, Ranges

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from benchmarks.bc.graph import Graph
    from benchmarks.bc.kernel import Workspace

BLOCK_SOURCES: Final = 8


def fraction_bits(vertices: int) -> int:
    """Return k, the number of binary digits after the point in a total."""
    return min(40, 62 - 2 * (vertices - 1).bit_length())


class Solver:
    """The kernel on one graph; may be called from several threads.

    Args:
        graph: The graph.
        compiled: Whether to use numba; by default, where it is installed.
    """

    def __init__(self, graph: Graph, compiled: bool | None = None) -> None:
        self.graph = graph
        self._factor = 2.0 ** fraction_bits(graph.vertices)
        self._accumulate: Callable[[int, int, NDArray[np.int64]], None] = self._plain
        if has_numba() if compiled is None else compiled:
            setup_cache()
            from benchmarks.bc import kernel

            self._kernel = kernel
            self._free: list[Workspace] = []
            self._accumulate = self._fast

    def zeros(self) -> NDArray[np.int64]:
        """Return totals that nothing went into: one number per vertex with an edge."""
        import numpy as np

        return np.zeros(self.graph.active, np.int64)

    def accumulate(self, first: int, last: int, totals: NDArray[np.int64]) -> None:
        """Add the sources [first, last) to ``totals``; ``first`` is a multiple of eight."""
        last = min(last, self.graph.active)  # vertices without edges come last and contribute nothing
        for start in range(first, last, BLOCK_SOURCES):
            self._accumulate(start, min(start + BLOCK_SOURCES, last), totals)

    def _plain(self, first: int, last: int, totals: NDArray[np.int64]) -> None:
        from benchmarks.bc import reference

        reference.accumulate(self.graph, first, last, self._factor, totals)

    def _fast(self, first: int, last: int, totals: NDArray[np.int64]) -> None:
        try:
            space = self._free.pop()
        except IndexError:
            space = self._kernel.Workspace(self.graph.active)
        self._kernel.accumulate(self.graph, first, last, self._factor, totals, space)
        self._free.append(space)


_loading = threading.Lock()


def load_solver(scale: int, seed: int) -> Solver:
    """Return this place's solver; the first call generates the graph and loads the kernel."""
    with _loading:
        return _load(scale, seed)


@functools.lru_cache(maxsize=1)
def _load(scale: int, seed: int) -> Solver:
    from benchmarks.bc.graph import rmat

    solver = Solver(rmat(scale, seed))
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

    def summary(self, bits: int) -> dict[str, float]:
        """Return the sum and the maximum over all vertices; ``bits`` is the k of the totals."""
        if self.totals is None or not len(self.totals):
            return {"sum": 0.0, "maximum": 0.0}
        unit = 2.0**-bits
        return {"sum": sum(self.totals.tolist()) * unit, "maximum": int(self.totals.max()) * unit}


class BCBag(RangeBag[Centrality]):
    """A bag of sources.

    Args:
        sources: The sources held.
        scale: Two to this power is the number of vertices.
        seed: Seed of the graph.
    """

    def __init__(self, sources: Ranges, scale: int, seed: int) -> None:
        super().__init__(sources)
        self._instance = scale, seed

    @classmethod
    def whole(cls, scale: int, seed: int) -> BCBag:
        """Return the bag of all sources."""
        return cls(Ranges([(0, 1 << scale)], BLOCK_SOURCES), scale, seed)

    def _neutral(self) -> Centrality:
        return Centrality()

    def _with(self, tasks: Ranges) -> BCBag:
        return BCBag(tasks, *self._instance)

    def _compute(self, first: int, last: int, partial: Centrality) -> None:
        solver = load_solver(*self._instance)
        if partial.totals is None:
            partial.totals = solver.zeros()
        solver.accumulate(first, last, partial.totals)
