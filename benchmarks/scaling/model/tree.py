"""A tree of known size that is searched without visiting every node.

A subtree is its number of nodes, nothing else: how it divides follows from that number by a hash. So a worker that is
left alone for a second processes a billion nodes in one step, and the tree is the same however it is searched.
"""

from __future__ import annotations

from typing import Final

_WORD: Final = (1 << 64) - 1
_SPREAD: Final = 0x9E3779B97F4A7C15
_STEP: Final = 6364136223846793005
_SHIFT: Final = 1442695040888963407

ENTRY_BYTES: Final = 36
"""Bytes that a subtree takes in a message, as in the bag of UTS."""
HEAD_BYTES: Final = 200
"""Bytes of a message that carries nothing."""


def children(size: int) -> list[int]:
    """Return the sizes of the subtrees below the root of a tree of ``size`` > 1 nodes.

    There are 1 to 5, and each but the last takes a random part of what is left (a stick that is broken again and
    again), so that they are very unequal.
    """
    mixed = size * _SPREAD & _WORD
    mixed ^= mixed >> 32
    rest = size - 1
    found = []
    for _ in range(1 + mixed % 4):
        mixed = (mixed * _STEP + _SHIFT) & _WORD
        part = rest * (mixed >> 40) >> 24
        if part:
            found.append(part)
            rest -= part
    found.append(rest)
    return found


class Nodes:
    """How many nodes were found."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def merge(self, other: Nodes) -> None:
        """Add ``other``'s nodes."""
        self.count += other.count


class TreeBag:
    """Subtrees to be searched, those nearest to the root first.

    Args:
        subtrees: Their sizes.
        grain: Nodes that are processed in one go, however few are asked for.
        least: A smaller subtree is not worth a message.

    Attributes:
        total: Nodes that are left.
    """

    __slots__ = ("_grain", "_least", "count", "subtrees", "total", "work")

    def __init__(self, subtrees: list[int], grain: int, least: int) -> None:
        self.subtrees = subtrees
        self.total = sum(subtrees)
        self.work = 0
        self.count = 0
        self._grain = grain
        self._least = least

    def __len__(self) -> int:
        return len(self.subtrees)

    def process(self, n: int) -> bool:
        """Process ``n`` nodes, and at most a grain more."""
        subtrees, left, grain = self.subtrees, n, self._grain
        while left > 0 and subtrees:
            size = subtrees.pop()
            if size <= left or size <= grain:
                left -= size
            else:
                left -= 1
                subtrees += children(size)
        done = n - left
        self.work += done
        self.count += done
        self.total -= done
        return bool(subtrees)

    def split(self, all: bool) -> TreeBag | None:
        """Give every other subtree that is worth it, the first one included, or everything."""
        if self.is_empty() or not (all or self.is_splittable()):
            return None
        kept: list[int] = []
        given: list[int] = [] if not all else self.subtrees
        gives = False
        for size in () if all else self.subtrees:
            gives = size >= self._least and not gives
            (given if gives else kept).append(size)
        part = TreeBag(given, self._grain, self._least)
        self.subtrees = kept
        self.total -= part.total
        return part

    def merge(self, other: TreeBag) -> None:
        """Take the subtrees and the count of ``other``."""
        self.subtrees = other.subtrees + self.subtrees
        self.total += other.total
        self.count += other.count
        other.subtrees, other.total, other.count = [], 0, 0

    def is_empty(self) -> bool:
        """Tell whether nothing is left."""
        return not self.subtrees

    def is_splittable(self) -> bool:
        """Tell whether two subtrees are worth a message."""
        found = 0
        for size in self.subtrees:
            found += size >= self._least
            if found > 1:
                return True
        return False

    def submit(self, result: Nodes) -> None:
        """Hand the count over."""
        result.count += self.count
        self.count = 0

    @property
    def message_bytes(self) -> int:
        """Bytes that the bag takes in a message."""
        return HEAD_BYTES + ENTRY_BYTES * len(self.subtrees)
