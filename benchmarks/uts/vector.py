"""The compiled UTS kernel: SHA-1 of 16 or 32 children at once; importing this module needs numba.

It compiles on import, or loads what an earlier process compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.np.numpy_support import carray

from .. import simd
from ..simd import Builder, Value, emits
from .plain import HIGH, INITIAL, LOW, ROUND

LANES = 32 if simd.has_wide_registers() else 16
"""Either is two registers: the rounds of a hash wait for each other, and two hashes fill each other's gaps."""
_vectors = simd.Lanes(LANES)
NAME = f"numba, {LANES} lanes"
CAPACITY = 2 * LANES
"""Entries per level that the kernel needs room for: it adds up to LANES to fewer than LANES."""

_MESSAGE_BITS = 192
_STATE = 5  # words of a hash
_STRIDE = 2 * LANES  # words between inputs: filling lanes from m on may write LANES words
_OUTPUT = (_STATE + 1) * _STRIDE
_SCRATCH = _OUTPUT + _STATE * LANES
_WORD_BYTES = 4


@emits(types.void, types.uintp, types.uint32)
def _fill(builder: Builder, address: Value, word: Value) -> None:
    """Store ``word`` LANES times from ``address`` on."""
    _vectors.store(builder, _vectors.splat(builder, word), simd.pointer(builder, address), ir.Constant(simd.WORD, 0))


@emits(types.void, types.uintp, types.uint32)
def _count_down(builder: Builder, address: Value, word: Value) -> None:
    """Store ``word``, ``word`` - 1, ... at LANES places from ``address`` on."""
    ramp = builder.sub(_vectors.splat(builder, word), _vectors.constant(range(LANES)))
    _vectors.store(builder, ramp, simd.pointer(builder, address), ir.Constant(simd.WORD, 0))


@emits(types.void, types.uintp, types.uintp)
def _hash(builder: Builder, source: Value, target: Value) -> None:
    """Write the SHA-1 of LANES messages of 6 words: source[i * _STRIDE + lane] to target[i * LANES + lane]."""
    source, target = simd.pointer(builder, source), simd.pointer(builder, target)
    message = [_vectors.load(builder, source, ir.Constant(simd.WORD, _STRIDE * i)) for i in range(_STATE + 1)]
    padding = [0x80000000, *[0] * 8, _MESSAGE_BITS]
    digest = _sha1(builder, message + [_vectors.constant(word) for word in padding])
    for i, word in enumerate(digest):
        _vectors.store(builder, word, target, ir.Constant(simd.WORD, LANES * i))


