"""The bag of UTS: subtrees to be searched."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.levelbag import LevelBag
from benchmarks.levelqueue import LevelQueue
from benchmarks.uts import kernel
from benchmarks.uts.tree import law

if TYPE_CHECKING:
    from benchmarks.levelqueue import Words
    from benchmarks.uts.tree import Tree

_FIELDS = 8
"""Five words of hash, the pending children from (inclusive) and to (exclusive), and one to fill half a cache line."""
_LOW, _HIGH = 5, 6
_MOST = 1 << 62


class UtsBag(LevelBag):
    """Nodes of a tree whose children are pending, by remaining levels; a task is a node.

    Args:
        tree: The tree.
        count: Nodes counted already.
        packed: The pending nodes, as ``LevelQueue.packed`` returned them; none by default.

    Attributes:
        hashed: Nodes that this instance hashed; the leaves on the last level are counted without.
    """

    __slots__ = ("_law", "_tree", "hashed")

    def __init__(self, tree: Tree, count: int = 0, packed: Words | None = None) -> None:
        queue = LevelQueue(tree.depth + 1, _FIELDS, kernel.CAPACITY, by_field=False)
        super().__init__(queue, _subtree_nodes(tree.depth, tree.branching), count, packed)
        self._tree = tree
        self._law = law(tree.branching)
        self.hashed = 0

    @classmethod
    def of_tree(cls, tree: Tree) -> UtsBag:
        """Return the bag that holds the whole tree."""
        digest = np.frombuffer(tree.root(), ">u4").astype(np.uint32)
        children = law(tree.branching).children(int(digest[4]) & 0x7FFFFFFF) if tree.depth else 0
        bag = cls(tree, count=1 + children if tree.depth == 1 else 1)
        if tree.depth > 1 and children:
            row = np.zeros((1, _FIELDS), np.uint32)
            row[0, :5] = digest
            row[0, _HIGH] = children
            bag._queue.append(tree.depth, row)
        bag.work = bag.count
        return bag

    def process(self, n: int) -> bool:
        """Count about ``n`` nodes, up to some 100 more; tell whether tasks remain."""
        queue = self._queue
        nodes, hashed, more = kernel.expand(
            queue.data, queue.entries, self._law.thresholds, self._law.guess, min(n, _MOST)
        )
        self.count += nodes
        self.work += nodes
        self.hashed += hashed
        return more

    def _empty(self) -> UtsBag:
        return UtsBag(self._tree)

    @staticmethod
    def _subtrees(rows: Words) -> list[int]:
        counts: list[int] = (rows[:, _HIGH] - rows[:, _LOW]).tolist()
        return counts

    @staticmethod
    def _divide(row: Words, subtrees: int) -> Words:
        part = row.copy()
        row[_LOW] += subtrees
        part[_HIGH] = row[_LOW]
        return part

    def __reduce__(self) -> tuple[type[UtsBag], tuple[Tree, int, Words]]:
        return UtsBag, (self._tree, self.count, self._queue.packed())


@lru_cache(maxsize=8)
def _subtree_nodes(depth: int, branching: int) -> tuple[float, ...]:
    """Return the mean number of nodes in the subtree of a child that is pending at each level."""
    nodes = [1.0]
    for _ in range(depth):
        nodes.append(min(1 + branching * nodes[-1], 1e300))
    return (1.0, *nodes[:depth])
