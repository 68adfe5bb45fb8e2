"""The compiled search of ``distances``; importing this module compiles it or loads it from numba's cache."""

from __future__ import annotations

import numpy as np
from numba import njit

_ONE, _TWO, _FOUR, _TOP = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
_PAIRS, _FOURS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_EIGHTS, _BYTES = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
_NONE = np.uint64(0)


@njit(nogil=True, cache=True)
def _ones(x):
    """Count the bits that are set."""
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
