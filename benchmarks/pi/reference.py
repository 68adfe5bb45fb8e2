"""Philox 4x32-10 and the count of hits, of numbers or of arrays: the oracle of the kernel, and its stand-in.

Sample 2c and sample 2c+1 are the two points that the generator yields for counter c. A point (a, b) of two 32-bit words
is a hit if a^2 + b^2 < 2^64, in IEEE double precision without contraction; so every implementation agrees to the bit.
Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from typing import Any, Final

ROUNDS: Final = 10
MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
WEYL: Final = (0x9E3779B9, 0xBB67AE85)
MASK: Final = 0xFFFFFFFF
ONE: Final = 2.0**64
"""The squared radius, in units of the squared grid width."""
_CHUNK: Final = 1 << 14


def philox(counter: tuple[Any, Any, Any, Any], key: tuple[int, int]) -> tuple[Any, Any, Any, Any]:
    """Return the four 32-bit words for ``counter``, four integers or four arrays of 64 bits, under ``key``."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        p0, p1 = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK
    return c0, c1, c2, c3


def is_hit(sample: int, seed: int) -> bool:
    """Return whether one sample falls into the quarter circle (plain Python)."""
    counter = sample >> 1
    words = philox((counter & MASK, counter >> 32, 0, 0), (seed & MASK, seed >> 32))
    a, b = words[2:] if sample & 1 else words[:2]
    return float(a) * float(a) + float(b) * float(b) < ONE


def count_hits(first: int, last: int, seed: int) -> int:
    """Count the hits among both points of each counter in [first, last) (NumPy)."""
    return sum(_count_chunk(start, min(start + _CHUNK, last), seed) for start in range(first, last, _CHUNK))


def _count_chunk(first: int, last: int, seed: int) -> int:
    import numpy as np

    counters = np.arange(first, last, dtype=np.uint64)
    zero = np.zeros_like(counters)
    words = philox((counters & MASK, counters >> 32, zero, zero), (seed & MASK, seed >> 32))
    a, b, c, d = (word.astype(np.float64) for word in words)
    return int(np.count_nonzero(a * a + b * b < ONE)) + int(np.count_nonzero(c * c + d * d < ONE))
