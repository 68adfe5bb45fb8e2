"""Which tree is searched, and its law of branching in integers.

A geometric tree of fixed shape: a node above the last level has n children with probability p (1 - p)^n, where
p = 1 / (1 + branching); n follows from the last word of the node's hash. The logarithm of the original rule is replaced
by the smallest hash word for each n, found once by bisection, so that every kernel counts exactly alike.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 19
BRANCHING = 4
MAX_DEPTH = 1000
MAX_BRANCHING = 100
MAX_CHILDREN = 100
"""More children are cut off, as in the reference program; with branching 4 there are never more than 96."""

_RANGE = 1 << 31
_GUESS_SHIFT = 20

_KNOWN_NODES = (
    *(1, 6, 65, 254, 944, 3987, 16000, 63914, 257042, 1031269, 4130071, 16526523, 66106929, 264459392, 1057675516),
    *(4230646601, 16922208327, 67688164184, 270751679750, 1083006612025),
)
"""Nodes for the usual branching and seed, by depth."""
_KNOWN_SAMPLES = {(13, 29, 4): 102181082, (15, 29, 4): 1635119272}
"""Nodes by depth, seed and branching."""


def root_hash(seed: int) -> bytes:
    """Return the hash of the root of a tree, 20 bytes."""
    return hashlib.sha1(bytes(16) + seed.to_bytes(4, "big"), usedforsecurity=False).digest()


@dataclass(frozen=True, slots=True)
class Tree:
    """One geometric tree.

    Args:
        depth: Level of the deepest nodes; the root is on level 0.
        seed: Seed of the root's hash.
        branching: Mean number of children.

    Raises:
        ValueError: An argument is out of range.
    """

    depth: int
    seed: int = SEED
    branching: int = BRANCHING

    def __post_init__(self) -> None:
        for name, least, most in (("depth", 0, MAX_DEPTH), ("seed", 0, _RANGE - 1), ("branching", 1, MAX_BRANCHING)):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"{name} is {value}, but must be from {least} to {most}")

    def root(self) -> bytes:
        """Return the hash of the root, 20 bytes."""
        return root_hash(self.seed)

    def known_nodes(self) -> int | None:
        """Return the number of nodes if it is recorded, else None."""
        if (self.seed, self.branching) == (SEED, BRANCHING) and self.depth < len(_KNOWN_NODES):
            return _KNOWN_NODES[self.depth]
        return _KNOWN_SAMPLES.get((self.depth, self.seed, self.branching))


def last_word(digest: bytes) -> int:
    """Return the last 31 bits of a hash, the node's random number."""
    return int.from_bytes(digest[16:], "big") & (_RANGE - 1)


class Law(NamedTuple):
    """The branching law in integers.

    Attributes:
        thresholds: ``thresholds[n]`` is the smallest 31-bit hash word that gives n children; the last is never reached.
        guess: A lower bound of n by the 11 high bits of the hash word; few steps up from there find n.
    """

    thresholds: NDArray[np.uint32]
    guess: NDArray[np.uint8]

    def children(self, word: int) -> int:
        """Return the number of children for a 31-bit hash word."""
        return int(np.searchsorted(self.thresholds, np.uint32(word), side="right")) - 1


def child_count(word: int, branching: int) -> int:
    """Return the number of children for a 31-bit hash word by the original rule, in floating point."""
    log_fail = math.log(1 - 1 / (1 + branching))
    return min(int(math.log(1 - word / _RANGE) / log_fail), MAX_CHILDREN)


@lru_cache(maxsize=8)
def law(branching: int) -> Law:
    """Return the integer law for a mean number of children."""
    thresholds = [_smallest_word(n, branching) for n in range(MAX_CHILDREN + 1)]
    guess = [child_count(high << _GUESS_SHIFT, branching) for high in range(_RANGE >> _GUESS_SHIFT)]
    return Law(np.array([*thresholds, _RANGE], np.uint32), np.array(guess, np.uint8))


def _smallest_word(children: int, branching: int) -> int:
    """Return the smallest 31-bit word that gives ``children`` or more, or 2^31."""
    low, high = 0, _RANGE
    while low < high:
        middle = (low + high) // 2
        if child_count(middle, branching) >= children:
            high = middle
        else:
            low = middle + 1
    return low
