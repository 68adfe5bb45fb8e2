"""Lifeline graphs over any set of places, ids with gaps included.

A graph is computed on positions in the sorted list of members, so every place that knows the same members computes the
same graph. In each dimension of the cyclic hypercube (Saraswat et al., PPoPP 2011) a position's digits that exist form
a range 0..m, because lowering a digit lowers the position; incrementing cyclically within that range makes one cycle
per line. Hence no duplicates and no loops (dimensions change different digits), and every position reaches 0 by zeroing
its digits and is reached from 0 by setting digits from the highest down, all of which stay below it: the graph is
strongly connected for every number of places.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

Neighbours = Callable[[int, int, int], list[int]]
"""(position, number of positions, radix) -> positions."""


def _hypercube(position: int, count: int, radix: int) -> list[int]:
    found = []
    unit = 1
    while unit < count:
        digit = position // unit % radix
        base = position - digit * unit
        following = base + (digit + 1) % radix * unit
        if following >= count:
            following = base
        if following != position:
            found.append(following)
        unit *= radix
    return found


def _hypercube_reverse(position: int, count: int, radix: int) -> list[int]:
    found = []
    unit = 1
    while unit < count:
        digit = position // unit % radix
        base = position - digit * unit
        highest = min(radix - 1, (count - 1 - base) // unit)
        preceding = base + (digit - 1 if digit else highest) * unit
        if preceding != position:
            found.append(preceding)
        unit *= radix
    return found


def _ring(position: int, count: int, _radix: int) -> list[int]:
    return [(position + 1) % count] if count > 1 else []


def _ring_reverse(position: int, count: int, _radix: int) -> list[int]:
    return [(position - 1) % count] if count > 1 else []


def _complete(position: int, count: int, _radix: int) -> list[int]:
    return [other for other in range(count) if other != position]


GRAPHS: Final[dict[str, tuple[Neighbours, Neighbours]]] = {
    "hypercube": (_hypercube, _hypercube_reverse),
    "ring": (_ring, _ring_reverse),
    "complete": (_complete, _complete),
}


class Lifelines:
    """A family of graphs: who asks whom for work, given the members.

    Args:
        kind: A key of ``GRAPHS``.
        radix: Radix of the hypercube, at least 2.
    """

    def __init__(self, kind: str = "hypercube", radix: int = 2) -> None:
        self._forward, self._reverse = GRAPHS[kind]
        self._radix = radix

    def buddies(self, me: int, members: Sequence[int]) -> tuple[int, ...]:
        """Return the places that ``me`` asks; ``members`` is sorted and contains ``me``."""
        return self._map(self._forward, me, members)

    def thieves(self, me: int, members: Sequence[int]) -> tuple[int, ...]:
        """Return the places that ask ``me``; ``members`` is sorted and contains ``me``."""
        return self._map(self._reverse, me, members)

    def _map(self, neighbours: Neighbours, me: int, members: Sequence[int]) -> tuple[int, ...]:
        return tuple(members[position] for position in neighbours(bisect_left(members, me), len(members), self._radix))
