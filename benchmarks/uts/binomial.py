"""Binomial trees: the root has many children, any other node has either none or a fixed number of them.

Just below the critical probability most subtrees are tiny and a few are huge and deep, which no split foresees: the
hardest of the published trees for load balancing. Every node is hashed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from ..levelbag import GIFT_TASKS, LevelQueue
from . import kernel
from .bag import FIELDS, HIGH, LOW, MOST_NODES, MOST_WEIGHT, NodeBag
from .tree import Law, ShapedTree, law, root_hash

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
        return _KNOWN_NODES.get(astuple(self))

    def subtree_nodes(self) -> float:
        """Return the mean number of nodes in the subtree of a child of the root."""
        mean_children = self.probability * self.children
        return 1 / (1 - mean_children) if mean_children < 1 else math.inf


_STACK: Final = 0
"""The level of the queue for nodes of a binomial tree, or of the binomial part of one: a stack."""


def _search_stack(queue: LevelQueue, threshold: int, children: int, budget: int) -> int:
    """Count about ``budget`` nodes from the stack on, less than a vector more, or until it is full; return how many."""
    queue.reserve(int(queue.entries[_STACK]) + kernel.CAPACITY)
    nodes, left = kernel.expand_binomial(queue.data[_STACK], queue.entries[_STACK], threshold, children, budget)
    queue.entries[_STACK] = left
    return nodes


class BinomialBag(NodeBag[BinomialTree]):
    """Nodes of a binomial tree whose children are pending, as a stack on one level; a task is a node."""

    __slots__ = ("_threshold",)

    def _begin(self, problem: BinomialTree) -> tuple[LevelQueue, Sequence[float]]:
        self._threshold = problem.threshold()
        queue = LevelQueue(1, FIELDS, kernel.CAPACITY, by_field=False)
        return queue, (min(problem.subtree_nodes(), MOST_WEIGHT),)

    @classmethod
    def of_tree(cls, tree: BinomialTree, gift_tasks: int = GIFT_TASKS) -> BinomialBag:
        """Return the bag that holds the whole tree."""
        bag = cls(tree, count=1, gift_tasks=gift_tasks)
        bag.queue.append(_STACK, cls._row(tree.root(), tree.root_children))
        bag.work = bag.count
        return bag

    def process(self, n: int) -> bool:
        """Count about ``n`` nodes, less than a vector more; return whether tasks remain."""
        budget = min(n, MOST_NODES)
        while budget > 0 and not self.is_empty():
            nodes = _search_stack(self.queue, self._threshold, self._problem.children, budget)
            budget -= nodes
            self.count += nodes
            self.work += nodes
        return not self.is_empty()


# Hybrid trees: geometric above, binomial below a level, so that deep subtrees hang from a broad top ------------------

_KNOWN_HYBRID: Final = {("linear", 16, 1, 6, 0.234375, 4): 4132453}
_ROOM: Final = 1024
"""Entries that the floor gets before the search goes on below it."""
_FLOOR: Final = 2
"""The level to which the nodes go that the geometric search leaves to the binomial one."""


@dataclass(frozen=True, slots=True)
class HybridTree:
    """A tree that is geometric above level ``depth`` / 2 and binomial from there on.

    Args:
        shape: As for ``ShapedTree``.
        depth: As for ``ShapedTree``; 4 or more.
        seed: Seed of the root's hash.
        branching: Mean number of children of the root.
        probability: Probability that a node of the binomial part has children.
        children: Their number.
    """

    shape: str
    depth: int
    seed: int
    branching: int
    probability: float
    children: int

    @property
    def geometric(self) -> ShapedTree:
        """The tree that the upper part is cut from."""
        return ShapedTree(self.shape, self.depth, self.seed, self.branching)

    @property
    def binomial(self) -> BinomialTree:
        """A tree like those in the lower part."""
        return BinomialTree(0, self.probability, self.children, self.seed)

    @property
    def turn(self) -> int:
        """The first level of the binomial part."""
        return math.ceil(self.depth / 2)

    @property
    def levels(self) -> int:
        """Remaining levels of the root, in the queue of the bag."""
        return self.turn + _FLOOR

    def mean_children(self, level: int) -> float:
        """Return the mean number of children of the nodes on a level."""
        return self.geometric.mean_children(level) if level < self.turn else self.probability * self.children

    def root(self) -> bytes:
        """Return the hash of the root, 20 bytes."""
        return self.geometric.root()

    def known_nodes(self) -> int | None:
        """Return the number of nodes if it is recorded, else None."""
        return _KNOWN_HYBRID.get(astuple(self))


@lru_cache(maxsize=8)
def _hybrid_law(tree: HybridTree) -> Law:
    """Return the laws of the upper part; a node of the first binomial level is kept, as if it had one child."""
    upper = law(tree)
    keep = np.full((1, upper.thresholds.shape[1]), upper.thresholds[0, -1], np.uint32)
    keep[0, :2] = 0
    of_level = upper.of_level.copy()
    of_level[_FLOOR + 1] = len(upper.thresholds)
    guess = np.concatenate([upper.guess, np.ones((1, upper.guess.shape[1]), np.uint8)])
    return Law(np.concatenate([upper.thresholds, keep]), guess, of_level, upper.root_children)


class HybridBag(NodeBag[HybridTree]):
    """Nodes of a hybrid tree whose children are pending: a stack of binomial ones, the others by remaining levels."""

    __slots__ = ("_law", "_threshold")

    def _begin(self, problem: HybridTree) -> tuple[LevelQueue, Sequence[float]]:
        self._law = _hybrid_law(problem)
        self._threshold = problem.binomial.threshold()
        return LevelQueue(problem.levels + 1, FIELDS, kernel.CAPACITY, by_field=False), _subtree_nodes(problem)

    @classmethod
    def of_tree(cls, tree: HybridTree, gift_tasks: int = GIFT_TASKS) -> HybridBag:
        """Return the bag that holds the whole tree."""
        bag = cls(tree, count=1, gift_tasks=gift_tasks)
        if bag._law.root_children:
            bag.queue.append(tree.levels, cls._row(tree.root(), bag._law.root_children))
        bag.work = bag.count
        return bag

    def process(self, n: int) -> bool:
        """Count about ``n`` nodes, less than two vectors more; return whether tasks remain."""
        budget = min(n, MOST_NODES)
        while budget > 0 and not self.is_empty():
            if self.queue.entries[_STACK]:
                nodes = _search_stack(self.queue, self._threshold, self._problem.children, budget)
            else:
                nodes = self._search_above(budget)
            budget -= nodes
            self.count += nodes
            self.work += nodes
        return not self.is_empty()

    def _search_above(self, budget: int) -> int:
        queue, laws = self.queue, self._law
        queue.reserve(_ROOM + kernel.CAPACITY)
        nodes, _, _ = kernel.expand(
            queue.data, queue.entries, laws.of_level, laws.thresholds, laws.guess, _FLOOR, min(budget, _ROOM)
        )
        found = queue.rows(_FLOOR)
        parents = found[(found[:, LOW - 1] & np.uint32(0x7FFFFFFF)) < self._threshold]
        parents[:, HIGH] = self._problem.children
        queue.entries[_FLOOR] = 0
        queue.append(_STACK, parents)
        return nodes


@lru_cache(maxsize=8)
def _subtree_nodes(tree: HybridTree) -> tuple[float, ...]:
    """Return the mean number of nodes in the subtree of a child that is pending at each level."""
    below = min(tree.binomial.subtree_nodes(), MOST_WEIGHT)
    nodes = [below] * (_FLOOR + 2)
    for level in range(tree.turn - 1, 0, -1):
        nodes.append(min(1 + tree.mean_children(level) * nodes[-1], MOST_WEIGHT))
    return tuple(nodes)
