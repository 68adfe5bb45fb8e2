"""The oracle: a plain search with ``hashlib`` and floating point that hashes every node, and the kernel run alone."""

from __future__ import annotations

import hashlib

from benchmarks.uts.tree import Tree, child_count


def count_nodes(tree: Tree) -> int:
    """Return the number of nodes, root included; about a million nodes a second."""
    nodes = 0
    pending = [(tree.root(), tree.depth)]
    while pending:
        state, remaining = pending.pop()
        nodes += 1
        if remaining:
            word = int.from_bytes(state[16:], "big") & 0x7FFFFFFF
            for child in range(child_count(word, tree.branching)):
                message = state + child.to_bytes(4, "big")
                pending.append((hashlib.sha1(message, usedforsecurity=False).digest(), remaining - 1))
    return nodes


def run_kernel(tree: Tree) -> int:
    """Return the number of nodes as one bag finds it without any stealing."""
    from benchmarks.uts.bag import UtsBag

    bag = UtsBag.of_tree(tree)
    while bag.process(1 << 40):
        pass
    return bag.count


def warm_up() -> None:
    """Load the kernel, or compile it the first time on a machine, and run it once."""
    run_kernel(Tree(5))
