"""The bag of N-Queens: partial placements to be completed."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.levelbag import LevelBag
from benchmarks.levelqueue import LevelQueue
from benchmarks.nqueens import kernel
from benchmarks.nqueens.board import check_size, starts

if TYPE_CHECKING:
    from benchmarks.levelqueue import Words

_FIELDS = 4
_FREE = 3
_MOST = 1 << 62


class QueensBag(LevelBag):
    """Placements of queens on the upper rows, by open rows.

    A task is a queen put on a row with at least two open rows below it, or all that follows for a placement with two
    open rows: the inner nodes of the search tree. Solutions count twice, for themselves and their mirror image.

    Args:
        size: Rows of the board.
        count: Solutions counted already.
        packed: The placements, as ``LevelQueue.packed`` returned them; none by default.
    """

    __slots__ = ("_full", "_size")

    def __init__(self, size: int, count: int = 0, packed: Words | None = None) -> None:
        queue = LevelQueue(size + 1, _FIELDS, kernel.CAPACITY, by_field=True)
        super().__init__(queue, _subtree_tasks(size), count, packed)
        self._size = size
        self._full = (1 << size) - 1

    @classmethod
    def of_board(cls, size: int) -> QueensBag:
        """Return the bag that holds the whole search.

        Raises:
            ValueError: ``size`` is out of range.
        """
        check_size(size)
        bag = cls(size, count=1 if size == 1 else 0)
        for rows, placement in starts(size):
            bag._queue.append(rows, np.array([placement], np.uint32))
        return bag

    def process(self, n: int) -> bool:
        """Do about ``n`` tasks, up to 16 more; tell whether tasks remain."""
        queue = self._queue
        tasks, solutions, more = kernel.expand(queue.data, queue.entries, self._full, min(n, _MOST))
        self.count += 2 * solutions
        self.work += tasks
        return more

    def _empty(self) -> QueensBag:
        return QueensBag(self._size)

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

    def __reduce__(self) -> tuple[type[QueensBag], tuple[int, int, Words]]:
        return QueensBag, (self._size, self.count, self._queue.packed())


@lru_cache(maxsize=8)
def _subtree_tasks(size: int) -> tuple[float, ...]:
    """Return the expected number of tasks that follow from one queen put at each level, itself included.

    With r open rows about 0.8 r^2 / size columns are free, as counted on boards of 8 to 13 rows: near enough to halve.
    """
    tasks = [1.0, 1.0, 1.0]
    for rows in range(3, size + 1):
        tasks.append(1 + 0.8 * (rows - 1) ** 2 / size * tasks[-1])
    return tuple(tasks[: size + 1])
