"""Boards that can be searched, and the recorded numbers of solutions."""

from __future__ import annotations

MAX_SIZE = 25
"""The bits of a board and seven others fit a 32-bit word."""

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
