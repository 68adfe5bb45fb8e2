"""Multi-source Brandes: eight sources at once, level by level, one lane each.

Importing this module compiles the kernel or loads it from numba's cache.

Each vertex has a row of eight numbers (one cache line, one vector register with AVX-512). A level is a list of (vertex,
mask of the lanes that reached it there), in the order of vertex numbers, so that rows are touched in memory order.
Forward, a level pushes its path counts to its successors; backward, it pulls (1 + dependency) / paths from the level
below. Nothing depends on timing and fast-math is off: a block of sources gives the same bits on every place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.bc.graph import Graph

LANES: Final = 8
_FULL: Final = np.uint8(255)


class Workspace:
    """The arrays of one run of the kernel at a time.

    Args:
        active: Vertices with an edge.
    """

    def __init__(self, active: int) -> None:
        self.entries = np.zeros(LANES * active, np.int32)
        self.masks = np.zeros(LANES * active, np.uint8)
        self.levels = np.zeros(active + 2, np.int64)  # a shortest path visits each vertex once
        self.paths = np.zeros((active, LANES))
        self.here = np.zeros((active, LANES))
        self.below = np.zeros((active, LANES))
        self.seen = np.zeros(active, np.uint8)
        self.marked = np.zeros(active, np.uint8)


def accumulate(graph: Graph, first: int, last: int, factor: float, totals: NDArray[np.int64], space: Workspace) -> None:
    """Add the dependencies of the sources [first, last) to ``totals``, in units of 1 / ``factor``.

    Args:
        graph: The graph.
        first: First source; at most eight sources.
        last: End of the sources; they have edges.
        factor: Units per path; a power of two.
        totals: One number per vertex with an edge.
        space: Used by this call alone.
    """
    out = graph.out
    count = _forward(
        first, last, out.starts, out.neighbours, space.entries, space.masks, space.levels, space.paths, space.here,
        space.seen, space.marked,
    )  # fmt: skip
    _backward(
        count, out.starts, out.neighbours, space.entries, space.masks, space.levels, space.paths, space.here,
        space.below, space.marked, factor, totals,
    )  # fmt: skip


@njit(nogil=True, cache=True, error_model="numpy")
def _forward(first, last, starts, heads, entries, masks, levels, paths, here, seen, marked):
    """Find levels and path counts; return the number of levels. ``here`` and ``marked`` are zero before and after."""
    seen[:] = 0
    filled = 0
    for source in range(first, last):
        bit = np.uint8(1 << (source - first))
        entries[filled] = source
        masks[filled] = bit
        seen[source] = bit
        paths[source, source - first] = 1.0
        filled += 1
    levels[0], levels[1] = 0, filled
    depth = 1
    while levels[depth] > levels[depth - 1]:
        _push(levels[depth - 1], levels[depth], starts, heads, entries, masks, paths, here, seen, marked)
        filled = _settle(filled, entries, masks, paths, here, seen, marked)
        depth += 1
        levels[depth] = filled
    return depth - 1


@njit(nogil=True, cache=True, error_model="numpy")
def _push(begin, end, starts, heads, entries, masks, paths, here, seen, marked):
    """Add the path counts of the entries [begin, end) to their successors, and mark these."""
    lane = np.zeros(LANES)
    for i in range(begin, end):
        w = entries[i]
        for b in range(LANES):
            lane[b] = paths[w, b] if (masks[i] >> b) & 1 else 0.0
        for e in range(starts[w], starts[w + 1]):
            v = heads[e]
            if seen[v] != _FULL:
                marked[v] = 1
                for b in range(LANES):
                    here[v, b] += lane[b]


@njit(nogil=True, cache=True, error_model="numpy")
def _settle(filled, entries, masks, paths, here, seen, marked):
    """Make the next level of the marked vertices, in the lanes that saw them first now; return the end of the level."""
    for v in range(len(marked)):
        if not marked[v]:
            continue
        marked[v] = 0
        mask = 0
        for b in range(LANES):
            x = here[v, b]
            here[v, b] = 0.0
            if x > 0.0 and not (seen[v] >> b) & 1:
                paths[v, b] = x
                mask |= 1 << b
        if mask:
            seen[v] |= np.uint8(mask)
            entries[filled] = v
            masks[filled] = mask
            filled += 1
    return filled


@njit(nogil=True, cache=True, error_model="numpy")
def _backward(count, starts, heads, entries, masks, levels, paths, here, below, marked, factor, totals):
    """Sum the dependencies from the deepest level up; ``here`` and ``marked`` are zero afterwards."""
    first_here = here
    lane = np.zeros(LANES)
    for level in range(count - 1, -1, -1):
        begin, end = levels[level], levels[level + 1]
        unit = factor if level > 0 else 0.0  # a source is no stop on its own paths
        for i in range(begin, end):
            v = entries[i]
            through = _pull(v, masks[i], starts, heads, paths, here, below, marked, lane)
            totals[v] += np.int64(through * unit + 0.5)
        if level + 1 < count:
            for i in range(end, levels[level + 2]):
                marked[entries[i]] = 0
        for i in range(begin, end):
            marked[entries[i]] = 1
        here, below = below, here
    for i in range(levels[0], levels[1]):
        marked[entries[i]] = 0
    first_here[:] = 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def _pull(v, mask, starts, heads, paths, here, below, marked, lane):
    """Set the row of ``v`` from its marked successors; return its dependency, summed over the lanes in ``mask``."""
    lane[:] = 0.0
    for e in range(starts[v], starts[v + 1]):
        w = heads[e]
        if marked[w]:
            for b in range(LANES):
                lane[b] += below[w, b]
    through = 0.0
    for b in range(LANES):
        here[v, b] = 0.0
        if (mask >> b) & 1:
            dependency = paths[v, b] * lane[b]
            through += dependency
            here[v, b] = (1.0 + dependency) / paths[v, b]
    return through
