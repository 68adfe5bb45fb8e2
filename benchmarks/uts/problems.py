"""The problems: the published sample trees, the bag of each tree, and the kernel run alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ..levelbag import GIFT_TASKS
from .bag import UtsBag
from .binomial import BinomialBag, BinomialTree, HybridBag, HybridTree
from .tree import Tree

if TYPE_CHECKING:
    AnyTree: TypeAlias = Tree | BinomialTree


# The published sample trees that are geometric, binomial, or both ----------------------------------------------------

SAMPLES: dict[str, AnyTree] = {
    "T1": Tree(10),
    "T1L": Tree(13, 29),
    "T1XL": Tree(15, 29),
    "T1XXL": Tree(15),
    "T2": Tree(16, 502, 6, "cyclic"),
    "T2L": Tree(23, 220, 7, "cyclic"),
    "T3": BinomialTree(2000, 0.124875, 8, 42),
    "T3L": BinomialTree(2000, 0.200014, 5, 7),
    "T3XXL": BinomialTree(2000, 0.499995, 2, 316),
    "T4": HybridTree(16, 1, 6, "linear", probability=0.234375, children=4),
    "T5": Tree(20, 34, 4, "linear"),
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


# A count without the balancer ----------------------------------------------------------------------------------------


def run_kernel(tree: AnyTree) -> int:
    """Return the number of nodes as one bag finds it without any stealing."""
    bag = bag_of(tree)
    while bag.process(1 << 40):
        pass
    return bag.count


def warm_up() -> None:
    """Load the kernel, or compile it the first time on a machine, and run it once."""
    run_kernel(Tree(5))
