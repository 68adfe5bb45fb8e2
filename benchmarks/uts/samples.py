"""The published sample trees that are geometric or binomial."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.uts.bag import UtsBag
from benchmarks.uts.binomial import BinomialBag, BinomialTree
from benchmarks.uts.shapes import ShapedTree
from benchmarks.uts.tree import Tree

if TYPE_CHECKING:
    from typing import TypeAlias

    AnyTree: TypeAlias = Tree | ShapedTree | BinomialTree

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
    "T5": ShapedTree("linear", 20, 34, 4),
}


def bag_of(tree: AnyTree) -> UtsBag | BinomialBag:
    """Return the bag that holds the whole tree."""
    return BinomialBag.of_tree(tree) if isinstance(tree, BinomialTree) else UtsBag.of_tree(tree)
