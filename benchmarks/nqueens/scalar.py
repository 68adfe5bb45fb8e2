"""The N-Queens kernel one placement at a time: plain Python, which numba also compiles (``compiled.py``).

All numbers are non-negative and below 2^32, so that Python's integers and 64-bit ones agree. The rules are those of
``symmetry``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..harness.jit import jitable
from .symmetry import (
    CORNER,
    EDGE,
    FULL,
    LAST_CALL,
    NEXT,
    NEXT_EDGE,
    SIDE,
    SIDES,
    TIES_SHIFT,
    TURN_SHIFT,
    WEIGHTS,
)

if TYPE_CHECKING:
    from ..levelqueue import Integers, Words

NAME = "plain Python, no numba"
CAPACITY = 1
"""Entries per level that the kernel needs room for: it adds one to an empty level."""


@jitable
def _with_tie(word: int, bit: int, edge: int, side: int) -> int:
    """Return the first word of a placement, with a tie more if a queen on ``bit`` is one."""
    ties = (word >> TIES_SHIFT) & 3
    return word + (1 << TIES_SHIFT) if ties != CORNER and word >> TURN_SHIFT == edge and bit == side else word


@jitable
def _open_columns(word: int, left: int, right: int, rule: Words) -> int:
    """Return the columns to be tried in the next row; 0 if that, or the row after it, has none."""
    full, sides = int(rule[FULL]), int(rule[SIDES])
    free = full & ~(word | left | right)
    if not full & ~(word | (left << 1) | (right >> 1)):
        return 0
    turn = word >> TURN_SHIFT
    if (word >> TIES_SHIFT) & 3 == CORNER:
        return free & ~2 if turn > int(rule[NEXT]) else free
    if turn > int(rule[NEXT_EDGE]):
        return free & ~sides
    missing = sides & ~word
    if turn == int(rule[LAST_CALL]) and missing:
        return 0 if missing == sides else free & missing
    return free


@jitable
def _finish(word: int, left: int, right: int, free: int, rule: Words) -> int:
    """Return what the solutions of a placement with two open rows count."""
    full, sides = int(rule[FULL]), int(rule[SIDES])
    turn = word >> TURN_SHIFT
    corner = (word >> TIES_SHIFT) & 3 == CORNER
    allowed = full if corner else (full >> turn) & (full << turn)
    tie = 0 if corner else (sides >> 1 >> turn << 1) & ~1
    total = 0
    while free:
        bit = free & -free
        free ^= bit
        last = allowed & ~(word | bit | ((left | bit) << 1) | ((right | bit) >> 1))
        if last:
            ties = (_with_tie(word, bit, int(rule[EDGE]), int(rule[SIDE])) >> TIES_SHIFT) & 3
            total += WEIGHTS[0 if corner else ties + (last == tie)]
    return total


@jitable
def expand(queue: Words, entries: Integers, rules: Words, budget: int) -> tuple[int, int, bool]:
    """Search depth first until about ``budget`` tasks are done or nothing is left.

    A task is a queen put on a row with at least two open rows below it, or all that follows for a placement with two
    open rows, which is finished at once.

    Args:
        queue: Placements by open rows, [rows, field, entry].
        entries: Placements per level.
        rules: See ``symmetry.rules``.
        budget: Tasks, at least 1.

    Returns:
        Tasks done, what the solutions found count, and whether anything is left.
    """
    tasks = 0
    found = 0
    rows = 2
    while tasks < budget:
        while rows < len(entries) and entries[rows] == 0:
            rows += 1
        if rows == len(entries):
            return tasks, found, False
        last = entries[rows] - 1
        placement = queue[rows, :, last]
        word, left, right, free = int(placement[0]), int(placement[1]), int(placement[2]), int(placement[3])
        tasks += 1
        if rows == 2:
            entries[rows] = last
            found += _finish(word, left, right, free, rules[rows])
            continue
        bit = free & -free
        placement[3] = free ^ bit
        if free == bit:
            entries[rows] = last
        word = _with_tie(word, bit, int(rules[rows, EDGE]), int(rules[rows, SIDE])) | bit
        left = ((left | bit) << 1) & int(rules[rows, FULL])
        right = (right | bit) >> 1
        free = _open_columns(word, left, right, rules[rows])
        if free:
            rows -= 1
            end = entries[rows]
            queue[rows, 0, end] = word
            queue[rows, 1, end] = left
            queue[rows, 2, end] = right
            queue[rows, 3, end] = free
            entries[rows] = end + 1
    return tasks, found, True
