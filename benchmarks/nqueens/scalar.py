"""The N-Queens kernel one placement at a time: plain Python, which numba also compiles (``compiled.py``).

All numbers are non-negative and below 2^32, so that Python's integers and 64-bit ones agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.levelqueue import Integers, Words

NAME = "plain Python, no numba"
CAPACITY = 1
"""Entries per level that the kernel needs room for: it adds one to an empty level."""


def expand(queue: Words, entries: Integers, full: int, budget: int) -> tuple[int, int, bool]:
    """Search depth first until about ``budget`` tasks are done or nothing is left.

    A task is a queen put on a row with at least two open rows below it, or all that follows for a placement with two
    open rows, which is finished at once.

    Args:
        queue: Placements by open rows, [rows, field, entry]; the fields are those of ``board``.
        entries: Placements per level.
        full: The bits of all columns.
        budget: Tasks, at least 1.

    Returns:
        Tasks done, solutions found, and whether anything is left.
    """
    tasks = 0
    solutions = 0
    rows = 2
    while tasks < budget:
        while rows < len(entries) and entries[rows] == 0:
            rows += 1
        if rows == len(entries):
            return tasks, solutions, False
        last = entries[rows] - 1
        columns = int(queue[rows, 0, last])
        left = int(queue[rows, 1, last])
        right = int(queue[rows, 2, last])
        free = int(queue[rows, 3, last])
        tasks += 1
        if rows == 2:
            entries[rows] = last
            while free:
                bit = free & -free
                free ^= bit
                solutions += (full & ~(columns | bit | ((left | bit) << 1) | ((right | bit) >> 1))) != 0
            continue
        bit = free & -free
        free ^= bit
        queue[rows, 3, last] = free
        if not free:
            entries[rows] = last
        columns |= bit
        left = ((left | bit) << 1) & full
        right = (right | bit) >> 1
        free = full & ~(columns | left | right)
        if free:
            rows -= 1
            end = entries[rows]
            queue[rows, 0, end] = columns
            queue[rows, 1, end] = left
            queue[rows, 2, end] = right
            queue[rows, 3, end] = free
            entries[rows] = end + 1
    return tasks, solutions, True
