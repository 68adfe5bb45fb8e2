"""Which tree is searched, and its law of branching in integers.

A geometric tree: a node has n children with probability p (1 - p)^n, where p = 1 / (1 + b) for a mean of b children; n
follows from the last word of the node's hash. In a tree of fixed shape b is the same for all nodes above the last
level. The logarithm of the original rule is replaced by the smallest hash word for
each n, found once, so that every kernel counts exactly alike.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


SEED = 19
FIXED: Final = "fixed"
BRANCHING = 4
MAX_DEPTH = 1000
MAX_BRANCHING = 100
MAX_CHILDREN = 100
"""More children are cut off, as in the reference program; with branching 4 there are never more than 96."""

_RANGE = 1 << 31
_GUESS_SHIFT = 20
_NEAR = 4

_USUAL_NODES = (
    *(1, 6, 65, 254, 944, 3987, 16000, 63914, 257042, 1031269, 4130071, 16526523, 66106929, 264459392, 1057675516),
    *(4230646601, 16922208327, 67688164184, 270751679750, 1083006612025, 4332026572766),
)
"""Nodes for the usual branching and seed, by depth."""
_KNOWN_NODES: dict[tuple[object, ...], int] = {
    **{(depth, SEED, BRANCHING, FIXED): nodes for depth, nodes in enumerate(_USUAL_NODES)},
    (13, 29, 4, FIXED): 102181082,
    (15, 29, 4, FIXED): 1635119272,
    (20, 34, 4, "linear"): 4147582,
    (16, 502, 6, "cyclic"): 4117769,
    (23, 220, 7, "cyclic"): 96793510,
    (2000, 0.124875, 8, 42): 4112897,
    (2000, 0.200014, 5, 7): 111345631,
    (2000, 0.499995, 2, 316): 2793220501,
    (16, 1, 6, "linear", 0.234375, 4): 4132453,
}
"""Nodes by the parameters of a tree of any kind, in their order."""


class SeededTree:
    """What all kinds of trees have: a seed, from which all else follows."""

    __slots__ = ()
    seed: int

    def root(self) -> bytes:
        """Return the hash of the root, 20 bytes."""
        return hashlib.sha1(bytes(16) + self.seed.to_bytes(4, "big"), usedforsecurity=False).digest()

    def known_nodes(self) -> int | None:
        """Return the number of nodes if it is recorded, else None."""
        return _KNOWN_NODES.get(astuple(self))  # type: ignore[call-overload]  # each kind is a dataclass


SHAPES: Final = {FIXED: (0, MAX_DEPTH), "linear": (1, 100), "expdec": (2, 100), "cyclic": (1, 100)}
"""How the mean number of children depends on the level: the least and the largest depth by shape."""
_CYCLES: Final = 5


@dataclass(frozen=True, slots=True)
class Tree(SeededTree):
    """One geometric tree; ``fixed``, the same mean number of children everywhere, or one of the other published shapes.

    "linear": it falls from ``branching`` to 0 on level ``depth``. "expdec": it falls with a power of the level, to 1 on
    level ``depth``. "cyclic": it goes up and down between ``branching`` and its inverse, once in ``depth`` levels, for
    five times as many levels. Source: the reference program of the benchmark, with the same formulas in double
    precision.

    Args:
        depth: Level of the deepest nodes, or what the shape refers to, in levels; the root is on level 0.
        seed: Seed of the root's hash.
        branching: Mean number of children of the root.
        shape: One of SHAPES.

    Raises:
        ValueError: An argument is out of range.
    """

    depth: int
    seed: int = SEED
    branching: int = BRANCHING
    shape: str = FIXED

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise ValueError(f'shape is "{self.shape}", but must be one of {", ".join(SHAPES)}')
        ranges = {"depth": SHAPES[self.shape], "seed": (0, _RANGE - 1), "branching": (1, MAX_BRANCHING)}
        for name, (least, most) in ranges.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"{name} is {value}, but must be from {least} to {most}")

    @property
    def levels(self) -> int:
        """Level below which there are no nodes.

        A tree of shape "expdec" has no such level; but its nodes are so few below level ``depth`` that none was ever
        seen near the level that this returns: the chance is below 1e-9.
        """
        match self.shape:
            case "cyclic":
                return _CYCLES * self.depth + 1
            case "expdec":
                return min(8 * self.depth + 40, MAX_DEPTH)
            case _:
                return self.depth

    def mean_children(self, level: int) -> float:
        """Return the mean number of children of the nodes on a level."""
        if self.shape == FIXED:
            return self.branching if level < self.depth else 0
        if level == 0:
            return self.branching
        match self.shape:
            case "linear":
                return max(0.0, self.branching * (1 - level / self.depth))
            case "cyclic":
                if level > _CYCLES * self.depth:
                    return 0
                # the constant of the reference program, not math.pi
                return float(self.branching ** math.sin(2.0 * 3.141592653589793 * level / self.depth))
            case _:
                return float(self.branching * level ** (-math.log(self.branching) / math.log(self.depth)))


def last_word(digest: bytes) -> int:
    """Return the last 31 bits of a hash, the node's random number."""
    return int.from_bytes(digest[16:], "big") & (_RANGE - 1)


