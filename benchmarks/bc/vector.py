"""Multi-source Brandes: sixteen sources at once, level by level, one lane each.

Importing this module needs numba: it compiles the kernel, or loads what an earlier process compiled.

First a breadth-first search from all sources, with one bit each, finds the levels: lists of (vertex, mask of the
lanes that reach it there), in the order of vertex numbers, so that memory is touched in order. Then path counts flow
from each level to the next, and (1 + dependency) / paths flows back. Each vertex has a row of sixteen numbers for
either.

A level takes what the one before it gives by pulling: each of its vertices adds up the rows of its neighbours, all of
them and in all lanes, without a test. That is right because a row is zero in a lane until its level there has its
numbers. A predecessor of a vertex at distance d is at distance d - 1 or more, a successor at d + 1 or less; so where
the vertex is in the level that takes, only neighbours in the level that gives are not zero. What comes out in other
lanes is dropped. Where the level that gives has far fewer edges, it pushes instead, to all neighbours and in all
lanes, which is right for the same reason: few hubs have most edges of a graph. The search has the same choice. Both
ways add the same numbers in the same order, that of the giving vertices. Source of the idea: Beamer et al.,
"Direction-optimizing breadth-first search", SC 2012.

Each dependency of a vertex on a source is rounded once, to a multiple of 1 / factor, and summed as a 64-bit integer.
Nothing depends on timing and fast-math is off, so a source adds the same bits on every place, and whichever sources
share its block.

Numbers of shortest paths may exceed what a double holds (a grid of 600 x 600 has more than 2^1023 from corner to
corner). Where those of a level come near that, the level is scaled down, and the dependencies that lead to it, too.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from .kernel import GROUP, LANES, Links, Workspace
from .reference import LARGEST, SMALLEST
from .rows import add, choose, divide, fill, load, multiply, rolled, rounded_sum, store

PUSH_COST: Final = 2
"""What an edge costs that pushes, in edges that pull: it reads a row and writes it."""
_FULL: Final = np.uint16(2**LANES - 1)
_GROUP_BITS: Final = np.uint64(GROUP.bit_length() - 1)
_FIRST, _NEXT = np.uint32(0), np.uint32(1)
_IN_WORD: Final = 4
"""Masks in a word of 64 bits; four vertices that were not reached are passed over at once."""


@njit(nogil=True, cache=True, error_model="numpy")
def _search(sources, links, space):
    """Find the levels; return how many there are."""
    space.seen[:] = 0
    for lane in range(len(sources)):
        space.fresh[sources[lane]] = 1 << lane
        space.touched[sources[lane] >> _GROUP_BITS] = 1
    open_edges = len(links.tails) - _settle(0, links, space)
    depth = 0
    while space.levels[depth + 1] > space.levels[depth]:
        if open_edges + len(space.paths) < space.leaving[depth]:
            _look_back(depth, links, space)
        else:
            _look_ahead(depth, links, space)
        depth += 1
        open_edges -= _settle(depth, links, space)
    return depth


@njit(nogil=True, cache=True, error_model="numpy")
def _look_ahead(depth, links, space):
    """Note which lanes of a level come to which of its successors."""
    starts, heads, fresh, touched = links.starts, links.heads, space.fresh, space.touched
    for i in range(space.levels[depth], space.levels[depth + 1]):
        v, mask = space.entries[i], space.masks[i]
        for e in range(starts[v], starts[v + _NEXT]):
            rolled()
            w = heads[e]
            fresh[w] |= mask
            touched[w >> _GROUP_BITS] = 1


@njit(nogil=True, cache=True, error_model="numpy")
def _look_back(depth, links, space):
    """Do the same from the side of the vertices that some lane has not reached yet."""
    starts, tails, seen, front = links.back_starts, links.tails, space.seen, space.front
    begin, end = space.levels[depth], space.levels[depth + 1]
    for i in range(begin, end):
        front[space.entries[i]] = space.masks[i]
    for v in range(_FIRST, _FIRST + np.uint32(len(space.paths))):
        found = seen[v]
        if found != _FULL:
            for e in range(starts[v], starts[v + _NEXT]):
                rolled()
                found |= front[tails[e]]
                if found == _FULL:
                    break
            space.fresh[v] = found
    space.touched[:] = 1
    for i in range(begin, end):
        front[space.entries[i]] = 0


@njit(nogil=True, cache=True, error_model="numpy")
def _settle(depth, links, space):
    """Make a level of the vertices in the lanes that came to them for the first time.

    Return how many edges lead to vertices that all lanes have reached now, and had not before.
    """
    starts, back_starts, entries, masks = links.starts, links.back_starts, space.entries, space.masks
    seen, fresh, touched = space.seen, space.fresh, space.touched
    seen_words, fresh_words = seen.view(np.uint64), fresh.view(np.uint64)
    begin = filled = space.levels[depth]
    for group in range(len(touched)):
        if not touched[group]:
            continue
        touched[group] = 0
        for word in range(group * (GROUP // _IN_WORD), (group + 1) * (GROUP // _IN_WORD)):
            if fresh_words[word] & ~seen_words[word]:
                for v in range(_IN_WORD * word, _IN_WORD * (word + 1)):
                    mask = fresh[v] & ~seen[v]
                    entries[filled] = v
                    masks[filled] = mask
                    filled += mask != 0
                seen_words[word] |= fresh_words[word]
            fresh_words[word] = 0
    leaving = leading = closed = np.int64(0)
    for i in range(begin, filled):
        v = entries[i]
        before = np.int64(back_starts[v + _NEXT] - back_starts[v])
        leaving += np.int64(starts[v + _NEXT] - starts[v])
        leading += before
        closed += before if seen[v] == _FULL else np.int64(0)
    space.levels[depth + 1] = filled
    space.leaving[depth], space.leading[depth] = leaving, leading
    return closed


@njit(nogil=True, cache=True, error_model="numpy")
def _count_paths(depth, sources, links, space):
    """Count the paths to each vertex; return the lane where the counts are too far apart, -1 if there is none."""
    entries, masks, paths, sums = space.entries, space.masks, space.paths, space.sums
    paths[:] = 0.0
    for lane in range(len(sources)):
        paths[sources[lane], lane] = 1.0
    most = 1.0
    for level in range(1, depth):
        pushes = PUSH_COST * space.leaving[level - 1] < space.leading[level]
        forth, back = (links.starts, links.heads), (links.back_starts, links.tails)
        _add_up(level - 1, level, paths, forth, back, pushes, space)
        for i in range(space.levels[level], space.levels[level + 1]):
            v = entries[i]
            store(paths, v, choose(masks[i], load(sums, v), load(paths, v)))
        space.scaled[level] = 0
        most *= links.busiest
        if most > LARGEST / 2:  # half of it, for sums are rounded
            most, failed = _scale(level, len(sources), space)
            if failed >= 0:
                return failed
    space.scaled[depth] = 0
    return -1


@njit(nogil=True, cache=True, error_model="numpy")
def _scale(level, lanes, space):
    """Scale the path counts of a level down in the lanes where they are near the end of the doubles.

    Return the largest of the counts, and the lane where the smallest does not bear it, -1 if there is none.
    """
    begin, end = space.levels[level], space.levels[level + 1]
    most = 0.0
    for lane in range(lanes):
        least, top = np.inf, 0.0
        for i in range(begin, end):
            if (space.masks[i] >> lane) & 1:
                least = min(least, space.paths[space.entries[i], lane])
                top = max(top, space.paths[space.entries[i], lane])
        if top > LARGEST:
            if least < 1.0:
                return most, lane
            for i in range(begin, end):
                if (space.masks[i] >> lane) & 1:
                    space.paths[space.entries[i], lane] *= SMALLEST
            space.scaled[level] |= 1 << lane
            top *= SMALLEST
        most = max(most, top)
    return most, -1


@njit(nogil=True, cache=True, error_model="numpy")
def _sum_dependencies(depth, links, space, factor, totals):
    """Sum the dependencies from the deepest level up."""
    entries, masks, paths, shares, sums = space.entries, space.masks, space.paths, space.shares, space.sums
    shares[:] = 0.0
    one, units = fill(1.0), fill(factor)
    for level in range(depth - 1, 0, -1):  # sources are no stops on their own paths
        pushes = PUSH_COST * space.leading[level + 1] < space.leaving[level]
        forth, back = (links.starts, links.heads), (links.back_starts, links.tails)
        _add_up(level + 1, level, shares, back, forth, pushes, space)
        scale = choose(space.scaled[level + 1], fill(SMALLEST), one)
        for i in range(space.levels[level], space.levels[level + 1]):
            v, mask = entries[i], masks[i]
            count = load(paths, v)
            dependency = multiply(multiply(count, load(sums, v)), scale)
            totals[v] += rounded_sum(mask, multiply(dependency, units))
            store(shares, v, choose(mask, divide(add(one, dependency), count), load(shares, v)))


@njit(nogil=True, cache=True, error_model="numpy")
def _add_up(giver, taker, rows, forth, back, pushes, space):
    """Add up what each vertex of a level takes from its neighbours in the level that gives.

    Args:
        giver: The level that gives.
        taker: The level that takes; ``sums`` is set where it has vertices.
        rows: What is given.
        forth: Starts and neighbours of the edges from the one that gives.
        back: The same from the one that takes.
        pushes: Whether the level that gives looks for those that take, instead of these for it.
        space: Where the levels are.
    """
    entries, levels, sums = space.entries, space.levels, space.sums
    begin, end = levels[taker], levels[taker + 1]
    nothing = fill(0.0)
    if not pushes:
        starts, neighbours = back
        for i in range(begin, end):
            v = entries[i]
            total = nothing
            for e in range(starts[v], starts[v + _NEXT]):
                rolled()
                total = add(total, load(rows, neighbours[e]))
            store(sums, v, total)
        return
    for i in range(begin, end):
        store(sums, entries[i], nothing)
    starts, neighbours = forth
    for i in range(levels[giver], levels[giver + 1]):
        w = entries[i]
        given = load(rows, w)
        for e in range(starts[w], starts[w + _NEXT]):
            rolled()
            store(sums, neighbours[e], add(load(sums, neighbours[e]), given))


@njit(
    "int64(float64, int64, float64, int64[::1], uint64[::1], uint32[::1], uint64[::1], uint32[::1],"
    "uint32[::1], uint32[::1], uint16[::1], int64[::1], int64[::1], int64[::1], uint16[::1], uint16[::1], uint16[::1],"
    "uint8[::1], uint16[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1])",
    nogil=True,
    cache=True,
    error_model="numpy",
)
def accumulate(
    busiest, count, factor, totals, starts, heads, back_starts, tails,
    sources, entries, masks, levels, leaving, leading, scaled, seen, fresh, touched, front, paths, shares, sums,
):  # fmt: skip
    """Add the dependencies of the first ``count`` sources, see ``kernel.Kernel``.

    Return the lane whose path counts are too far apart, -1 if there is none.
    """
    links = Links(starts, heads, back_starts, tails, busiest)
    space = Workspace(
        sources, entries, masks, levels, leaving, leading, scaled, seen, fresh, touched, front, paths, shares, sums
    )
    given = sources[:count]
    depth = _search(given, links, space)
    failed = _count_paths(depth, given, links, space)
    if failed < 0:
        _sum_dependencies(depth, links, space, factor, totals)
    return failed


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


@njit("int64(int64, int64, uint64[::1], uint32[::1], uint64[::1], uint64[::1], uint64[::1])", nogil=True, cache=True)
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
                for e in range(starts[v], starts[v + _ONE]):
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
