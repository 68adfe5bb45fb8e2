"""The compiled N-Queens kernel: 16 placements at once; importing this module needs numba and ``simd.has_compress``.

It compiles on import, or loads what an earlier process compiled.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types

from .. import simd
from ..simd import Builder, Value, emits
from .scalar import CORNER, EDGE, FULL, LAST_CALL, NEXT, NEXT_EDGE, SIDE, SIDES, TIES_SHIFT, TURN_SHIFT, WEIGHTS

if not simd.has_compress():  # to compile it would end the process
    raise ImportError("this LLVM does not know the compression of vectors")

LANES = 16
_vectors = simd.Lanes(LANES)
NAME = f"numba, {LANES} lanes"
CAPACITY = 2 * LANES
"""Entries per level that the kernel needs room for: it adds a vector of LANES to fewer than LANES."""

_WORD_BYTES = 4
_COUNT_BITS = 16


class _Rules:
    """Emits the rule of one row, each field in all lanes; LLVM takes them from memory where they are used."""

    def __init__(self, builder: Builder, address: Value) -> None:
        self._builder = builder
        self._words = simd.pointer(builder, address)

    def __getitem__(self, field: int) -> Value:
        place = self._builder.gep(self._words, [ir.Constant(simd.WORD, field)])
        return _vectors.splat(self._builder, self._builder.load(place))


def _load_placements(builder: Builder, source: Value, stride: Value, lanes: Value) -> tuple[list[Value], Value]:
    """Emit the load of the four fields, nothing to be tried in lanes beyond the number; return them and a lane mask."""
    fields = [_vectors.load(builder, source, builder.mul(stride, ir.Constant(simd.WORD, i))) for i in range(4)]
    active = builder.icmp_unsigned("<", _vectors.constant(range(LANES)), _vectors.splat(builder, lanes))
    fields[3] = builder.select(active, fields[3], _vectors.constant(0))
    return fields, active


def _turn(builder: Builder, word: Value) -> Value:
    return builder.lshr(word, _vectors.constant(TURN_SHIFT))


def _ties(builder: Builder, word: Value) -> Value:
    return builder.and_(builder.lshr(word, _vectors.constant(TIES_SHIFT)), _vectors.constant(CORNER))


def _in_corner(builder: Builder, word: Value) -> Value:
    return builder.icmp_unsigned("==", _ties(builder, word), _vectors.constant(CORNER))


def _place_lowest(builder: Builder, fields: list[Value], rule: _Rules) -> tuple[list[Value], Value]:
    """Emit a queen on the lowest free column; return words, left, right a row below, and what else is free here."""
    word, left, right, free = fields
    one = _vectors.constant(1)
    bit = builder.and_(free, builder.sub(_vectors.constant(0), free))
    tied = builder.icmp_unsigned("==", _turn(builder, word), rule[EDGE])
    tied = builder.and_(tied, builder.icmp_unsigned("==", bit, rule[SIDE]))
    tied = builder.and_(tied, builder.not_(_in_corner(builder, word)))
    more = builder.select(tied, _vectors.constant(1 << TIES_SHIFT), _vectors.constant(0))
    word = builder.or_(builder.add(word, more), bit)
    left = builder.shl(builder.or_(left, bit), one)
    right = builder.lshr(builder.or_(right, bit), one)
    return [word, left, right], builder.xor(free, bit)


def _open_columns(builder: Builder, fields: list[Value], rule: _Rules) -> tuple[Value, Value]:
    """Emit the columns to be tried in the next row, and in which lanes there are some, in the row after it, too."""
    word, left, right = fields
    one, zero = _vectors.constant(1), _vectors.constant(0)
    full, sides = rule[FULL], rule[SIDES]
    corner = _in_corner(builder, word)
    turn = _turn(builder, word)
    free = builder.and_(full, builder.not_(builder.or_(builder.or_(word, left), right)))
    until = builder.select(corner, rule[NEXT], rule[NEXT_EDGE])
    closed = builder.select(corner, _vectors.constant(2), sides)
    open_sides = builder.and_(free, builder.not_(closed))
    free = builder.select(builder.icmp_unsigned(">", turn, until), open_sides, free)
    missing = builder.and_(sides, builder.not_(word))
    forced = builder.select(builder.icmp_unsigned("==", missing, sides), zero, builder.and_(free, missing))
    last_call = builder.and_(builder.icmp_unsigned("==", turn, rule[LAST_CALL]), builder.not_(corner))
    last_call = builder.and_(last_call, builder.icmp_unsigned("!=", missing, zero))
    free = builder.select(last_call, forced, free)
    attacked = builder.or_(builder.or_(word, builder.shl(left, one)), builder.lshr(right, one))
    after = builder.and_(full, builder.not_(attacked))
    opens = builder.and_(builder.icmp_unsigned("!=", free, zero), builder.icmp_unsigned("!=", after, zero))
    return free, opens


@emits(types.int64, types.uintp, types.uintp, types.uint32, types.uint32, types.uintp)
def _advance(builder: Builder, source: Value, target: Value, stride: Value, lanes: Value, rule: Value) -> Value:
    """Put a queen on the lowest free column of each of ``lanes`` placements from ``source`` on.

    The placements that have more columns to try stay, moved together; those a row below with a column to try go to
    ``target``. Fields are ``stride`` words apart. Returns the number that stay + 2^16 times the number of new ones.
    """
    source, target, rules = simd.pointer(builder, source), simd.pointer(builder, target), _Rules(builder, rule)
    here, active = _load_placements(builder, source, stride, lanes)
    below, rest = _place_lowest(builder, here, rules)
    free, opens = _open_columns(builder, below, rules)
    opens = builder.and_(opens, active)
    stays = builder.icmp_unsigned("!=", rest, _vectors.constant(0))
    compress = _vectors.compressor(builder)
    for place, mask, fields in ((target, opens, [*below, free]), (source, stays, [*here[:3], rest])):
        for i, field in enumerate(fields):
            offset = builder.mul(stride, ir.Constant(simd.WORD, i))
            _vectors.store(builder, compress(field, mask), place, offset)
    new = builder.shl(_vectors.popcount(builder, opens), ir.Constant(ir.IntType(64), _COUNT_BITS))
    return builder.or_(_vectors.popcount(builder, stays), new)


@emits(types.int64, types.uintp, types.uint32, types.uint32, types.uintp)
def _finish(builder: Builder, source: Value, stride: Value, lanes: Value, rule: Value) -> Value:
    """Return what the solutions of ``lanes`` placements with two open rows from ``source`` on count."""
    rules = _Rules(builder, rule)
    fields, _active = _load_placements(builder, simd.pointer(builder, source), stride, lanes)
    total = ir.Constant(ir.IntType(64), 0)
    for _ in range(2):  # two columns are left, so no more are free
        found, fields[3] = _count_solutions(builder, fields, rules)
        total = builder.add(total, found)
    return total


def _count_solutions(builder: Builder, fields: list[Value], rule: _Rules) -> tuple[Value, Value]:
    """Emit a queen on the lowest free column and one in the last row; return what they count, and what else is free."""
    zero = _vectors.constant(0)
    full = rule[FULL]
    corner = _in_corner(builder, fields[0])
    turn = builder.select(corner, zero, _turn(builder, fields[0]))
    allowed = builder.and_(builder.lshr(full, turn), builder.shl(full, turn))
    (word, left, right), rest = _place_lowest(builder, fields, rule)
    last = builder.and_(allowed, builder.not_(builder.or_(builder.or_(word, left), right)))
    solved = builder.and_(builder.icmp_unsigned("!=", last, zero), builder.icmp_unsigned("!=", fields[3], zero))
    tied = builder.icmp_unsigned("==", last, builder.lshr(rule[SIDES], turn))
    more = builder.select(tied, _vectors.constant(1), zero)
    ties = builder.select(corner, zero, builder.add(_ties(builder, word), more))
    total = ir.Constant(ir.IntType(64), 0)
    for number, weight in enumerate(WEIGHTS):
        such = builder.and_(solved, builder.icmp_unsigned("==", ties, _vectors.constant(number)))
        total = builder.add(total, builder.mul(_vectors.popcount(builder, such), ir.Constant(ir.IntType(64), weight)))
    return total, rest


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


@njit("Tuple((int64, int64, boolean))(uint32[:, :, ::1], int64[::1], uint32[:, ::1], int64)", nogil=True, cache=True)
def expand(queue, entries, rules, budget):
    """Do what ``scalar.expand`` does, in another order; overshoot the budget by up to LANES tasks."""
    stride = np.uint32(queue.shape[2])
    base = np.uintp(queue.ctypes.data)
    level_bytes = np.uintp(_WORD_BYTES * queue.shape[1] * queue.shape[2])
    rule = np.uintp(rules.ctypes.data)
    rule_bytes = np.uintp(_WORD_BYTES * rules.shape[1])
    tasks = np.int64(0)
    found = np.int64(0)
    level = _choose_level(entries)
    while level > 0 and tasks < budget:
        lanes = min(entries[level], LANES)
        left = entries[level] - lanes
        source = base + level_bytes * np.uintp(level) + np.uintp(_WORD_BYTES * left)
        tasks += lanes
        if level == 2:
            found += _finish(source, stride, np.uint32(lanes), rule + rule_bytes * np.uintp(level))
            entries[level] = left
        else:
            below = entries[level - 1]
            target = base + level_bytes * np.uintp(level - 1) + np.uintp(_WORD_BYTES * below)
            moved = _advance(source, target, stride, np.uint32(lanes), rule + rule_bytes * np.uintp(level))
            entries[level] = left + (moved & ((1 << _COUNT_BITS) - 1))
            entries[level - 1] = below + (moved >> _COUNT_BITS)
        level = _choose_level(entries)
    return tasks, found, level > 0
