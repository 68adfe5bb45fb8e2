"""The bag of N-Queens: partial placements on boards that can be searched."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..levelbag import GIFT_TASKS, LevelBag, LevelQueue
from . import kernel
from .scalar import PARTS, rules, starts

if TYPE_CHECKING:
    from ..levelbag import Words


_FIELDS = 4
_FREE = 3
_MOST = 1 << 62
_LEAST = 4
"""Rows of the smallest board with more than one queen that has a solution."""


class QueensBag(LevelBag[int]):
    """Placements of queens on the upper rows, by open rows.

    A task is a queen put on a row with at least two open rows below it, or all that follows for a placement with two
    open rows: the inner nodes of the search tree. A solution counts for all its images, see ``scalar``.

    The problem is the number of rows of the board; what was counted is in thirds of a solution.
    """

    __slots__ = ("_rules",)

    def _begin(self, problem: int) -> tuple[LevelQueue, Sequence[float]]:
        self._rules = rules(problem)
        return LevelQueue(problem + 1, _FIELDS, kernel.CAPACITY, by_field=True), _subtree_tasks(problem)

    @classmethod
    def of_board(cls, size: int, gift_tasks: int = GIFT_TASKS) -> QueensBag:
        """Return the bag that holds the whole search of a board that passes ``check_size``."""
        check_size(size)
        bag = cls(size, count=PARTS if size == 1 else 0, gift_tasks=gift_tasks)
        for rows, placement in starts(size) if size >= _LEAST else ():
            bag.queue.append(rows, np.array([placement], np.uint32))
        return bag

    def process(self, n: int) -> bool:
        """Do about ``n`` tasks, up to 16 more; return whether tasks remain."""
        queue = self.queue
        tasks, found, more = kernel.expand(queue.data, queue.entries, self._rules, min(n, _MOST))
        self.count += found
        self.work += tasks
        return more

    @staticmethod
    def _subtrees(rows: Words) -> list[int]:
        return [free.bit_count() for free in rows[:, _FREE].tolist()]

    @staticmethod
    def _divide(row: Words, subtrees: int) -> Words:
        part = row.copy()
        free = given = int(row[_FREE])
        for _ in range(subtrees):
            free &= free - 1
        row[_FREE] = free
        part[_FREE] = given ^ free
        return part


@lru_cache(maxsize=8)
def _subtree_tasks(size: int) -> tuple[float, ...]:
    """Return the expected number of tasks that follow from one queen put at each level, itself included.

    With r more open rows one task makes about 0.7 r^2 / size others, as counted on a board of 16 rows: near enough to
    halve.
    """
    tasks = [1.0, 1.0, 1.0]
    for rows in range(3, size + 1):
        tasks.append(1 + 0.7 * (rows - 1) ** 2 / size * tasks[-1])
    return tuple(tasks[: size + 1])


# Boards that can be searched, and the recorded numbers of solutions --------------------------------------------------

MAX_SIZE = 25
"""The bits of a board and seven others fit a 32-bit word."""

_KNOWN_SOLUTIONS = (
    *(1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712, 365596, 2279184, 14772512, 95815104, 666090624),
    *(4968057848, 39029188884),
)
"""Solutions for sizes from 1 on."""


def check_size(size: int) -> None:
    """Raise ``ValueError`` for the size of a board that cannot be searched."""
    if not 1 <= size <= MAX_SIZE:
        raise ValueError(f"the board has {size} rows, but must have from 1 to {MAX_SIZE}")


def known_solutions(size: int) -> int | None:
    """Return the number of solutions if it is recorded, else None."""
    return _KNOWN_SOLUTIONS[size - 1] if size <= len(_KNOWN_SOLUTIONS) else None