def _sha1(builder: Builder, words: list[Value]) -> list[Value]:
    """Emit SHA-1 of one block (FIPS 180-4, 6.1.2), each word a vector, and return the five words of the digest."""
    a, b, c, d, e = initial = [_vectors.constant(word) for word in INITIAL]
    for i in range(80):
        word = words[i & 15]
        if i >= 16:
            word = builder.xor(
                builder.xor(words[(i - 3) & 15], words[(i - 8) & 15]), builder.xor(words[(i - 14) & 15], word)
            )
            word = words[i & 15] = _vectors.rotate_left(builder, word, 1)
        if i < 20:
            mixed = builder.xor(d, builder.and_(b, builder.xor(c, d)))
        elif 40 <= i < 60:
            mixed = builder.or_(builder.and_(b, c), builder.and_(d, builder.or_(b, c)))
        else:
            mixed = builder.xor(builder.xor(b, c), d)
        total = builder.add(builder.add(e, _vectors.constant(ROUND[i // 20])), word)
        total = builder.add(builder.add(_vectors.rotate_left(builder, a, 5), mixed), total)
        a, b, c, d, e = total, a, _vectors.rotate_left(builder, b, 30), c, d
    return [builder.add(word, start) for word, start in zip((a, b, c, d, e), initial, strict=True)]


@njit(inline="always")
def _choose_level(pending, floor):
    """Return the deepest level above the floor that fills all lanes, else the highest that has anything, else 0.

    Either way the level below, if it is not the floor, has fewer than LANES entries: none outgrows 2 * LANES.
    """
    highest = 0
    for level in range(floor + 1, len(pending)):
        if pending[level] >= LANES:
            return level
        if pending[level] > 0:
            highest = level
    return highest


@njit(inline="always")
def _load_lanes(rows, count, source):
    """Move up to LANES pending children of the last entries to the lanes; return how many, and the entries left."""
    lanes = 0
    while lanes < LANES and count > 0:
        row = rows[count - 1]
        low = np.int64(row[LOW])
        high = np.int64(row[HIGH])
        taken: Any = min(high - low, LANES - lanes)
        lane = source + np.uintp(_WORD_BYTES * lanes)
        for i in range(_STATE):
            _fill(lane + np.uintp(_WORD_BYTES * _STRIDE * i), row[i])
        _count_down(lane + np.uintp(_WORD_BYTES * _STRIDE * _STATE), np.uint32(high - 1))
        lanes += taken
        row[HIGH] = high - taken
        count -= taken == high - low
    return lanes, count


@njit(inline="always")
def _children(word, law, thresholds, guess):
    """Return the number of children that the last word of a hash gives; unsigned indices need no check of the sign."""
    value = word & np.uint32(0x7FFFFFFF)
    children = np.uint64(guess[law, np.uint64(value >> np.uint32(20))])
    while value >= thresholds[law, children + np.uint64(1)]:
        children += np.uint64(1)
    return np.int64(children)


@njit(
    "Tuple((int64, int64, boolean))"
    "(uint32[:, :, ::1], int64[::1], int64[::1], uint32[:, ::1], uint8[:, ::1], int64, int64)",
    nogil=True,
    cache=True,
)
def expand(queue, entries, of_level, thresholds, guess, floor, budget):
    """Search until about ``budget`` nodes are counted or nothing is left.

    Args:
        queue: Entries by remaining levels, [level, entry, field]; the children of level 1 are leaves, which are counted
            when their parent is made, so that level 1 stays empty, if it is the floor.
        entries: Entries per level.
        of_level: See ``tree.Law``.
        thresholds: See ``tree.Law``.
        guess: See ``tree.Law``.
        floor: The level that is filled, but not searched; 1 for trees that end there. It gets no more entries than
            nodes are counted.
        budget: Nodes; overshot by a vector of nodes and their children.

    Returns:
        Nodes counted, nodes hashed, and whether anything is left.
    """
    scratch = carray(simd.stack_words(np.int64(_SCRATCH // 2)), _SCRATCH // 2).view(np.uint32)
    hashes = scratch[_OUTPUT:]
    source = np.uintp(scratch.ctypes.data)
    pending = carray(simd.stack_words(np.int64(len(entries))), len(entries))
    pending[:] = 0
    for level in range(len(entries)):
        for i in range(entries[level]):
            pending[level] += np.int64(queue[level, i, HIGH]) - np.int64(queue[level, i, LOW])
    nodes = np.int64(0)
    hashed = np.int64(0)
    level = _choose_level(pending, floor)
    while level > 0 and nodes < budget:
        lanes, entries[level] = _load_lanes(queue[level], entries[level], source)
        pending[level] -= lanes
        _hash(source, source + np.uintp(_WORD_BYTES * _OUTPUT))
        hashed += lanes
        law = np.uint64(of_level[level])
        made = np.int64(0)
        if level == 2:  # the new nodes are the parents of leaves
            for lane in range(lanes):
                made += _children(hashes[(_STATE - 1) * LANES + lane], law, thresholds, guess)
            nodes += made
        else:
            below = queue[level - 1]
            end = entries[level - 1]
            for lane in range(lanes):
                children = _children(hashes[(_STATE - 1) * LANES + lane], law, thresholds, guess)
                row = below[end]
                for i in range(_STATE):
                    row[i] = hashes[i * LANES + lane]
                row[LOW] = 0
                row[HIGH] = children
                end += children > 0
                made += children
            entries[level - 1] = end
            pending[level - 1] += made
        nodes += lanes
        level = _choose_level(pending, floor)
    return nodes, hashed, level > 0


@njit("Tuple((int64, int64))(uint32[:, ::1], int64, int64, int64, int64)", nogil=True, cache=True)
def expand_binomial(stack, count, threshold, children, budget):
    """Search a binomial tree depth first until about ``budget`` nodes are counted or the stack is full or empty.

    Args:
        stack: Entries, [entry, field].
        count: Entries on the stack.
        threshold: A node has children if the last word of its hash, 31 bits, is below this.
        children: How many.
        budget: Nodes; overshot by less than a vector.

    Returns:
        Nodes counted, all hashed, and the entries left.
    """
    scratch = carray(simd.stack_words(np.int64(_SCRATCH // 2)), _SCRATCH // 2).view(np.uint32)
    hashes = scratch[_OUTPUT:]
    source = np.uintp(scratch.ctypes.data)
    nodes = np.int64(0)
    while count > 0 and nodes < budget and count + LANES <= len(stack):
        lanes, count = _load_lanes(stack, count, source)
        _hash(source, source + np.uintp(_WORD_BYTES * _OUTPUT))
        nodes += lanes
        for lane in range(lanes):
            row = stack[count]
            for i in range(_STATE):
                row[i] = hashes[i * LANES + lane]
            row[LOW] = 0
            row[HIGH] = children
            count += np.int64(row[_STATE - 1] & np.uint32(0x7FFFFFFF)) < threshold
    return nodes, count
