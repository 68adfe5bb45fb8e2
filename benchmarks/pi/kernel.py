"""The compiled count of hits; importing this module compiles it or loads it from numba's cache.

The loop over counters carries nothing but the sum, so LLVM turns it into vector code. No fast-math: a contracted
multiply-add would round differently on another CPU.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .reference import MASK, MULTIPLIERS, ONE, ROUNDS, WEYL

_M0, _M1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
_W0, _W1 = np.uint64(WEYL[0]), np.uint64(WEYL[1])
_MASK, _HALF, _ZERO = np.uint64(MASK), np.uint64(32), np.uint64(0)


@njit("int64(int64, int64, uint64)", nogil=True, cache=True)
def count_hits(first, last, seed):
    """Count the hits among both points of each counter in [first, last); see ``reference``."""
    hits = _ZERO
    for i in range(first, last):
        c0, c1, c2, c3 = np.uint64(i) & _MASK, np.uint64(i) >> _HALF, _ZERO, _ZERO
        k0, k1 = seed & _MASK, seed >> _HALF
        for _ in range(ROUNDS):
            p0, p1 = _M0 * c0, _M1 * c2
            c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _MASK, (p0 >> _HALF) ^ c3 ^ k1, p0 & _MASK
            k0, k1 = (k0 + _W0) & _MASK, (k1 + _W1) & _MASK
        a, b = np.float64(np.int64(c0)), np.float64(np.int64(c1))
        c, d = np.float64(np.int64(c2)), np.float64(np.int64(c3))
        hits += np.uint64(a * a + b * b < ONE) + np.uint64(c * c + d * d < ONE)
    return np.int64(hits)
