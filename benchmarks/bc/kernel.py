"""The compiled kernel of centrality as the rest of the benchmark calls it: the arrays that it works on, and the calls.

The kernel itself, ``vector``, is compiled once per machine and loaded without numba where that is possible. numba's own
cache watches the module ``vector`` only: after a change of the fields below, touch it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..harness.machine_code import load_kernels
from .graph import Graph, PathCountError

LANES: Final = 16
GROUP: Final = 64
"""Vertices of which it is noted together whether the search may have reached one."""
_LINE: Final = 64
"""Bytes of a cache line: a row that begins elsewhere than a line costs one access more."""


@cache
def compiled() -> Any:
    """Return the compiled functions: ``accumulate`` and ``search``."""
    return load_kernels(f"{__package__}.vector")


def _table(count: int) -> NDArray[np.float64]:
    """Return ``count`` rows of zeros, each beginning with a cache line."""
    words = np.zeros(count * LANES + _LINE // 8)
    skipped = -words.ctypes.data % _LINE // 8
    return words[skipped : skipped + count * LANES].reshape(count, LANES)


class Links(NamedTuple):
    """The edges of a graph, from both sides; ``busiest`` is the largest number of edges that lead to a vertex."""

    starts: NDArray[np.uint64]
    heads: NDArray[np.uint32]
    back_starts: NDArray[np.uint64]
    tails: NDArray[np.uint32]
    busiest: float

    @classmethod
    def of(cls, graph: Graph) -> Links:
        """Return the edges of ``graph``."""
        busiest = float(np.diff(graph.into.starts).max(initial=0))
        # an index without a sign spares numba the question whether it counts from the end; what came in a message may
        # not be written, and the kernel is compiled for arrays that may
        sides = [
            (
                np.require(side.starts.view(np.uint64), requirements=["C", "W"]),
                np.require(side.neighbours.view(np.uint32), requirements=["C", "W"]),
            )
            for side in (graph.out, graph.into)
        ]
        return cls(*sides[0], *sides[1], busiest)


class Workspace(NamedTuple):
    """The arrays of one run of the kernel at a time; zero between runs: ``fresh``, ``touched``, ``front``.

    Attributes:
        sources: Those of a call.
        entries: Vertices of the levels, one level after the other.
        masks: The lanes of each.
        levels: Where each level begins.
        leaving: Edges that leave each level.
        leading: Edges that lead to each level.
        scaled: The lanes in which the path counts of each level were scaled.
        seen: The lanes that have reached each vertex.
        fresh: The lanes in which the search has come to each vertex from the level at hand.
        touched: Whether it came to any of a group of vertices.
        front: The lanes of the level at hand.
        paths: Path counts.
        shares: (1 + dependency) / paths.
        sums: What a level takes; anything for other vertices.
    """

    sources: NDArray[np.uint32]
    entries: NDArray[np.uint32]
    masks: NDArray[np.uint16]
    levels: NDArray[np.int64]
    leaving: NDArray[np.int64]
    leading: NDArray[np.int64]
    scaled: NDArray[np.uint16]
    seen: NDArray[np.uint16]
    fresh: NDArray[np.uint16]
    touched: NDArray[np.uint8]
    front: NDArray[np.uint16]
    paths: NDArray[np.float64]
    shares: NDArray[np.float64]
    sums: NDArray[np.float64]

    @classmethod
    def of_size(cls, active: int) -> Workspace:
        """Return the arrays for a graph with ``active`` vertices that have edges."""
        most_levels = active + 2  # a shortest path visits each vertex once
        groups = -(-active // GROUP)
        return cls(
            sources=np.zeros(LANES, np.uint32),
            entries=np.zeros(LANES * active + 1, np.uint32),
            masks=np.zeros(LANES * active + 1, np.uint16),
            levels=np.zeros(most_levels, np.int64),
            leaving=np.zeros(most_levels, np.int64),
            leading=np.zeros(most_levels, np.int64),
            scaled=np.zeros(most_levels, np.uint16),
            seen=np.zeros(GROUP * groups, np.uint16),
            fresh=np.zeros(GROUP * groups, np.uint16),
            touched=np.zeros(groups, np.uint8),
            front=np.zeros(active, np.uint16),
            paths=_table(active),
            shares=_table(active),
            sums=_table(active),
        )


class Kernel:
    """The kernel on one graph; may be called from several threads. ``factor``: units per path, a power of two."""

    def __init__(self, graph: Graph, factor: float) -> None:
        self._links = Links.of(graph)
        self._active = graph.active
        self._factor = factor
        self._free: list[Workspace] = []

    def accumulate(self, sources: NDArray[np.uint32], totals: NDArray[np.int64]) -> None:
        """Add the dependencies of the sources to ``totals``, in units of 1 / ``factor``.

        Args:
            sources: At most sixteen vertices with edges, all different.
            totals: One number per vertex with an edge.

        Raises:
            PathCountError: The numbers of shortest paths to vertices of the same distance are too far apart.
        """
        try:
            space = self._free.pop()
        except IndexError:
            space = Workspace.of_size(self._active)
        count, links = len(sources), self._links
        space.sources[:count] = sources  # the same array each time: to take others to pieces takes longer than to copy
        failed = compiled().accumulate(links.busiest, count, self._factor, totals, *links[:-1], *space)
        if failed >= 0:
            raise PathCountError(int(sources[failed]))
        self._free.append(space)
