"""The bags: numbered tasks that are all known, and subtrees whose tasks become known when their parents are done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ..harness.ranges import RangeBag, Ranges
from .plain import MASK
from .work import Work, load_kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


_ROOM: Final = 64


@dataclass
class Tally:
    """The folded result.

    Attributes:
        tasks: Tasks done.
        units: Units done.
        total: Sum of the values in which they ended, modulo 2^64: each task counts, in any order.
    """

    tasks: int = 0
    units: int = 0
    total: int = 0

    def merge(self, other: Tally) -> None:
        """Add the counts of ``other``."""
        self.tasks += other.tasks
        self.units += other.units
        self.total = (self.total + other.total) & MASK


class StaticBag(RangeBag[Tally, Work]):
    """Tasks by number.

    The problem is what the tasks do.
    """

    result = Tally

    @classmethod
    def whole(cls, work: Work) -> StaticBag:
        """Return the bag of all tasks."""
        return cls(Ranges([(0, work.tasks)], 1), work)

    def _compute(self, first: int, last: int, partial: Tally) -> None:
        instance = self._problem
        units, total = load_kernel().spin_range(first, last, instance.seed, instance.lengths)
        partial.merge(Tally(last - first, int(units), int(total)))


class TreeBag:
    """Subtrees whose roots can be done.

    Args:
        rows: The subtrees, each as (first, last); those to be given away first come first.
        work: What the tasks do.

    Attributes:
        work: Tasks processed by this instance.
    """

    def __init__(self, rows: NDArray[np.int64], work: Work) -> None:
        self.work = 0
        self._instance = work
        self._partial = Tally()
        self._top = 0
        self._stack = np.empty((0, 2), np.int64)
        self._push(rows)

    @classmethod
    def whole(cls, work: Work) -> TreeBag:
        """Return the bag of the root."""
        return cls(np.array([[0, work.tasks]], np.int64), work)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_stack": self._stack[: self._top].copy()}

    def __len__(self) -> int:
        return self._top

    def _push(self, rows: NDArray[np.int64]) -> None:
        """Put ``rows`` on top, and make room for the children of a task."""
        needed = self._top + len(rows) + self._instance.branching
        if needed > len(self._stack):
            larger = np.empty((2 * needed + _ROOM, 2), np.int64)
            larger[: self._top] = self._stack[: self._top]
            self._stack = larger
        self._stack[self._top : self._top + len(rows)] = rows
        self._top += len(rows)

    def process(self, n: int) -> bool:
        """Do about ``n`` tasks; True while some remain."""
        instance, kernel = self._instance, load_kernel()
        while n > 0 and self._top:
            self._push(self._stack[:0])
            self._top, done, units, total = kernel.spin_tree(
                self._stack, self._top, n, instance.seed, instance.lengths, instance.branching
            )
            self._partial.merge(Tally(done, int(units), int(total)))
            self.work += done
            n -= done
        return self._top > 0

    def split(self, all: bool) -> TreeBag | None:
        """Give every other subtree, or all of them; None if there is nothing to give."""
        held = self._stack[: self._top]
        given = held.copy() if all else held[: 2 * (self._top // 2) : 2].copy()
        if not len(given):
            return None
        kept = held[:0] if all else np.concatenate([held[1 : 2 * (self._top // 2) : 2], held[2 * (self._top // 2) :]])
        self._top = len(kept)
        self._stack[: self._top] = kept
        return TreeBag(given, self._instance)

    def merge(self, other: TreeBag) -> None:
        """Take the subtrees and the partial result of ``other``."""
        self._push(other._stack[: other._top])
        other._top = 0
        other.submit(self._partial)

    def is_empty(self) -> bool:
        """Return whether no task is left."""
        return not self._top

    def is_splittable(self) -> bool:
        """Return whether ``split(False)`` would give something."""
        return self._top > 1

    def submit(self, result: Tally) -> None:
        """Move the partial result into ``result``."""
        result.merge(self._partial)
        self._partial = Tally()
