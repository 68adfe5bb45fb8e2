"""The compiled N-Queens kernel: 16 placements at once; importing this module needs numba and ``simd.has_compress``.

It compiles on import, or loads what an earlier process compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import njit, types

from benchmarks import simd
from benchmarks.simd import LANES, intrinsic

if TYPE_CHECKING:
    from benchmarks.simd import Builder, Value

NAME = "numba, 16 lanes"
CAPACITY = 2 * LANES
"""Entries per level that the kernel needs room for: it adds a vector of LANES to fewer than LANES."""

_WORD_BYTES = 4
_COUNT_BITS = 16


def _load_placements(builder: Builder, source: Value, stride: Value, lanes: Value) -> tuple[list[Value], Value]:
    """Emit the load of the four fields, nothing to be tried in lanes beyond the number; return them and a lane mask."""
    fields = [simd.load(builder, source, builder.mul(stride, ir.Constant(simd.WORD, i))) for i in range(4)]
    active = builder.icmp_unsigned("<", simd.constant(range(LANES)), simd.splat(builder, lanes))
    fields[3] = builder.select(active, fields[3], simd.constant(0))
    return fields, active


def _place_lowest(builder: Builder, fields: list[Value], full: Value) -> tuple[list[Value], Value]:
    """Emit a queen on the lowest free column; return the placements a row below, and what else is free here."""
    columns, left, right, free = fields
    one = simd.constant(1)
    bit = builder.and_(free, builder.sub(simd.constant(0), free))
    columns = builder.or_(columns, bit)
    left = builder.shl(builder.or_(left, bit), one)
    right = builder.lshr(builder.or_(right, bit), one)
    attacked = builder.or_(builder.or_(columns, left), right)
    return [columns, left, right, builder.and_(full, builder.not_(attacked))], builder.xor(free, bit)


@intrinsic
def _advance(_typing: Any, _source: Any, _target: Any, _stride: Any, _lanes: Any, _full: Any) -> Any:
    """Put a queen on the lowest free column of each of ``lanes`` placements from ``source`` on.

    The placements that have more columns to try stay, moved together; those a row below with a column to try go to
    ``target``. Fields are ``stride`` words apart. Returns the number that stay + 2^16 times the number of new ones.
    """

    def emit(_context: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        source, target = (simd.pointer(builder, address) for address in arguments[:2])
        stride, lanes, full = arguments[2:]
        zero = simd.constant(0)
        here, active = _load_placements(builder, source, stride, lanes)
        below, rest = _place_lowest(builder, here, simd.splat(builder, full))
        opens = builder.and_(builder.icmp_unsigned("!=", below[3], zero), active)
        stays = builder.icmp_unsigned("!=", rest, zero)
        compress = simd.compressor(builder)
        for place, mask, fields in ((target, opens, below), (source, stays, [*here[:3], rest])):
            for i, field in enumerate(fields):
                offset = builder.mul(stride, ir.Constant(simd.WORD, i))
                simd.store(builder, compress(field, mask), place, offset)
        new = builder.shl(simd.popcount(builder, opens), ir.Constant(ir.IntType(64), _COUNT_BITS))
        return builder.or_(simd.popcount(builder, stays), new)

    return types.int64(types.uintp, types.uintp, types.uint32, types.uint32, types.uint32), emit


@intrinsic
def _finish(_typing: Any, _source: Any, _stride: Any, _lanes: Any, _full: Any) -> Any:
    """Return the number of solutions of ``lanes`` placements with two open rows from ``source`` on."""

    def emit(_context: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        source = simd.pointer(builder, arguments[0])
        stride, lanes, full = arguments[1:]
        everywhere = simd.splat(builder, full)
        fields, _active = _load_placements(builder, source, stride, lanes)
        before = builder.block
        loop = builder.append_basic_block("columns")
        after = builder.append_basic_block("counted")
        builder.branch(loop)
        builder.position_at_end(loop)
        free = builder.phi(simd.VECTOR)
        solutions = builder.phi(ir.IntType(64))
        free.add_incoming(fields[3], before)
        solutions.add_incoming(ir.Constant(ir.IntType(64), 0), before)
        below, rest = _place_lowest(builder, [*fields[:3], free], everywhere)
        placed = builder.icmp_unsigned("!=", free, simd.constant(0))
        solved = builder.and_(builder.icmp_unsigned("!=", below[3], simd.constant(0)), placed)
        total = builder.add(solutions, simd.popcount(builder, solved))
        free.add_incoming(rest, loop)
        solutions.add_incoming(total, loop)
        builder.cbranch(simd.any_lane(builder, builder.icmp_unsigned("!=", rest, simd.constant(0))), loop, after)
        builder.position_at_end(after)
        return total

    return types.int64(types.uintp, types.uint32, types.uint32, types.uint32), emit


@njit(inline="always")
def _choose_level(entries):
    """Return the deepest level that fills all lanes, else the highest that has anything, else 0."""
    highest = 0
    for level in range(2, len(entries)):
        if entries[level] >= LANES:
            return level
        if entries[level] > 0:
            highest = level
    return highest


@njit("Tuple((int64, int64, boolean))(uint32[:, :, ::1], int64[::1], int64, int64)", nogil=True, cache=True)
def expand(queue, entries, full, budget):
    """Do what ``scalar.expand`` does, in another order; overshoot the budget by up to LANES tasks."""
    stride = np.uint32(queue.shape[2])
    base = np.uintp(queue.ctypes.data)
    level_bytes = np.uintp(_WORD_BYTES * queue.shape[1] * queue.shape[2])
    columns = np.uint32(full)
    tasks = np.int64(0)
    solutions = np.int64(0)
    level = _choose_level(entries)
    while level > 0 and tasks < budget:
        lanes = min(entries[level], LANES)
        left = entries[level] - lanes
        source = base + level_bytes * np.uintp(level) + np.uintp(_WORD_BYTES * left)
        tasks += lanes
        if level == 2:
            solutions += _finish(source, stride, np.uint32(lanes), columns)
            entries[level] = left
        else:
            below = entries[level - 1]
            target = base + level_bytes * np.uintp(level - 1) + np.uintp(_WORD_BYTES * below)
            moved = _advance(source, target, stride, np.uint32(lanes), columns)
            entries[level] = left + (moved & ((1 << _COUNT_BITS) - 1))
            entries[level - 1] = below + (moved >> _COUNT_BITS)
        level = _choose_level(entries)
    return tasks, solutions, level > 0
