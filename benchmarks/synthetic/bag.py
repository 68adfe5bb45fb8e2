"""The bags: numbered tasks that are all known, and subtrees whose tasks become known when their parents are done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glb import ArrayBag

from ..harness.ranges import RangeBag
from .plain import MASK
from .work import MAX_BRANCHING, Work, load_kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class Tally:
    """The folded result: tasks and units done, and the sum modulo 2^64 of the values in which they ended."""

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

    def _compute(self, first: int, last: int, partial: Tally) -> None:
        instance = self._problem
        units, total = load_kernel().spin_range(first, last, instance.seed, instance.lengths)
        partial.merge(Tally(last - first, int(units), int(total)))


class TreeBag(ArrayBag):
    """Subtrees whose roots can be done, each as (first, last)."""

    room = MAX_BRANCHING

    def __init__(self, tasks: NDArray[np.int64], work: Work) -> None:
        super().__init__(tasks, total=np.zeros(3, np.uint64))
        self._instance = work

    @classmethod
    def whole(cls, work: Work) -> TreeBag:
        """Return the bag of the root."""
        return cls(np.array([[0, work.tasks]], np.int64), work)

    def kernel(self, stack: NDArray[np.int64], count: int, n: int) -> tuple[int, int]:
        """Do up to ``n`` tasks, and put their children on the stack."""
        instance = self._instance
        count, *done = load_kernel().spin_tree(stack, count, n, instance.seed, instance.lengths, instance.branching)
        self.total += np.array(done, np.uint64)
        return count, done[0]

    def submit(self, result: Any) -> None:
        """Move the partial result into a ``Tally``, which static bags have, too."""
        result.merge(Tally(*self.total.tolist()))
        self._clear()
