"""The bag of UTS: subtrees to be searched."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np

from ..levelbag import GIFT_TASKS, LevelBag, LevelQueue
from . import kernel
from .plain import HIGH, LOW
from .tree import SeededTree, Tree, law

if TYPE_CHECKING:
    from ..levelbag import Words

FIELDS = 8
"""Five words of hash, the pending children from (inclusive) and to (exclusive), and one to fill half a cache line."""
MOST_NODES = 1 << 62
_LEAVES = 1
"""The level whose entries would be parents of leaves."""
MOST_WEIGHT = 1e200

T = TypeVar("T", bound=SeededTree)


class NodeBag(LevelBag[T]):
    """Nodes whose children, numbered from 0, are pending within two bounds; a task is a node."""

    __slots__ = ()

    @classmethod
    def of_tree(cls, tree: T, gift_tasks: int = GIFT_TASKS) -> Self:
        """Return the bag that holds the whole tree."""
        bag = cls(tree, count=1, gift_tasks=gift_tasks)
        level, children = bag._plant()
        if children:
            row = np.zeros((1, FIELDS), np.uint32)
            row[0, :LOW] = np.frombuffer(tree.root(), ">u4")
            row[0, HIGH] = children
            bag.queue.append(level, row)
        bag.work = bag.count
        return bag

    @abstractmethod
    def _plant(self) -> tuple[int, int]:
        """Return the level of the root, which is counted already, and the number of its children that are pending."""

    @staticmethod
    def _subtrees(rows: Words) -> list[int]:
        counts: list[int] = (rows[:, HIGH] - rows[:, LOW]).tolist()
        return counts

    @staticmethod
    def _divide(row: Words, subtrees: int) -> Words:
        part = row.copy()
        row[LOW] += subtrees
        part[HIGH] = row[LOW]
        return part


class UtsBag(NodeBag[Tree]):
    """Nodes of a geometric tree whose children are pending, by remaining levels.

    Attributes:
        hashed: Nodes that this instance hashed; the leaves on the last level are counted without.
    """

    __slots__ = ("_law", "hashed")

    def _begin(self, problem: Tree) -> tuple[LevelQueue, Sequence[float]]:
        self._law = law(problem)
        self.hashed = 0
        return LevelQueue(problem.levels + 1, FIELDS, kernel.CAPACITY, by_field=False), subtree_nodes(problem)

    def _plant(self) -> tuple[int, int]:
        levels, children = self._problem.levels, self._law.root_children
        if levels == 1:  # leaves are counted with their parent
            self.count += children
        return levels, children if levels > 1 else 0

    def process(self, n: int) -> bool:
        """Count about ``n`` nodes, up to some 200 more; return whether tasks remain."""
        queue = self.queue
        nodes, hashed, more = kernel.expand(
            queue.data,
            queue.entries,
            self._law.of_level,
            self._law.thresholds,
            self._law.guess,
            _LEAVES,
            min(n, MOST_NODES),
        )
        self.count += nodes
        self.work += nodes
        self.hashed += hashed
        return more


@lru_cache(maxsize=8)
def subtree_nodes(tree: Tree, lowest: tuple[float, ...] = (1.0, 1.0)) -> tuple[float, ...]:
    """Return the mean number of nodes in the subtree of a child pending at each level, from the lowest ones on."""
    nodes = list(lowest)
    for remaining in range(len(lowest), tree.levels + 1):
        nodes.append(min(1 + tree.mean_children(tree.levels - remaining + 1) * nodes[-1], MOST_WEIGHT))
    return tuple(nodes[: tree.levels + 1])
