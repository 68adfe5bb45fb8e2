"""Multi-source Brandes: eight sources at once, level by level, one lane each.

Importing this module compiles the kernel or loads it from numba's cache.

Each vertex has a row of eight numbers (one cache line, one vector register with AVX-512). A level is a list of (vertex,
mask of the lanes that reached it there), in the order of vertex numbers, so that rows are touched in memory order. Path
counts flow from a level to the next, then (1 + dependency) / paths flows back.

Either way there are two ways to go about it: the level that gives scans its edges, or the one that takes. A level of
few hubs has most edges of the graph, the one behind it nearly all vertices, and what follows has few of either; so the
side with fewer edges scans. Both add the same numbers in the same order, that of the giving vertices. Source of the
idea: Beamer et al., "Direction-optimizing breadth-first search", SC 2012.

Each dependency of a vertex on a source is rounded once, to a multiple of 1 / factor, and summed as a 64-bit integer.
Nothing depends on timing and fast-math is off, so a source adds the same bits on every place, and whichever sources
share its block.

Numbers of shortest paths may exceed what a double holds (a grid of 600 x 600 has more than 2^1023 from corner to
corner). Where those of a level come near that, the level is scaled down, and the dependencies that lead to it, too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .graph import Graph, PathCountError
from .reference import LARGEST, SMALLEST

LANES: Final = 8
SPARSE: Final = 32
"""A level with fewer than 1 / SPARSE of the vertices is sorted; to look for it among all would make a graph of large
diameter slow."""
_FULL: Final = np.uint8(255)


class Links(NamedTuple):
    """The edges of a graph, from both sides."""

    starts: NDArray[np.int64]
    heads: NDArray[np.int32]
    back_starts: NDArray[np.int64]
    tails: NDArray[np.int32]

    @classmethod
    def of(cls, graph: Graph) -> Links:
        """Return the edges of ``graph``."""
        return cls(graph.out.starts, graph.out.neighbours, graph.into.starts, graph.into.neighbours)


class Workspace(NamedTuple):
    """The arrays of one run of the kernel at a time; zero between runs: ``here`` and ``marked``.

    Attributes:
        entries: Vertices of the levels, one level after the other.
        masks: The lanes of each.
        levels: Where each level begins.
        out_edges: Edges that leave each level.
        in_edges: Edges that lead to each level.
        scales: By what each level was scaled, per lane.
        paths: Path counts.
        here: Numbers of the level at hand.
        below: Numbers of the level before.
        seen: The lanes that have reached each vertex.
        marked: Members of a level.
        reached: Candidates of a level.
    """

    entries: NDArray[np.int32]
    masks: NDArray[np.uint8]
    levels: NDArray[np.int64]
    out_edges: NDArray[np.int64]
    in_edges: NDArray[np.int64]
    scales: NDArray[np.float64]
    paths: NDArray[np.float64]
    here: NDArray[np.float64]
    below: NDArray[np.float64]
    seen: NDArray[np.uint8]
    marked: NDArray[np.uint8]
    reached: NDArray[np.int32]

    @classmethod
    def of_size(cls, active: int) -> Workspace:
        """Return the arrays for a graph with ``active`` vertices that have edges."""
        most_levels = active + 2  # a shortest path visits each vertex once
        return cls(
            entries=np.zeros(LANES * active, np.int32),
            masks=np.zeros(LANES * active, np.uint8),
            levels=np.zeros(most_levels, np.int64),
            out_edges=np.zeros(most_levels, np.int64),
            in_edges=np.zeros(most_levels, np.int64),
            scales=np.ones((most_levels, LANES)),
            paths=np.zeros((active, LANES)),
            here=np.zeros((active, LANES)),
            below=np.zeros((active, LANES)),
            seen=np.zeros(active, np.uint8),
            marked=np.zeros(active, np.uint8),
            reached=np.zeros(active + 1, np.int32),
        )


def accumulate(links: Links, first: int, last: int, factor: float, totals: NDArray[np.int64], space: Workspace) -> None:
    """Add the dependencies of the sources [first, last) to ``totals``, in units of 1 / ``factor``.

    Args:
        links: The graph.
        first: First source; at most eight sources.
        last: End of the sources; they have edges.
        factor: Units per path; a power of two.
        totals: One number per vertex with an edge.
        space: Used by this call alone.

    Raises:
        PathCountError: The numbers of shortest paths to vertices of the same distance are too far apart.
    """
    count = _forward(first, last, links, space)
    if count < 0:
        raise PathCountError(first, last)
    _backward(count, links, space, factor, totals)


@njit(nogil=True, cache=True, error_model="numpy")
def _forward(first, last, links, space):
    """Find levels and path counts; return the number of levels, or -1 if the counts are too far apart."""
    space.seen[:] = 0
    tops = np.zeros(LANES)
    open_edges = links.back_starts[len(space.seen)]
    filled = 0
    for source in range(first, last):
        bit = np.uint8(1 << (source - first))
        space.entries[filled] = source
        space.masks[filled] = bit
        space.seen[source] = bit
        space.paths[source, source - first] = 1.0
        filled += 1
    space.levels[0], space.levels[1] = 0, filled
    depth = 0
    while space.levels[depth + 1] > space.levels[depth]:
        _count_edges(depth, links, space)
        if open_edges + len(space.seen) < space.out_edges[depth]:
            count = _pull_paths(depth, links, space)
        else:
            count = _push_paths(depth, links, space)
        depth += 1
        begin = filled
        filled, open_edges = _settle(filled, count, open_edges, links, space, tops)
        space.levels[depth + 1] = filled
        for b in range(LANES):
            space.scales[depth, b] = 1.0
            if tops[b] > LARGEST:
                space.scales[depth, b] = SMALLEST
                if not _scale(begin, filled, b, space):
                    return -1
    return depth


@njit(nogil=True, cache=True, error_model="numpy")
def _count_edges(depth, links, space):
    """Note how many edges leave the level and lead to it."""
    leaving, leading = 0, 0
    for i in range(space.levels[depth], space.levels[depth + 1]):
        v = space.entries[i]
        leaving += links.starts[v + 1] - links.starts[v]
        leading += links.back_starts[v + 1] - links.back_starts[v]
    space.out_edges[depth] = leaving
    space.in_edges[depth] = leading


@njit(nogil=True, cache=True, error_model="numpy")
def _push_paths(depth, links, space):
    """Add the path counts of a level to its successors, and list these in order; return how many there are."""
    starts, heads, entries, masks = links.starts, links.heads, space.entries, space.masks
    paths, here, seen, marked, reached = space.paths, space.here, space.seen, space.marked, space.reached
    lane = np.zeros(LANES)
    count = 0
    for i in range(space.levels[depth], space.levels[depth + 1]):
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
    if SPARSE * count < len(marked):
        reached[:count].sort()
        for i in range(count):
            marked[reached[i]] = 0
        return count
    count = 0
    for v in range(len(marked)):
        reached[count] = v
        count += marked[v]
        marked[v] = 0
    return count


@njit(nogil=True, cache=True, error_model="numpy")
def _pull_paths(depth, links, space):
    """Do the same from the side of the vertices that some lane has not reached yet."""
    starts, tails, entries, masks = links.back_starts, links.tails, space.entries, space.masks
    paths, here, below, seen, marked = space.paths, space.here, space.below, space.seen, space.marked
    begin, end = space.levels[depth], space.levels[depth + 1]
    for i in range(begin, end):
        w = entries[i]
        marked[w] = 1
        for b in range(LANES):
            below[w, b] = paths[w, b] if (masks[i] >> b) & 1 else 0.0
    lane = np.zeros(LANES)
    count = 0
    for v in range(len(seen)):
        if seen[v] == _FULL:
            continue
        lane[:] = 0.0
        found = False
        for e in range(starts[v], starts[v + 1]):
            w = tails[e]
            if marked[w]:
                found = True
                for b in range(LANES):
                    lane[b] += below[w, b]
        if found:
            here[v] = lane
            space.reached[count] = v
            count += 1
    for i in range(begin, end):
        marked[entries[i]] = 0
    return count


@njit(nogil=True, cache=True, error_model="numpy")
def _settle(filled, count, open_edges, links, space, tops):
    """Make the next level of the first ``count`` vertices that were reached, in the lanes that saw them first now.

    ``tops`` gets the largest path count of each lane. Return the end of the level, and how many edges lead to vertices
    that some lane has not reached yet.
    """
    paths, here, seen = space.paths, space.here, space.seen
    tops[:] = 0.0
    for i in range(count):
        v = space.reached[i]
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
            space.entries[filled] = v
            space.masks[filled] = mask
            filled += 1
            if seen[v] == _FULL:
                open_edges -= links.back_starts[v + 1] - links.back_starts[v]
    return filled, open_edges


@njit(nogil=True, cache=True, error_model="numpy")
def _scale(begin, end, b, space):
    """Scale the path counts of one lane in a level down; False if that is more than the smallest of them bears."""
    for i in range(begin, end):
        if (space.masks[i] >> b) & 1:
            if space.paths[space.entries[i], b] < 1.0:
                return False
            space.paths[space.entries[i], b] *= SMALLEST
    return True


@njit(nogil=True, cache=True, error_model="numpy")
def _backward(count, links, space, factor, totals):
    """Sum the dependencies from the deepest level up."""
    here, below = space.here, space.below
    for level in range(count - 1, -1, -1):
        begin, end = space.levels[level], space.levels[level + 1]
        if level + 1 == count:
            for i in range(begin, end):
                here[space.entries[i]] = 0.0
        elif space.out_edges[level] <= space.in_edges[level + 1]:
            _pull_shares(level, links, space, here, below)
        else:
            _push_shares(level, links, space, here, below)
        unit = factor if level > 0 else 0.0  # a source is no stop on its own paths
        _round(begin, end, space, here, space.scales[level + 1], unit, totals)
        here, below = below, here
    space.here[:] = 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def _pull_shares(level, links, space, here, below):
    """Set the rows of a level to the sums over their successors in the next one."""
    starts, heads, entries, marked = links.starts, links.heads, space.entries, space.marked
    begin, end, stop = space.levels[level], space.levels[level + 1], space.levels[level + 2]
    for i in range(end, stop):
        marked[entries[i]] = 1
    lane = np.zeros(LANES)
    for i in range(begin, end):
        v = entries[i]
        lane[:] = 0.0
        for e in range(starts[v], starts[v + 1]):
            w = heads[e]
            if marked[w]:
                for b in range(LANES):
                    lane[b] += below[w, b]
        here[v] = lane
    for i in range(end, stop):
        marked[entries[i]] = 0


@njit(nogil=True, cache=True, error_model="numpy")
def _push_shares(level, links, space, here, below):
    """Do the same from the side of the next level."""
    starts, tails, entries, marked = links.back_starts, links.tails, space.entries, space.marked
    begin, end, stop = space.levels[level], space.levels[level + 1], space.levels[level + 2]
    for i in range(begin, end):
        marked[entries[i]] = 1
        here[entries[i]] = 0.0
    lane = np.zeros(LANES)
    for i in range(end, stop):
        w = entries[i]
        lane[:] = below[w]
        for e in range(starts[w], starts[w + 1]):
            v = tails[e]
            if marked[v]:
                for b in range(LANES):
                    here[v, b] += lane[b]
    for i in range(begin, end):
        marked[entries[i]] = 0


@njit(nogil=True, cache=True, error_model="numpy")
def _round(begin, end, space, here, scales, unit, totals):
    """Turn the sums of a level into dependencies, add these to ``totals``, and leave what the level above needs."""
    paths = space.paths
    for i in range(begin, end):
        v, mask = space.entries[i], space.masks[i]
        total = np.int64(0)
        for b in range(LANES):
            through = here[v, b]
            here[v, b] = 0.0
            if (mask >> b) & 1:
                dependency = paths[v, b] * through * scales[b]
                total += np.int64(dependency * unit + 0.5)
                here[v, b] = (1.0 + dependency) / paths[v, b]
        totals[v] += total


# 64 breadth-first searches at once, for the check of the sum; they share nothing with the kernel above ---------------

_ONE, _TWO, _FOUR, _TOP = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
_PAIRS, _FOURS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_EIGHTS, _BYTES = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
_NONE = np.uint64(0)


@njit(nogil=True, cache=True)
def _ones(x):
    x = x - ((x >> _ONE) & _PAIRS)
    x = (x & _FOURS) + ((x >> _TWO) & _FOURS)
    return np.int64((((x + (x >> _FOUR)) & _EIGHTS) * _BYTES) >> _TOP)


@njit(nogil=True, cache=True)
def search(first, last, starts, heads, seen, front, reached):
    """Return the sum of distance - 1 over all pairs of a source in [first, last) and a vertex that it reaches.

    ``seen``, ``front`` and ``reached`` have a word per vertex; ``reached`` is zero before and after.
    """
    seen[:] = _NONE
    front[:] = _NONE
    for source in range(first, last):
        front[source] = seen[source] = _ONE << np.uint64(source - first)
    total, steps, more = 0, 0, True
    while more:
        for v in range(len(front)):
            if front[v] != _NONE:
                for e in range(starts[v], starts[v + 1]):
                    reached[heads[e]] |= front[v]
        more = False
        for v in range(len(front)):
            fresh = reached[v] & ~seen[v]
            reached[v] = _NONE
            front[v] = fresh
            if fresh != _NONE:
                seen[v] |= fresh
                total += steps * _ones(fresh)
                more = True
        steps += 1
    return total
