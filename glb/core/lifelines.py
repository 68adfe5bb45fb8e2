"""Lifeline graphs, which say who asks whom for work.

A graph is on the positions 0 to n-1 in the sorted list of members (``View``), so every place that knows the same
members computes the same graph, whatever gaps there are between their ids.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

# Graphs on the positions 0 to n-1 ------------------------------------------------------------------------------------
#
# Every place computes its own neighbours, so that no place holds the graph, and computes the same graph from the number
# of positions alone. A graph of one's own has these four methods, and is picklable; ``glb.testing.check_graph`` tries
# it.
#
# | graph           | out-degree at most         | diameter at most                                                  |
# |-----------------|----------------------------|-------------------------------------------------------------------|
# | Hypercube(z)    | d = ceil(log_z n)          | 2 d (z-1); d (z-1) where n is a power of z                        |
# | Kautz(k)        | k                          | ceil(log_k n)                                                     |
# | RandomRegular(k)| k                          | 2 ceil(log_k n) + 4 (not proven; every n to 4096 with seed 0)     |
# | Ring            | 1                          | n - 1                                                             |
# | Complete        | n - 1                      | 1                                                                 |

_MASK = (1 << 64) - 1
_ROUNDS = 4


class Graph(Protocol):
    """A strongly connected graph on any number of positions, without loops and doubled edges."""

    def forward(self, position: int, count: int) -> Sequence[int]:
        """Return the positions that ``position`` asks, of ``count`` in all."""

    def reverse(self, position: int, count: int) -> Sequence[int]:
        """Return the positions that ask ``position``."""

    def degree(self, count: int) -> int:
        """Return a bound of how many a position asks."""

    def diameter(self, count: int) -> int:
        """Return a bound of how many steps lead from any position to any other."""


class _Rings(ABC):
    """Rings laid over each other, in each of which a position asks the next one."""

    def forward(self, position: int, count: int) -> list[int]:
        """The next in each ring."""
        return self._beside(position, count, 1)

    def reverse(self, position: int, count: int) -> list[int]:
        """The one before in each ring."""
        return self._beside(position, count, -1)

    @abstractmethod
    def _beside(self, position: int, count: int, step: int) -> list[int]: ...


@dataclass(frozen=True)
class Hypercube(_Rings):
    """The cyclic hypercube (Saraswat et al., PPoPP 2011): in each dimension a position asks the next of its line.

    The radix z, at least 2, is the number of digits in each dimension.

    In each dimension a position's digits that exist form a range 0..m, because lowering a digit lowers the position;
    incrementing cyclically within that range makes one cycle per line. Hence no duplicates and no loops (dimensions
    change different digits), and every position reaches 0 by zeroing its digits, and is reached from 0 by setting
    digits from the highest down, all of which stay below it: strongly connected for every number of positions, with at
    most z-1 steps for each digit on either way.
    """

    radix: int = 2

    def degree(self, count: int) -> int:
        """One per dimension."""
        return dimensions(count, self.radix)

    def diameter(self, count: int) -> int:
        """Down to 0 and up again."""
        longest, lines = min(self.radix, count), dimensions(count, self.radix)
        return (longest - 1) * lines * (1 if count == longest**lines else 2)

    def _beside(self, position: int, count: int, step: int) -> list[int]:
        found = []
        unit = 1
        while unit < count:
            digit = position // unit % self.radix
            base = position - digit * unit
            digits = min(self.radix, (count - 1 - base) // unit + 1)  # that exist in this line
            neighbour = base + (digit + step) % digits * unit
            if neighbour != position:
                found.append(neighbour)
            unit *= self.radix
        return found


@dataclass(frozen=True)
class Ring(Hypercube):
    """Each asks the next: a hypercube of one dimension, however many there are."""

    radix: int = field(default=sys.maxsize, repr=False)


@dataclass(frozen=True)
class Complete:
    """Each asks all others."""

    def forward(self, position: int, count: int) -> list[int]:
        """All others."""
        return [other for other in range(count) if other != position]

    reverse = forward

    def degree(self, count: int) -> int:
        """All others."""
        return count - 1

    def diameter(self, count: int) -> int:
        """One step."""
        return min(1, count - 1)


@dataclass(frozen=True)
class Kautz:
    """The generalised Kautz graph: the shortest ways that a given out-degree k of at least 2 allows, almost.

    Position x asks -k x - i modulo n for i = 1..k. After s steps the positions reached from x are k^s that follow each
    other, hence all of them once k^s >= n (Imase and Itoh, IEEE Trans. Computers 1983): strongly connected, with a
    diameter of ceil(log_k n). Loops and doubled edges are left out, which lengthens no way.
    """

    out: int = 2

    def forward(self, position: int, count: int) -> list[int]:
        """The k positions that follow each other."""
        targets = ((-self.out * position - i) % count for i in range(1, self.out + 1))
        return [target for target in dict.fromkeys(targets) if target != position]

    def reverse(self, position: int, count: int) -> list[int]:
        """Solve k x = m n - position - i for every m that can be."""
        if count <= self.out:
            return [other for other in range(count) if other != position]
        found: dict[int, None] = {}
        for turns in range(1, self.out + 2):
            # the only i of 1..k for which k divides
            i = (turns * count - position - 1) % self.out + 1
            asker = (turns * count - position - i) // self.out
            if 0 <= asker < count and asker != position:
                found[asker] = None
        return list(found)

    def degree(self, count: int) -> int:
        """k, or all others."""
        return min(self.out, count - 1)

    def diameter(self, count: int) -> int:
        """As many steps as it takes to reach all."""
        return dimensions(count, self.out)


@dataclass(frozen=True)
class RandomRegular(_Rings):
    """Some random rings laid over each other: a random regular graph, the same on every place.

    Each ring orders the positions by a keyed permutation, which is computed for one position, and back, without the
    others (a Feistel network, walked until it falls below n). One ring alone connects all; doubled edges are left out.
    The number of rings, at least 2, is the out-degree.
    """

    out: int = 2
    seed: int = 0

    def degree(self, count: int) -> int:
        """One per ring, or all others."""
        return min(self.out, count - 1)

    def diameter(self, count: int) -> int:
        """Not proven: random graphs have about log_k n."""
        return min(max(count - 1, 0), 2 * dimensions(count, self.out) + 4)

    def _beside(self, position: int, count: int, step: int) -> list[int]:
        if count < 2:
            return []
        found: dict[int, None] = {}
        for ring in range(self.out):
            base = _mix(_mix(self.seed) + ring)
            keys = [_mix(base + turn) for turn in range(_ROUNDS)]
            label = (_walk(position, count, keys) + step) % count
            found[_walk(label, count, keys[::-1], back=True)] = None
        return list(found)


def dimensions(count: int, radix: int) -> int:
    """Return ceil(log_radix count), 0 for at most one position."""
    found, reach = 0, 1
    while reach < count:
        found, reach = found + 1, reach * radix
    return found


def _walk(value: int, count: int, keys: Sequence[int], *, back: bool = False) -> int:
    """Permute ``value`` among the numbers below ``count``: again and again until it is one of them."""
    bits = max(1, ((count - 1).bit_length() + 1) // 2)
    mask = (1 << bits) - 1
    while True:
        left, right = value >> bits, value & mask
        for key in keys:
            if back:
                left, right = right ^ (_mix(key + left) & mask), left
            else:
                left, right = right, left ^ (_mix(key + right) & mask)
        value = left << bits | right
        if value < count:
            return value


def _mix(value: int) -> int:
    """Scatter the bits of a number over 64 (Steele, Lea and Flood, OOPSLA 2014)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31


GRAPHS: Final[dict[str, Callable[[int, int], Graph]]] = {
    "hypercube": lambda radix, _seed: Hypercube(radix),
    "kautz": lambda radix, _seed: Kautz(radix),
    "random": RandomRegular,
    "ring": lambda _radix, _seed: Ring(),
    "complete": lambda _radix, _seed: Complete(),
}
"""(radix or out-degree, seed) -> graph, by the names that ``Config.lifelines`` takes."""


def graph_of(kind: str | Graph = "hypercube", radix: int = 2, seed: int = 0) -> Graph:
    """Return a graph: one of ``GRAPHS`` by its name, or ``kind`` itself."""
    return GRAPHS[kind](radix, seed) if isinstance(kind, str) else kind