class Law(NamedTuple):
    """The branching laws of the levels of a tree in integers.

    Attributes:
        thresholds: ``thresholds[law, n]`` is the smallest 31-bit hash word that gives n children; the last is never
            reached.
        guess: A lower bound of n by law and the 11 high bits of the hash word; few steps up from there find n.
        of_level: The law by remaining levels, of the children of the entries there.
        root_children: Children of the root.
    """

    thresholds: NDArray[np.uint32]
    guess: NDArray[np.uint8]
    of_level: NDArray[np.int64]
    root_children: int


def child_count(word: int, branching: float) -> int:
    """Return the number of children for a 31-bit hash word by the original rule, in floating point."""
    if branching <= 0:
        return 0
    log_fail = math.log(1 - 1 / (1 + branching))
    return min(int(math.log(1 - word / _RANGE) / log_fail), MAX_CHILDREN)


@lru_cache(maxsize=8)
def law(tree: Tree) -> Law:
    """Return the integer laws of a tree."""
    # the children of entries with that number of levels remaining, 2 or more, are on this level of the tree
    means = [tree.mean_children(tree.levels - remaining + 1) for remaining in range(2, tree.levels + 1)]
    different = list(dict.fromkeys(means)) or [0.0]
    thresholds = np.array([[*_smallest_words(mean), _RANGE] for mean in different], np.uint32)
    lowest = np.arange(_RANGE >> _GUESS_SHIFT, dtype=np.uint32) << np.uint32(_GUESS_SHIFT)
    guess = np.array([np.searchsorted(row, lowest, side="right") - 1 for row in thresholds], np.uint8)
    of_level = np.array([0, 0, *(different.index(mean) for mean in means)], np.int64)
    root = child_count(last_word(tree.root()), tree.mean_children(0))
    return Law(thresholds, guess, of_level, root)


@lru_cache(maxsize=512)
def _smallest_words(branching: float) -> tuple[int, ...]:
    """Return the smallest 31-bit words that give 0, 1, ... MAX_CHILDREN children or more, each 2^31 if none does."""
    return tuple(_smallest_word(children, branching) for children in range(MAX_CHILDREN + 1))


def _smallest_word(children: int, branching: float) -> int:
    low, high = 0, _RANGE
    if branching > 0:  # the inverse of the rule is right but for rounding
        near = int(_RANGE * (1 - (1 - 1 / (1 + branching)) ** children))
        if near - _NEAR > 0 and child_count(near - _NEAR, branching) < children:
            low = near - _NEAR
        if near + _NEAR < _RANGE and child_count(near + _NEAR, branching) >= children:
            high = near + _NEAR
    return bisect_left(range(_RANGE), children, low, high, key=lambda word: child_count(word, branching))
