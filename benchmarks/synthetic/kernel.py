"""The work, tasks that spin: compiled where numba is installed, and the same in Python elsewhere. See ``plain``."""

from __future__ import annotations

import numpy as np

from ..harness.jit import compiled
from . import plain

_FACTOR, _ADDEND = np.uint64(plain.FACTOR), np.uint64(plain.ADDEND)
_GOLDEN, _MIX0, _MIX1 = np.uint64(plain.GOLDEN), np.uint64(plain.MIX[0]), np.uint64(plain.MIX[1])
_27, _30, _31, _32 = (np.uint64(bits) for bits in (27, 30, 31, 32))
_CLASS, _ZERO, _ONE, _HALF = np.uint64(plain.CLASS_SHIFT), np.uint64(0), np.uint64(1), np.uint64(1 << 31)


@compiled("uint64(uint64)")
def _mixed(value):
    value = (value ^ (value >> _30)) * _MIX0
    value = (value ^ (value >> _27)) * _MIX1
    return value ^ (value >> _31)


@compiled("uint64(uint64, uint64)")
def _start(task, seed):
    return _mixed(np.uint64(seed) + _GOLDEN * (task + _ONE))


@compiled("uint64(uint64, uint64)")
def spin(value, units):
    """Do ``units`` from ``value`` on; return where that ends."""
    value = np.uint64(value)  # where it is not compiled
    for _ in range(units):
        value = value * _FACTOR + _ADDEND
    return value


@compiled("UniTuple(uint64, 2)(int64, int64, uint64, uint64[::1])")
def spin_range(first, last, seed, lengths):
    """Do the tasks [first, last); ``seed`` decides on their classes, and ``lengths`` has the units of each class.

    Return units and the sum of the values in which they ended, modulo 2^64.
    """
    units, total = _ZERO, _ZERO
    for task in range(first, last):
        value = _start(np.uint64(task), seed)
        length = lengths[value >> _CLASS]
        units += length
        total += spin(value, length)
    return units, total


@compiled("Tuple((int64, int64, uint64, uint64))(int64[:,::1], int64, int64, uint64, uint64[::1], int64)")
def spin_tree(stack, top, most, seed, lengths, branching):
    """Do up to ``most`` tasks of the subtrees on ``stack``, and put their children there.

    A subtree is a span of numbers: its root is the first of them, and the rest is divided among ``branching`` children
    at places that the root draws; some may get nothing.

    Args:
        stack: Rows (first, last), the last row on top.
        top: Rows in use.
        most: Tasks to do; fewer are done where the stack becomes empty, or too full for another task's children.
        seed: Of classes and divisions.
        lengths: Units of each class.
        branching: Children of a task, at most.

    Returns:
        Rows in use, tasks done, units done, and the sum of the values in which the tasks ended.
    """
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
