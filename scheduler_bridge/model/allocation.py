"""Allocations: the nodes that a job holds, sets of ranks and of cores as bitsets, and filters of nodes by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from mypy_extensions import mypyc_attr

from apgas.malleability import core_ids

# Nodes of a job -------------------------------------------------------------------------------------------------------


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
class Allocation:
    """Whole nodes by rank, in the order in which the job got them; place 0 lives on the first one. It never changes.

    The ranks that came together are one bitset (bit r: the node of rank r), in ascending order. So the cost of a change
    depends on how often the job was resized and not on its size.

    Attributes:
        chunks: Disjoint sets of ranks, the earliest first; none is empty.
        ranks: All of them, as one bitset.
        size: How many they are.
    """

    __slots__ = ("chunks", "ranks", "size")

    def __init__(self, chunks: tuple[int, ...] = ()) -> None:
        ranks = 0
        for chunk in chunks:
            ranks |= chunk
        self.chunks = chunks
        self.ranks = ranks
        self.size = ranks.bit_count()

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Allocation) and self.chunks == other.chunks

    def __hash__(self) -> int:
        return hash(self.chunks)

    def __repr__(self) -> str:
        return f"Allocation({[list(members(chunk)) for chunk in self.chunks]})"

    def plus(self, ranks: int) -> Allocation:
        """The allocation with ``ranks`` added at the end.

        Raises:
            ValueError: One of them is there already.
        """
        if ranks & self.ranks:
            raise ValueError(f"{list(members(ranks & self.ranks))} in the allocation {self} already")
        return Allocation((*self.chunks, ranks)) if ranks else self

    def minus(self, ranks: int) -> Allocation:
        """The allocation without ``ranks``.

        Raises:
            ValueError: One of them is not there.
        """
        if missing := ranks & ~self.ranks:
            raise ValueError(f"{list(members(missing))} not in the allocation {self}")
        return Allocation(tuple([left for chunk in self.chunks if (left := chunk & ~ranks)]))

    def last(self, count: int) -> Allocation:
        """The ``count`` ones that came last, in their order."""
        found: list[int] = []
        for chunk in reversed(self.chunks):
            if count <= 0:
                break
            size = chunk.bit_count()
            found.append(chunk if size <= count else highest(chunk, count))
            count -= size
        return Allocation(tuple(reversed(found)))


NOTHING: Final = Allocation()
"""No nodes."""


_FEW: Final = 12
"""Up to this number, members are taken one by one in less time than it takes to search for the last of them."""


def lowest(ranks: int, count: int) -> int:
    """The ``count`` lowest members of a bitset that has as many."""
    first = (ranks & -ranks).bit_length() - 1
    run = ((1 << count) - 1) << first if ranks else 0
    if ranks & run == run:  # as they mostly are, side by side
        return run
    if count <= _FEW:
        left = ranks
        for _ in range(count):
            left &= left - 1
        return ranks ^ left
    low, high = count, ranks.bit_length()
    while low < high:
        middle = (low + high) // 2
        if (ranks & ((1 << middle) - 1)).bit_count() < count:
            low = middle + 1
        else:
            high = middle
    return ranks & ((1 << low) - 1)


def highest(ranks: int, count: int) -> int:
    """The ``count`` highest members of a bitset that has as many."""
    behind = ranks.bit_length()
    run = ((1 << count) - 1) << (behind - count)
    if ranks & run == run:
        return run
    if count > _FEW:
        return ranks ^ lowest(ranks, ranks.bit_count() - count)
    left = ranks
    for _ in range(count):
        left ^= 1 << (left.bit_length() - 1)
    return ranks ^ left


def runs(ranks: int) -> Iterator[tuple[int, int]]:
    """The members of a bitset as ranges (first, behind the last), ascending."""
    base = 0
    while ranks:
        gap = (ranks & -ranks).bit_length() - 1
        ranks >>= gap
        length = (~ranks & (ranks + 1)).bit_length() - 1
        yield base + gap, base + gap + length
        ranks >>= length
        base += gap + length


def members(ranks: int) -> Iterator[int]:
    """The members of a bitset, ascending."""
    for first, behind in runs(ranks):
        yield from range(first, behind)


# Cores as text --------------------------------------------------------------------------------------------------------


def listed(cores: int) -> str:
    """Write a bitset of core ids as a list, as jobs are sent it: ``0-3,8``."""
    return core_ids.listed(members(cores))


# Filters --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """The nodes whose names one of some patterns matches, as shells match file names: ``*``, ``?``, ``[0-3]``.

    Attributes:
        patterns: At least one.
    """

    patterns: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> NodeFilter:
        """Read patterns that commas separate.

        Raises:
            ValueError: One of them is empty.
        """
        patterns = tuple(pattern.strip() for pattern in text.split(","))
        if not all(patterns):
            raise ValueError(f"{text!r} has an empty pattern")
        return cls(patterns)

    @property
    def is_all(self) -> bool:
        """Whether it is known, without a look at any name, that no node is left out."""
        return "*" in self.patterns

    def __contains__(self, node: str) -> bool:
        return any(fnmatchcase(node, pattern) for pattern in self.patterns)


EVERY_NODE: Final = NodeFilter(("*",))
"""No node is left out."""
