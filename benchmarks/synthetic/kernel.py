"""The compiled work; importing this module compiles it or loads it from numba's cache. See ``plain``."""

from __future__ import annotations

import numpy as np
from numba import njit

from . import plain

_FACTOR, _ADDEND = np.uint64(plain.FACTOR), np.uint64(plain.ADDEND)
_GOLDEN, _MIX0, _MIX1 = np.uint64(plain.GOLDEN), np.uint64(plain.MIX[0]), np.uint64(plain.MIX[1])
_27, _30, _31, _32 = (np.uint64(bits) for bits in (27, 30, 31, 32))
_CLASS, _ZERO, _ONE, _HALF = np.uint64(plain.CLASS_SHIFT), np.uint64(0), np.uint64(1), np.uint64(1 << 31)


@njit("uint64(uint64)", nogil=True, cache=True)
def _mixed(value):
    value = (value ^ (value >> _30)) * _MIX0
    value = (value ^ (value >> _27)) * _MIX1
    return value ^ (value >> _31)


@njit("uint64(uint64, uint64)", nogil=True, cache=True)
def _start(task, seed):
    return _mixed(seed + _GOLDEN * (task + _ONE))


@njit("uint64(uint64, uint64)", nogil=True, cache=True)
def spin(value, units):
    """Do ``units`` from ``value`` on; return where that ends."""
    for _ in range(units):
        value = value * _FACTOR + _ADDEND
    return value


@njit("UniTuple(uint64, 2)(int64, int64, uint64, uint64[::1])", nogil=True, cache=True)
def spin_range(first, last, seed, lengths):
    """Do the tasks [first, last); return units and the sum of the values in which they ended."""
    units, total = _ZERO, _ZERO
    for task in range(first, last):
        value = _start(np.uint64(task), seed)
        length = lengths[value >> _CLASS]
        units += length
        total += spin(value, length)
    return units, total


@njit(
    "Tuple((int64, int64, uint64, uint64))(int64[:,::1], int64, int64, uint64, uint64[::1], int64)",
    nogil=True,
    cache=True,
)
def spin_tree(stack, top, most, seed, lengths, branching):
    """Do up to ``most`` tasks of the subtrees on ``stack``, and put their children there."""
    done, units, total = 0, _ZERO, _ZERO
    while done < most and 0 < top <= len(stack) - branching:
        top -= 1
        task, last = stack[top, 0], stack[top, 1]
        value = _start(np.uint64(task), seed)
        length = lengths[value >> _CLASS]
        units += length
        total += spin(value, length)
        done += 1
        draw, first = value, task + 1
        for child in range(branching):
            draw = _mixed(draw + _GOLDEN)
            rest = last - first
            size = rest
            if child < branching - 1:
                size = np.int64((np.uint64(rest) * (draw >> _32) + _HALF) >> _32)
            if size:
                stack[top, 0] = first
                stack[top, 1] = first + size
                top += 1
            first += size
    return top, done, units, total
