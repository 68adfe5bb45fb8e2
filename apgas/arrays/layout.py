"""Which place holds which rows: layouts, and who sends which rows to whom. Pure.

A layout cuts the rows into blocks. There are two kinds:

- *even*: one block for each place, as even as they can be. When the places change, the cuts follow from their number
  alone; what is free is who gets which block. ``rebalanced`` gives the blocks so that as few rows as possible move: a
  newcomer's block may lie between those of its elders.
- *dealt* (block-cyclic): blocks of a given number of rows, dealt to the places in turn. When the places change, the
  cuts stay; all have the same number of blocks again, but for one, and no more blocks move than that needs. What a
  place gives away lies at equal distances among what it has, so that all have blocks everywhere. To deal anew would
  move nearly all.
"""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from typing import NamedTuple, SupportsIndex

import msgspec

from apgas.errors import UsageError


def whole_number(value: SupportsIndex, says: str, given: object = None) -> int:
    """Return ``value``, which the program has given, or which is a part of ``given``, as an int, also one of NumPy's.

    Raises:
        UsageError: It is none; ``says`` what is expected.
    """
    try:
        return int(operator.index(value))
    except TypeError:
        raise UsageError(f"{says}, not {value if given is None else given!r:.100}") from None


class Move(NamedTuple):
    """``source`` sends the rows from ``first`` up to, but without, ``end`` to ``target``."""

    source: int
    target: int
    first: int
    end: int


class Form(NamedTuple):
    """How many rows there are, and how many a block has that is dealt; 0: one even block for each place."""

    rows: int
    block: int = 0


class Layout(msgspec.Struct, frozen=True):
    """The i-th of ``owners``, ids of places, holds the rows from ``cuts[i]`` up to, but without, ``cuts[i + 1]``.

    An owner of an even layout has one block; one of a layout whose blocks are ``dealt`` may have several, or none.
    """

    owners: tuple[int, ...]
    cuts: tuple[int, ...]
    dealt: bool = False

    @classmethod
    def first(cls, form: Form, owners: Sequence[int]) -> Layout:
        """The layout to begin with, over places in their order."""
        if not form.block:
            return cls.even(form.rows, owners)
        cuts = (*range(0, form.rows, form.block), form.rows)
        return cls(tuple(islice(cycle(owners), len(cuts) - 1)), cuts, dealt=True)

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
        for i in range(bisect_right(self.cuts, first) - 1, min(bisect_left(self.cuts, end), len(self.owners))):
            low, high = max(first, self.cuts[i]), min(end, self.cuts[i + 1])
            if low < high:
                yield self.owners[i], low, high


def rebalanced(layout: Layout, places: Sequence[int]) -> Layout:
    """Spread the rows of a layout evenly over ``places``, so that as many rows, or blocks, as possible stay.

    In an even layout, an old and a new block that overlap are an edge between a place and a block, and what is looked
    for is the matching with the most rows. Of two edges that cross, one has no rows; so in the order of the rows, each
    edge is in conflict only with those right before it that share its place or its block, and one pass finds the best.
    """
    if layout.dealt:
        return _redealt(layout, places)
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


