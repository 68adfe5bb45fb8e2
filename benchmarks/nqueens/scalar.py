"""The N-Queens kernel one placement at a time, and the symmetry that spares it seven eighths of the board.

All numbers are non-negative and below 2^32, so that Python's integers and 64-bit ones agree.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..levelbag import Integers, Words


NAME = "plain Python, no numba"
CAPACITY = 1
"""Entries per level that the kernel needs room for: it adds one to an empty level."""


def _with_tie(word: int, bit: int, edge: int, side: int) -> int:
    """Return the first word of a placement, with a tie more if a queen on ``bit`` is one."""
    ties = (word >> TIES_SHIFT) & 3
    return word + (1 << TIES_SHIFT) if ties != CORNER and word >> TURN_SHIFT == edge and bit == side else word


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


def expand(queue: Words, entries: Integers, rules: Words, budget: int) -> tuple[int, int, bool]:
    """Search depth first until about ``budget`` tasks are done or nothing is left.

    A task is a queen put on a row with at least two open rows below it, or all that follows for a placement with two
    open rows, which is finished at once.

    Args:
        queue: Placements by open rows, [rows, field, entry].
        entries: Placements per level.
        rules: What the function ``rules`` returns.
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


# Which one of the eight images of a solution is searched for, and where such a search begins -------------------------
#
# A solution turned and mirrored gives up to eight solutions. Each has a queen on every edge of the board; its distance
# from the nearer corner is what distinguishes the images:
#
# - No queen in a corner. Let m be the distance of the queen in the first row. Only solutions are searched for in which
#   that queen stands in the left half, and those of the other three edges are at least as far from the corners. If k of
#   the eight images are such, each counts 8 / k; so those of one solution count together as many as they are, and no
#   image need be compared with another. Each of the three queens makes another such image from one field only, for the
#   other one at distance m is attacked by the first row's queen: that field is in row m for the last column, in row n -
#   1 - m for the first column, and in column n - 1 - m for the last row.
# - A queen in the first row's first column. Then the mirror image about the diagonal is the only other one with it
#   there. Only solutions are searched for in which the second row's queen, in column c, is nearer to the corner than
#   the second column's. They count 8.
#
# A placement is four words with a bit per column: the columns taken, the columns that the diagonals running down to the
# left and down to the right reach in the next row, and the columns still to be tried there. The high bits of the first
# decide how to go on: ``turn`` is m or c, ``ties`` is k - 1 so far, or CORNER.

Placement: TypeAlias = tuple[int, int, int, int]

TIES_SHIFT: Final = 25
TURN_SHIFT: Final = 27
CORNER: Final = 3
"""The ``ties`` of a placement with a queen in the corner."""
PARTS: Final = 3
"""Solutions are counted in thirds, as a solution with k = 3 counts 8 / 3."""
WEIGHTS: Final = (24, 12, 8, 6)
"""What a solution with k - 1 ties counts, in thirds; one with a queen in the corner counts as much as one with none."""

SIDES, FULL, EDGE, SIDE, NEXT, NEXT_EDGE, LAST_CALL, _FIELDS = range(8)
"""Fields of a rule; the row is the one where a queen is put, the next one that for which columns are left open.

SIDES: the bits of the first and the last column. FULL: those of all columns. EDGE: the row's distance from the nearer
edge. SIDE: the bit of the column where a queen at that distance is a tie. NEXT: the next row. NEXT_EDGE: its distance
from the nearer edge. LAST_CALL: the m whose queens in the first and last column must be there by the next row.
"""
NEVER: Final = 31
"""More than any m."""


@lru_cache(maxsize=8)
def rules(size: int) -> NDArray[np.uint32]:
    """Return the rule of each row by the number of open rows, which is ``size`` in the first row."""
    table = np.zeros((size + 1, _FIELDS + 1), np.uint32)
    right = 1 << (size - 1)
    for rows in range(1, size + 1):
        row = size - rows
        below = row + 1
        from_end = size - 1 - below
        table[rows, SIDES] = 1 | right
        table[rows, FULL] = (1 << size) - 1
        table[rows, EDGE] = min(row, size - 1 - row)
        table[rows, SIDE] = right if 2 * row < size - 1 else 1
        table[rows, NEXT] = below
        table[rows, NEXT_EDGE] = max(0, min(below, from_end))
        table[rows, LAST_CALL] = from_end if from_end < below and from_end > 0 else NEVER
    return table


def starts(size: int) -> list[tuple[int, Placement]]:
    """Return the open rows and the placement of each root of the search; ``size`` is 4 or more.

    The nearer to the corner, the more work; the roots stand so that the first half of them is about half of it.
    """
    distances = sorted(range(1, size // 2), key=lambda distance: (distance - 1).bit_count() % 2)
    roots = [_start(size, (distance,), distance, 0) for distance in distances]
    roots += [_start(size, (0, column), column, CORNER) for column in range(2, size)]
    return [(rows, placement) for rows, placement in roots if placement[3]]


def _start(size: int, queens: tuple[int, ...], turn: int, ties: int) -> tuple[int, Placement]:
    columns = left = right = 0
    for column in queens:
        bit = 1 << column
        columns |= bit
        left = (left | bit) << 1
        right = (right | bit) >> 1
    row = len(queens)
    closed = 0
    if row < turn:
        closed = 2 if ties == CORNER else 1 | 1 << (size - 1)
    free = ((1 << size) - 1) & ~(columns | left | right | closed)
    return size - row, (columns | ties << TIES_SHIFT | turn << TURN_SHIFT, left, right, free)


CALLED: Final = (_with_tie, _open_columns, _finish)
"""What ``expand`` calls, for a compiler."""
