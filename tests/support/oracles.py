"""The oracles of UTS and N-Queens: plain searches that share nothing with the kernels."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from benchmarks.uts.binomial import BinomialTree, HybridTree
from benchmarks.uts.tree import child_count, last_word

if TYPE_CHECKING:
    from benchmarks.uts.problems import AnyTree


def count_nodes(tree: AnyTree) -> int:
    """Return the number of nodes, root included, by ``hashlib`` and floating point; about a million nodes a second."""
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
    if isinstance(tree, HybridTree) and depth >= tree.turn:
        return _children(tree.binomial, state, depth)
    if not isinstance(tree, BinomialTree):
        return child_count(word, tree.mean_children(depth))
    if depth == 0:
        return tree.root_children
    return tree.children if word / (1 << 31) < tree.probability else 0


def count_solutions(size: int, columns: tuple[int, ...] = ()) -> int:
    """Return the number of solutions that begin with queens in ``columns``, row by row, without bits and symmetry."""
    row = len(columns)
    if row == size:
        return 1
    return sum(
        count_solutions(size, (*columns, column))
        for column in range(size)
        if all(column != other and abs(column - other) != row - above for above, other in enumerate(columns))
    )
