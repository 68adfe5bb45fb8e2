"""The problems: the published samples, the bag of each tree, the oracle, and the kernel run alone."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ..levelbag import GIFT_TASKS
from .bag import UtsBag
from .binomial import BinomialBag, BinomialTree, HybridBag, HybridTree
from .tree import ShapedTree, Tree, child_count, last_word

if TYPE_CHECKING:
    from typing import TypeAlias

    AnyTree: TypeAlias = Tree | ShapedTree | BinomialTree | HybridTree


# The published sample trees that are geometric, binomial, or both ----------------------------------------------------

SAMPLES: dict[str, AnyTree] = {
    "T1": Tree(10),
    "T1L": Tree(13, 29),
    "T1XL": Tree(15, 29),
    "T1XXL": Tree(15),
    "T2": ShapedTree("cyclic", 16, 502, 6),
    "T2L": ShapedTree("cyclic", 23, 220, 7),
    "T3": BinomialTree(2000, 0.124875, 8, 42),
    "T3L": BinomialTree(2000, 0.200014, 5, 7),
    "T3XXL": BinomialTree(2000, 0.499995, 2, 316),
    "T4": HybridTree("linear", 16, 1, 6, 0.234375, 4),
    "T5": ShapedTree("linear", 20, 34, 4),
}


def bag_of(tree: AnyTree, gift_tasks: int = GIFT_TASKS) -> UtsBag | BinomialBag | HybridBag:
    """Return the bag that holds the whole tree; it gives no smaller subtrees away, see ``LevelBag``."""
    match tree:
        case BinomialTree():
            return BinomialBag.of_tree(tree, gift_tasks)
        case HybridTree():
            return HybridBag.of_tree(tree, gift_tasks)
        case _:
            return UtsBag.of_tree(tree, gift_tasks)


# The oracle: a plain search with ``hashlib`` and floating point that hashes every node, and the kernel run alone -----


def count_nodes(tree: AnyTree) -> int:
    """Return the number of nodes, root included; about a million nodes a second."""
    nodes = 0
    pending = [(tree.root(), 0)]
    while pending:
        state, depth = pending.pop()
        nodes += 1
        for child in range(_children(tree, state, depth)):
            message = state + child.to_bytes(4, "big")
            pending.append((hashlib.sha1(message, usedforsecurity=False).digest(), depth + 1))
    return nodes


def _children(tree: AnyTree, state: bytes, depth: int) -> int:
    word = last_word(state)
    if isinstance(tree, HybridTree):
        return _children(tree.geometric if depth < tree.turn else tree.binomial, state, depth)
    if not isinstance(tree, BinomialTree):
        return child_count(word, tree.mean_children(depth))
    if depth == 0:
        return tree.root_children
    return tree.children if word / (1 << 31) < tree.probability else 0


def run_kernel(tree: AnyTree) -> int:
    """Return the number of nodes as one bag finds it without any stealing."""
    bag = bag_of(tree)
    while bag.process(1 << 40):
        pass
    return bag.count


def warm_up() -> None:
    """Load the kernel, or compile it the first time on a machine, and run it once."""
    run_kernel(Tree(5))
