"""Which one of the eight images of a solution is searched for, and where such a search begins.

A solution turned and mirrored gives up to eight solutions. Each has a queen on every edge of the board; its distance
from the nearer corner is what tells the images apart:

- No queen in a corner. Let m be the distance of the queen in the first row. Only solutions are searched for in which
  that queen stands in the left half, and those of the other three edges are at least as far from the corners. If k of
  the eight images are such, each counts 8 / k; so those of one solution count together as many as they are, and no
  image need be compared with another. Each of the three queens makes another such image from one field only, for the
  other one at distance m is attacked by the first row's queen: that field is in row m for the last column, in row
  n - 1 - m for the first column, and in column n - 1 - m for the last row.
- A queen in the first row's first column. Then the mirror image about the diagonal is the only other one with it there.
  Only solutions are searched for in which the second row's queen, in column c, is nearer to the corner than the second
  column's. They count 8.

A placement is four words with a bit per column: the columns taken, the columns that the diagonals running down to the
left and down to the right reach in the next row, and the columns still to be tried there. The high bits of the first
tell how to go on: ``turn`` is m or c, ``ties`` is k - 1 so far, or CORNER.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    roots = [_start(size, ((0, distance),), distance, 0) for distance in distances]
    roots += [_start(size, ((0, 0), (1, column)), column, CORNER) for column in range(2, size)]
    return [(rows, placement) for rows, placement in roots if placement[3]]


def _start(size: int, queens: tuple[tuple[int, int], ...], turn: int, ties: int) -> tuple[int, Placement]:
    columns = left = right = 0
    for _, column in queens:
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
