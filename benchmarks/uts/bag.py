"""The bag of UTS: subtrees to be searched."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..levelbag import GIFT_TASKS, LevelBag, LevelQueue, P
from . import kernel
from .tree import Geometric, law

if TYPE_CHECKING:
    from ..levelbag import Words

FIELDS = 8
"""Five words of hash, the pending children from (inclusive) and to (exclusive), and one to fill half a cache line."""
LOW, HIGH = 5, 6
MOST_NODES = 1 << 62
_LEAVES = 1
"""The level whose entries would be parents of leaves."""
MOST_WEIGHT = 1e200


class NodeBag(LevelBag[P]):
    """Nodes whose children, numbered from 0, are pending within two bounds."""

    __slots__ = ()

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

    @staticmethod
    def _row(digest: bytes, children: int) -> Words:
        """Return the entry of a node with all its children pending."""
        row = np.zeros((1, FIELDS), np.uint32)
        row[0, :LOW] = np.frombuffer(digest, ">u4")
        row[0, HIGH] = children
        return row


class UtsBag(NodeBag[Geometric]):
    """Nodes of a geometric tree whose children are pending, by remaining levels; a task is a node.

    Attributes:
        hashed: Nodes that this instance hashed; the leaves on the last level are counted without.
    """

    __slots__ = ("_law", "hashed")

    def _begin(self, problem: Geometric) -> tuple[LevelQueue, Sequence[float]]:
        self._law = law(problem)
        self.hashed = 0
        return LevelQueue(problem.levels + 1, FIELDS, kernel.CAPACITY, by_field=False), _subtree_nodes(problem)

    @classmethod
    def of_tree(cls, tree: Geometric, gift_tasks: int = GIFT_TASKS) -> UtsBag:
        """Return the bag that holds the whole tree."""
        children = law(tree).root_children if tree.levels else 0
        bag = cls(tree, count=1 + children if tree.levels == 1 else 1, gift_tasks=gift_tasks)
        if tree.levels > 1 and children:
            bag.queue.append(tree.levels, cls._row(tree.root(), children))
        bag.work = bag.count
        return bag

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
def _subtree_nodes(tree: Geometric) -> tuple[float, ...]:
    """Return the mean number of nodes in the subtree of a child that is pending at each level."""
    nodes = [1.0]
    for remaining in range(1, tree.levels):
        mean = tree.mean_children(tree.levels - remaining)
        nodes.append(min(1 + mean * nodes[-1], MOST_WEIGHT))
    return (1.0, *nodes)[: tree.levels + 1]