def _redealt(layout: Layout, places: Sequence[int]) -> Layout:
    """Let all of ``places`` have as many blocks as one another, but for one.

    Each keeps what it has, up to its share. The larger shares go to those who have the most, so what is kept in all is
    the most that any such layout can keep.
    """
    have: dict[int, list[int]] = {place: [] for place in places}
    for block, owner in enumerate(layout.owners):
        if owner in have:
            have[owner].append(block)
    share, larger = divmod(len(layout.owners), len(places))
    richest = sorted(places, key=lambda place: -len(have[place]))  # stable: equals keep their order
    shares = {place: share + (i < larger) for i, place in enumerate(richest)}
    owners: dict[int, int] = {}
    for place, blocks in have.items():
        keep, n = min(shares[place], len(blocks)), len(blocks)
        owners |= {block: place for i, block in enumerate(blocks) if (i + 1) * keep // n > i * keep // n}
    lacking = {place: shares[place] - min(shares[place], len(have[place])) for place in places}
    free = iter(block for block in range(len(layout.owners)) if block not in owners)
    while any(lacking.values()):
        for place in [place for place in places if lacking[place]]:
            owners[next(free)] = place
            lacking[place] -= 1
    return Layout(tuple(owners[block] for block in range(len(layout.owners))), layout.cuts, dealt=True)


def ways(old: Layout, new: Layout) -> list[Move]:
    """Where all rows of ``new`` come from in ``old``; those that a place keeps, from itself."""
    return [
        Move(source, target, low, high)
        for target, first, end in new.blocks()
        for source, low, high in old.pieces(first, end)
    ]


def portions(ranges: Iterable[tuple[int, int]], most: int) -> Iterator[list[tuple[int, int]]]:
    """Divide ranges of rows into portions of ``most`` rows, at least 1; the last one may have less."""
    portion: list[tuple[int, int]] = []
    room = most
    for first, end in ranges:
        low = first
        while low < end:
            high = min(end, low + room)
            portion.append((low, high))
            room -= high - low
            low = high
            if not room:
                yield portion
                portion, room = [], most
    if portion:
        yield portion


def halo(layout: Layout, width: int) -> list[Move]:
    """What has to be sent so that all have the ``width`` rows around each of their blocks, as far as there are.

    Nothing is sent twice to a place that has several blocks, and nothing that it has itself.
    """
    sought: dict[int, list[tuple[int, int]]] = {}
    reach: dict[int, int] = {}
    for target, first, end in layout.blocks():
        for low, high in ((max(0, first - width), first), (end, min(layout.rows, end + width))):
            # the blocks of a place come in the order of the rows: only what is below its reach has been sought already
            sought.setdefault(target, []).append((max(low, reach.get(target, 0)), high))
            reach[target] = max(high, reach.get(target, 0))
    return [
        Move(source, target, low, high)
        for target, ranges in sought.items()
        for first, end in ranges
        for source, low, high in layout.pieces(first, end)
        if source != target
    ]


def everywhere(layout: Layout, targets: Sequence[int]) -> list[Move]:
    """What has to be sent so that all of ``targets`` have all rows."""
    return [
        Move(source, target, first, end)
        for target in targets
        for source, first, end in layout.blocks()
        if source != target
    ]


# copies at a neighbour -----------------------------------------------------------------------------------------------


def neighbours(layout: Layout, places: Sequence[int]) -> dict[int, int]:
    """Who keeps a copy of the rows of whom, for all who have rows; a place that is alone has no neighbour.

    It is the owner of the next rows, and for the last owner that of the rows before: the heir's rows and those it
    inherits are one block, so that few rows move when they are spread again. ``places`` are all that there are, for
    the case that one of them has all rows.
    """
    owners = [owner for owner, _, _ in layout.blocks()]
    ring = list(dict.fromkeys([*owners, *places]))[: max(2, len(set(owners)))]
    if len(ring) < 2:
        return {}
    return dict(zip(ring, [*ring[1:], ring[-2]], strict=True))


def inherited(layout: Layout, heirs: Mapping[int, int]) -> Layout:
    """Let heirs own the rows of the dead; of an even layout, blocks of one owner that meet become one."""
    if layout.dealt:
        return Layout(tuple(heirs.get(owner, owner) for owner in layout.owners), layout.cuts, dealt=True)
    owners: list[int] = []
    cuts: list[int] = []
    for block_owner, first, _ in layout.blocks():
        owner = heirs.get(block_owner, block_owner)
        if owner not in owners[-1:]:
            owners.append(owner)
            cuts.append(first)
    return Layout(tuple(owners), (*cuts, layout.rows))


def lost_for_good(layout: Layout, copies: Mapping[int, int], living: Collection[int]) -> list[int]:
    """The owners of rows that are gone, each with the place that kept its copy."""
    owners = dict.fromkeys(owner for owner, _, _ in layout.blocks())
    return [owner for owner in owners if owner not in living and copies.get(owner) not in living]
