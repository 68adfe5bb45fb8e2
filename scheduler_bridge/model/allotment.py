"""The nodes that a job holds now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
class Allotment:
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
        return isinstance(other, Allotment) and self.chunks == other.chunks

    def __hash__(self) -> int:
        return hash(self.chunks)

    def __repr__(self) -> str:
        return f"Allotment({[list(members(chunk)) for chunk in self.chunks]})"

    def plus(self, ranks: int) -> Allotment:
        """The allotment with ``ranks`` added at the end.

        Raises:
            ValueError: One of them is there already.
        """
        if ranks & self.ranks:
            raise ValueError(f"{list(members(ranks & self.ranks))} in the allotment {self} already")
        return Allotment((*self.chunks, ranks)) if ranks else self

    def minus(self, ranks: int) -> Allotment:
        """The allotment without ``ranks``.

        Raises:
            ValueError: One of them is not there.
        """
        if missing := ranks & ~self.ranks:
            raise ValueError(f"{list(members(missing))} not in the allotment {self}")
        return Allotment(tuple([left for chunk in self.chunks if (left := chunk & ~ranks)]))

    def last(self, count: int) -> Allotment:
        """The ``count`` ones that came last, in their order."""
        found: list[int] = []
        for chunk in reversed(self.chunks):
            if count <= 0:
                break
            size = chunk.bit_count()
            found.append(chunk if size <= count else highest(chunk, count))
            count -= size
        return Allotment(tuple(reversed(found)))


NOTHING: Final = Allotment()
"""No nodes."""


_FEW: Final = 12
"""So many members are taken one by one in less time than it takes to search for the last of them."""


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
