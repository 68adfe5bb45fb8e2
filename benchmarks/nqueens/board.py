"""The board as bits, where a search of it begins, and the recorded numbers of solutions.

A partial placement is four words with a bit per column: the columns taken, the columns that the diagonals running down
to the left and down to the right reach in the next row, and the columns still to be tried there.
"""

from __future__ import annotations

from typing import TypeAlias

MAX_SIZE = 30
"""The bits of a board fit a 32-bit word, with room for the diagonals."""

Placement: TypeAlias = tuple[int, int, int, int]

_KNOWN_SOLUTIONS = (
    *(1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712, 365596, 2279184, 14772512, 95815104, 666090624),
    *(4968057848, 39029188884),
)
"""Solutions for sizes from 1 on."""


def check_size(size: int) -> None:
    """Refuse a board that cannot be searched.

    Raises:
        ValueError: ``size`` is out of range.
    """
    if not 1 <= size <= MAX_SIZE:
        raise ValueError(f"the board has {size} rows, but must have from 1 to {MAX_SIZE}")


def known_solutions(size: int) -> int | None:
    """Return the number of solutions if it is recorded, else None."""
    return _KNOWN_SOLUTIONS[size - 1] if size <= len(_KNOWN_SOLUTIONS) else None


def starts(size: int) -> list[tuple[int, Placement]]:
    """Return the open rows and the placement of each root of the search, which finds one solution of each mirror pair.

    Mirrored left to right, no solution of two rows or more is itself. So the first queen goes to the left half only; on
    a board of odd size it may also go to the middle, and then the second queen goes to the left half only.
    """
    half = (1 << (size // 2)) - 1
    roots = [(size, (0, 0, 0, half))]
    if size % 2:
        middle = 1 << (size // 2)
        attacked = middle | middle << 1 | middle >> 1
        roots.append((size - 1, (middle, middle << 1, middle >> 1, half & ~attacked)))
    return [(rows, placement) for rows, placement in roots if placement[3]]
