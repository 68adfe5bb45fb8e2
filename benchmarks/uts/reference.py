"""The oracle: a plain search with ``hashlib`` and floating point that hashes every node, and the kernel run alone."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from .binomial import BinomialTree, HybridTree
from .tree import Tree, child_count, last_word

if TYPE_CHECKING:
    from .samples import AnyTree


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
    from .samples import bag_of

    bag = bag_of(tree)
    while bag.process(1 << 40):
        pass
    return bag.count


def warm_up() -> None:
    """Load the kernel, or compile it the first time on a machine, and run it once."""
    run_kernel(Tree(5))
