"""Binomial trees: the root has many children, any other node has either none or a fixed number of them.

Just below the critical probability most subtrees are tiny and a few are huge and deep, which no split foresees: the
hardest of the published trees for load balancing. Every node is hashed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..levelbag import GIFT_TASKS, LevelQueue
from . import kernel
from .bag import FIELDS, MOST_NODES, MOST_WEIGHT, NodeBag
from .tree import root_hash

if TYPE_CHECKING:
    from ..levelbag import Words

_KNOWN_NODES = {
    (2000, 0.124875, 8, 42): 4112897,
    (2000, 0.200014, 5, 7): 111345631,
    (2000, 0.499995, 2, 316): 2793220501,
}
"""Nodes by the parameters of a tree, in their order."""


@dataclass(frozen=True, slots=True)
class BinomialTree:
    """One binomial tree.

    Args:
        root_children: Children of the root.
        probability: Probability that another node has children.
        children: Their number.
        seed: Seed of the root's hash.
    """

    root_children: int
    probability: float
    children: int
    seed: int

    def root(self) -> bytes:
        """Return the hash of the root, 20 bytes."""
        return root_hash(self.seed)

    def threshold(self) -> int:
        """Return the 31-bit hash word from which on a node has no children."""
        return math.ceil(self.probability * (1 << 31))

    def known_nodes(self) -> int | None:
        """Return the number of nodes if it is recorded, else None."""
        return _KNOWN_NODES.get((self.root_children, self.probability, self.children, self.seed))

    def subtree_nodes(self) -> float:
        """Return the mean number of nodes in the subtree of a child of the root."""
        mean_children = self.probability * self.children
        return 1 / (1 - mean_children) if mean_children < 1 else math.inf


class BinomialBag(NodeBag):
    """Nodes of a binomial tree whose children are pending, as a stack on one level; a task is a node.

    Args:
        tree: The tree.
        count: Nodes counted already.
        packed: The pending nodes, as ``LevelQueue.packed`` returned them; none by default.
        gift_tasks: As for ``LevelBag``.
    """

    __slots__ = ("_threshold", "_tree")

    def __init__(
        self, tree: BinomialTree, count: int = 0, packed: Words | None = None, gift_tasks: int = GIFT_TASKS
    ) -> None:
        queue = LevelQueue(1, FIELDS, kernel.CAPACITY, by_field=False)
        super().__init__(queue, (min(tree.subtree_nodes(), MOST_WEIGHT),), count, packed, gift_tasks)
        self._tree = tree
        self._threshold = tree.threshold()

    @classmethod
    def of_tree(cls, tree: BinomialTree, gift_tasks: int = GIFT_TASKS) -> BinomialBag:
        """Return the bag that holds the whole tree."""
        bag = cls(tree, count=1, gift_tasks=gift_tasks)
        bag._queue.append(0, cls._row(tree.root(), tree.root_children))
        bag.work = bag.count
        return bag

    def process(self, n: int) -> bool:
        """Count about ``n`` nodes, less than a vector more; tell whether tasks remain."""
        queue = self._queue
        budget = min(n, MOST_NODES)
        while budget > 0 and queue.entries[0]:
            queue.reserve(int(queue.entries[0]) + kernel.CAPACITY)
            nodes, left = kernel.expand_binomial(
                queue.data[0], queue.entries[0], self._threshold, self._tree.children, budget
            )
            queue.entries[0] = left
            budget -= nodes
            self.count += nodes
            self.work += nodes
        return bool(queue.entries[0])

    def _empty(self) -> BinomialBag:
        return BinomialBag(self._tree, gift_tasks=self.gift_tasks)

    def __reduce__(self) -> tuple[type[BinomialBag], tuple[BinomialTree, int, Words, int]]:
        return BinomialBag, (self._tree, self.count, self._queue.packed(), self.gift_tasks)
