"""UTS: our kernel, the same algorithm in C, and a program that hashes one node after the other."""

from __future__ import annotations

import ctypes
import hashlib
from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING, Final

from ..harness.goals import OURS, Goal, Quantity
from ..uts.tree import Tree, last_word, law
from . import compiler
from .results import Contender, Measure, Setting, Work

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..uts.bag import UtsBag

_DEPTHS: Final = {False: 13, True: 11}
_NAIVE_DEPTHS: Final = {False: 8, True: 7}
_EVERYTHING: Final = 1 << 62
_C: Final = "C"


def _amounts(nodes: int, hashes: int, tree: Tree) -> Mapping[str, float]:
    if nodes != tree.known_nodes():
        raise ArithmeticError(f"{nodes} nodes were counted where there are {tree.known_nodes()}")
    return {"nodes": nodes, "hashes": hashes}


def _ours(setting: Setting) -> Work:
    from ..uts.bag import UtsBag

    tree = Tree(_DEPTHS[setting.quick])

    def work() -> Mapping[str, float]:
        bag = UtsBag.of_tree(tree)
        while bag.process(_EVERYTHING):
            pass
        return _amounts(bag.count, bag.hashed, tree)

    return work


def _in_c(lanes: int, setting: Setting) -> Work:
    from ..uts.bag import UtsBag

    tree = Tree(_DEPTHS[setting.quick])
    library = compiler.load("uts", setting.folder, f"-DLANES={lanes}")

    def work() -> Mapping[str, float]:
        bag = UtsBag.of_tree(tree)
        nodes, hashes = expand(library, lanes, bag, tree)
        return _amounts(bag.count + nodes, bag.hashed + hashes, tree)

    return work


def expand(library: ctypes.CDLL, lanes: int, bag: UtsBag, tree: Tree) -> tuple[int, int]:
    """Expand what the bag holds by the C program, in as many lanes as it was compiled for; return nodes and hashes."""
    import numpy as np

    queue, branching = bag.queue, law(tree)
    levels, ours, fields = queue.data.shape
    capacity = max(ours, 2 * lanes)  # its lanes are not ours, and a level takes on two vectors at most
    data, entries = np.zeros((levels, capacity, fields), queue.data.dtype), queue.entries.copy()
    data[:, :ours] = queue.data
    sums = (ctypes.c_int64 * 2)()
    library.uts_expand(
        *(ctypes.c_void_p(array.ctypes.data) for array in (data, entries)),
        ctypes.c_int64(levels),
        ctypes.c_int64(capacity),
        *(ctypes.c_void_p(array.ctypes.data) for array in (branching.thresholds, branching.guess)),
        ctypes.c_int64(_EVERYTHING),
        sums,
    )
    return sums[0], sums[1]


def _naive(setting: Setting) -> Work:
    tree = Tree(_NAIVE_DEPTHS[setting.quick])

    def work() -> Mapping[str, float]:
        nodes, hashes = count_nodes(tree)
        return _amounts(nodes, hashes, tree)

    return work


def count_nodes(tree: Tree) -> tuple[int, int]:
    """Return the nodes of a tree and the hashes made, one node after the other, as a short program would do it."""
    thresholds = law(tree).thresholds[0].tolist()
    nodes, hashes = 1, 1
    stack = [(tree.root(), 0)]
    while stack:
        digest, depth = stack.pop()
        if depth == tree.depth:
            continue
        children = bisect_right(thresholds, last_word(digest)) - 1
        nodes += children
        hashes += children
        for child in range(children):
            message = digest + child.to_bytes(4, "big")
            stack.append((hashlib.sha1(message, usedforsecurity=False).digest(), depth + 1))
    return nodes, hashes


UTS: Final = Measure(
    name="uts",
    title=lambda quick: f"UTS, geometric tree, depth {_DEPTHS[quick]}",
    quantities=(
        Quantity("nodes", "nodes", "1/s", (Goal(">=", 0.97, _C),)),
        Quantity("hashes", "hashes", "1/s", (Goal(">=", 0.97, _C),)),
    ),
    contenders=(
        Contender(OURS, "ours", _ours),
        *(Contender(f"c{lanes}", f"the same in C, {lanes} lanes", partial(_in_c, lanes), _C) for lanes in (32, 16)),
        Contender("hashlib", "Python and hashlib", _naive),
    ),
    rule="UTS: nodes of the last level are counted, not hashed, by us and in C; the program with hashlib hashes every "
    "node, of a smaller tree",
)
