"""Which place holds which rows: layouts, and who sends which rows to whom. Pure.

A layout cuts the rows into contiguous blocks, as even as they can be, one for each place. When the places change, the
cuts follow from their number alone; what is free is who gets which block. ``rebalanced`` gives the blocks so that as
few rows as possible move: a newcomer's block may lie between those of its elders.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec


class Move(NamedTuple):
    """``source`` sends the rows from ``first`` up to, but without, ``end`` to ``target``."""

    source: int
    target: int
    first: int
    end: int


class Layout(msgspec.Struct, frozen=True):
    """The i-th of ``owners``, ids of places, holds the rows from ``cuts[i]`` up to, but without, ``cuts[i + 1]``."""

    owners: tuple[int, ...]
    cuts: tuple[int, ...]

    @classmethod
    def even(cls, rows: int, owners: Sequence[int]) -> Layout:
        """Cut ``rows`` rows for places, in their order; the sizes of blocks differ by one at most, and may be 0."""
        return cls(tuple(owners), tuple(rows * i // len(owners) for i in range(len(owners) + 1)))

    @property
    def rows(self) -> int:
        """How many rows there are in all."""
        return self.cuts[-1]

    def blocks(self) -> Iterator[tuple[int, int, int]]:
        """Each place that holds rows, with its first row and the one after its last, in the order of the rows."""
        for owner, first, end in zip(self.owners, self.cuts, self.cuts[1:], strict=False):
            if first < end:
                yield owner, first, end

    def pieces(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Whose the rows from ``first`` up to ``end`` are: the part of each place, in the order of the rows."""
        if first < end:
            for i in range(bisect_right(self.cuts, first) - 1, len(self.owners)):
                low, high = max(first, self.cuts[i]), min(end, self.cuts[i + 1])
                if low < high:
                    yield self.owners[i], low, high
                elif self.cuts[i] >= end:
                    return


def rebalanced(layout: Layout, places: Sequence[int]) -> Layout:
    """Spread the rows of a layout evenly over ``places``, so that as many rows as possible stay where they are.

    An old and a new block that overlap are an edge between a place and a block, and what is looked for is the matching
    with the most rows. Of two edges that cross, one has no rows; so in the order of the rows, each edge is in conflict
    only with those right before it that share its place or its block, and one pass finds the best.
    """
    new = Layout.even(layout.rows, places)
    staying = set(places)
    edges = [
        (block, owner, end - first)
        for block, (low, high) in enumerate(zip(new.cuts, new.cuts[1:], strict=False))
        for owner, first, end in layout.pieces(low, high)
        if owner in staying
    ]
    best, before = [0], []
    for i, (block, owner, rows) in enumerate(edges):
        apart = i
        while apart and (edges[apart - 1][0] == block or edges[apart - 1][1] == owner):
            apart -= 1
        before.append(apart)
        best.append(max(best[i], best[apart] + rows))
    keeper: dict[int, int] = {}
    i = len(edges)
    while i:
        if best[i] == best[i - 1]:
            i -= 1
        else:
            block, owner, _ = edges[i - 1]
            keeper[block] = owner
            i = before[i - 1]
    kept = set(keeper.values())
    others = iter([place for place in places if place not in kept])
    return Layout(tuple(keeper[i] if i in keeper else next(others) for i in range(len(places))), new.cuts)


def moves(old: Layout, new: Layout) -> list[Move]:
    """What has to be sent so that all have their rows of ``new``; no place is sent what it has in ``old``."""
    return [
        Move(source, target, low, high)
        for target, first, end in new.blocks()
        for source, low, high in old.pieces(first, end)
        if source != target
    ]


def halo(layout: Layout, width: int) -> list[Move]:
    """What has to be sent so that all have the ``width`` rows before their block and after it, as far as there are."""
    return [
        Move(source, target, low, high)
        for target, first, end in layout.blocks()
        for sought in ((max(0, first - width), first), (end, min(layout.rows, end + width)))
        for source, low, high in layout.pieces(*sought)
    ]
