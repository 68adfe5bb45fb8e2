"""Multi-source Brandes: eight sources at once, level by level, one lane each.

Importing this module compiles the kernel or loads it from numba's cache.

Each vertex has a row of eight numbers (one cache line, one vector register with AVX-512). A level is a list of (vertex,
mask of the lanes that reached it there), in the order of vertex numbers, so that rows are touched in memory order.
Forward, a level pushes its path counts to its successors; backward, it pulls (1 + dependency) / paths from the level
below. Each dependency of a vertex on a source is rounded once, to a multiple of 1 / factor, and summed as a 64-bit
integer. Nothing depends on timing and fast-math is off, so a source adds the same bits on every place, and whichever
sources share its block.

Numbers of shortest paths may exceed what a double holds (a grid of 600 x 600 has more than 2^1023 from corner to
corner). Where those of a level come near that, the level is scaled down, and the dependencies that lead to it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numba import njit

from benchmarks.bc.errors import PathCountError
from benchmarks.bc.reference import LARGEST, SMALLEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.bc.graph import Graph

LANES: Final = 8
SPARSE: Final = 32
"""A level with fewer than 1 / SPARSE of the vertices is sorted; to look for it among all would make a graph of large
diameter slow."""
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
        self.scales = np.ones((active + 2, LANES))
        self.seen = np.zeros(active, np.uint8)
        self.marked = np.zeros(active, np.uint8)
        self.reached = np.zeros(active + 1, np.int32)


def accumulate(graph: Graph, first: int, last: int, factor: float, totals: NDArray[np.int64], space: Workspace) -> None:
    """Add the dependencies of the sources [first, last) to ``totals``, in units of 1 / ``factor``.

    Args:
        graph: The graph.
        first: First source; at most eight sources.
        last: End of the sources; they have edges.
        factor: Units per path; a power of two.
        totals: One number per vertex with an edge.
        space: Used by this call alone.

    Raises:
        PathCountError: The numbers of shortest paths to vertices of the same distance are too far apart.
    """
    out = graph.out
    count = _forward(
        first, last, out.starts, out.neighbours, space.entries, space.masks, space.levels, space.paths, space.here,
        space.scales, space.seen, space.marked, space.reached,
    )  # fmt: skip
    if count < 0:
        raise PathCountError(first, last)
    _backward(
        count, out.starts, out.neighbours, space.entries, space.masks, space.levels, space.paths, space.here,
        space.below, space.scales, space.marked, factor, totals,
    )  # fmt: skip


@njit(nogil=True, cache=True, error_model="numpy")
def _forward(first, last, starts, heads, entries, masks, levels, paths, here, scales, seen, marked, reached):
    """Find levels and path counts; return the number of levels, or -1 if the counts are too far apart.

    ``here`` and ``marked`` are zero before and after.
    """
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
    tops = np.zeros(LANES)
    while levels[depth] > levels[depth - 1]:
        count = _push(
            levels[depth - 1], levels[depth], starts, heads, entries, masks, paths, here, seen, marked, reached
        )
        if SPARSE * count < len(marked):
            reached[:count].sort()
        else:
            count = _list(marked, reached)
        begin = filled
        filled = _settle(filled, reached[:count], entries, masks, paths, here, seen, marked, tops)
        depth += 1
        levels[depth] = filled
        for b in range(LANES):
            scales[depth - 1, b] = 1.0
            if tops[b] > LARGEST:
                scales[depth - 1, b] = SMALLEST
                if not _scale(begin, filled, b, entries, masks, paths):
                    return -1
    return depth - 1


@njit(nogil=True, cache=True, error_model="numpy")
def _push(begin, end, starts, heads, entries, masks, paths, here, seen, marked, reached):
    """Add the path counts of the entries [begin, end) to their successors; mark and list these, return their number."""
    count = 0
    lane = np.zeros(LANES)
    for i in range(begin, end):
        w = entries[i]
        for b in range(LANES):
            lane[b] = paths[w, b] if (masks[i] >> b) & 1 else 0.0
        for e in range(starts[w], starts[w + 1]):
            v = heads[e]
            if seen[v] != _FULL:
                reached[count] = v
                count += 1 - marked[v]
                marked[v] = 1
                for b in range(LANES):
                    here[v, b] += lane[b]
    return count


@njit(nogil=True, cache=True, error_model="numpy")
def _list(marked, reached):
    """List the marked vertices in the order of their numbers; return how many there are."""
    count = 0
    for v in range(len(marked)):
        reached[count] = v
        count += marked[v]
    return count


@njit(nogil=True, cache=True, error_model="numpy")
def _settle(filled, reached, entries, masks, paths, here, seen, marked, tops):
    """Make the next level of the vertices that were reached, in the lanes that saw them first now.

    ``tops`` gets the largest path count of each lane. Return the end of the level.
    """
    tops[:] = 0.0
    for v in reached:
        marked[v] = 0
        mask = 0
        for b in range(LANES):
            x = here[v, b]
            here[v, b] = 0.0
            if x > 0.0 and not (seen[v] >> b) & 1:
                paths[v, b] = x
                tops[b] = max(tops[b], x)
                mask |= 1 << b
        if mask:
            seen[v] |= np.uint8(mask)
            entries[filled] = v
            masks[filled] = mask
            filled += 1
    return filled


@njit(nogil=True, cache=True, error_model="numpy")
def _scale(begin, end, b, entries, masks, paths):
    """Scale the path counts of one lane in a level down; False if that is more than the smallest of them bears."""
    for i in range(begin, end):
        if (masks[i] >> b) & 1:
            if paths[entries[i], b] < 1.0:
                return False
            paths[entries[i], b] *= SMALLEST
    return True


@njit(nogil=True, cache=True, error_model="numpy")
def _backward(count, starts, heads, entries, masks, levels, paths, here, below, scales, marked, factor, totals):
    """Sum the dependencies from the deepest level up; ``here`` and ``marked`` are zero afterwards."""
    first_here = here
    lane = np.zeros(LANES)
    for level in range(count - 1, -1, -1):
        begin, end = levels[level], levels[level + 1]
        unit = factor if level > 0 else 0.0  # a source is no stop on its own paths
        for i in range(begin, end):
            v = entries[i]
            _gather(v, starts, heads, below, marked, lane)
            total = np.int64(0)
            for b in range(LANES):
                here[v, b] = 0.0
                if (masks[i] >> b) & 1:
                    dependency = paths[v, b] * lane[b] * scales[level + 1, b]
                    total += np.int64(dependency * unit + 0.5)
                    here[v, b] = (1.0 + dependency) / paths[v, b]
            totals[v] += total
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
def _gather(v, starts, heads, below, marked, lane):
    """Set ``lane`` to the sum of the rows of the marked successors of ``v``."""
    lane[:] = 0.0
    for e in range(starts[v], starts[v + 1]):
        w = heads[e]
        if marked[w]:
            for b in range(LANES):
                lane[b] += below[w, b]
