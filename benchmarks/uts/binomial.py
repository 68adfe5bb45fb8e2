"""Binomial trees: the root has many children, any other node has either none or a fixed number of them.

Just below the critical probability most subtrees are tiny and a few are huge and deep, which no split foresees: the
hardest of the published trees for load balancing. Every node is hashed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np

from ..levelbag import LevelQueue
from . import kernel
from .bag import FIELDS, MOST_NODES, MOST_WEIGHT, NodeBag, subtree_nodes
from .plain import HIGH, LOW
from .tree import Law, SeededTree, Tree, law


@dataclass(frozen=True, slots=True)
class BinomialTree(SeededTree):
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

    def threshold(self) -> int:
        """Return the 31-bit hash word from which on a node has no children."""
        return math.ceil(self.probability * (1 << 31))

    def subtree_nodes(self) -> float:
        """Return the mean number of nodes in the subtree of a child of the root."""
        mean_children = self.probability * self.children
        return 1 / (1 - mean_children) if mean_children < 1 else math.inf


_STACK: Final = 0
"""The level of the queue for nodes of a binomial tree, or of the binomial part of one: a stack."""
B = TypeVar("B", "BinomialTree", "HybridTree")


class StackBag(NodeBag[B]):
    """Nodes of a binomial tree, or of the binomial part of one, whose children are pending, as a stack on one level."""

    __slots__ = ("_threshold",)
    _threshold: int

    def process(self, n: int) -> bool:
        """Count about ``n`` nodes, less than two vectors more; return whether tasks remain."""
        budget = min(n, MOST_NODES)
        while budget > 0 and not self.is_empty():
            nodes = self._search(budget)
            budget -= nodes
            self.count += nodes
            self.work += nodes
        return not self.is_empty()

    def _search(self, budget: int) -> int:
        """Count about ``budget`` nodes, less than a vector more, or until the stack is full; return how many."""
        queue = self.queue
        queue.reserve(int(queue.entries[_STACK]) + kernel.CAPACITY)
        nodes, queue.entries[_STACK] = kernel.expand_binomial(
            queue.data[_STACK], queue.entries[_STACK], self._threshold, self._problem.children, budget
        )
        return nodes


class BinomialBag(StackBag[BinomialTree]):
    """Nodes of a binomial tree whose children are pending, all on the stack."""

    __slots__ = ()

    def _begin(self, problem: BinomialTree) -> tuple[LevelQueue, Sequence[float]]:
        self._threshold = problem.threshold()
        queue = LevelQueue(1, FIELDS, kernel.CAPACITY, by_field=False)
        return queue, (min(problem.subtree_nodes(), MOST_WEIGHT),)

    def _plant(self) -> tuple[int, int]:
        return _STACK, self._problem.root_children


# Hybrid trees: geometric above, binomial below a level, so that deep subtrees hang from a broad top ------------------

_ROOM: Final = 1024
"""Entries that the floor gets before the search goes on below it."""
_FLOOR: Final = 2
"""The level to which the nodes go that the geometric search leaves to the binomial one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridTree(Tree):
    """A geometric tree, of ``depth`` 4 or more, that is binomial from level ``depth`` / 2 on.

    Args:
        probability: Probability that a node of the binomial part has children.
        children: Their number.
    """

    probability: float
    children: int

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
        if level >= self.turn:
            return self.probability * self.children
        return Tree.mean_children(self, level)  # ``super()`` does not know the class that ``slots`` makes


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


class HybridBag(StackBag[HybridTree]):
    """Nodes of a hybrid tree whose children are pending: a stack of binomial ones, the others by remaining levels."""

    __slots__ = ("_law",)

    def _begin(self, problem: HybridTree) -> tuple[LevelQueue, Sequence[float]]:
        self._law = _hybrid_law(problem)
        self._threshold = problem.binomial.threshold()
        below = min(problem.binomial.subtree_nodes(), MOST_WEIGHT)
        weights = subtree_nodes(problem, (below,) * (_FLOOR + 2))
        return LevelQueue(problem.levels + 1, FIELDS, kernel.CAPACITY, by_field=False), weights

    def _plant(self) -> tuple[int, int]:
        return self._problem.levels, self._law.root_children

    def _search(self, budget: int) -> int:
        queue, laws = self.queue, self._law
        if queue.entries[_STACK]:
            return super()._search(budget)
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
