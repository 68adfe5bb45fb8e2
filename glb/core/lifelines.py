"""The lifeline graph of a computation over any set of places, ids with gaps included.

A graph is computed on positions in the sorted list of members, so every place that knows the same members computes the
same graph.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

from glb.core.graphs import Complete, Graph, Hypercube, Kautz, RandomRegular, Ring

GRAPHS: Final[dict[str, Callable[[int, int], Graph]]] = {
    "hypercube": lambda radix, _seed: Hypercube(radix),
    "kautz": lambda radix, _seed: Kautz(radix),
    "random": RandomRegular,
    "ring": lambda _radix, _seed: Ring(),
    "complete": lambda _radix, _seed: Complete(),
}
"""(radix or out-degree, seed) -> graph, by the names that ``Config.lifelines`` takes."""


class Lifelines:
    """Who asks whom for work, given the members.

    Args:
        kind: A key of ``GRAPHS``, or a graph.
        radix: Radix of the hypercube, out-degree of ``kautz`` and ``random``; at least 2.
        seed: Seed of ``random``.
    """

    __slots__ = ("graph",)

    def __init__(self, kind: str | Graph = "hypercube", radix: int = 2, seed: int = 0) -> None:
        self.graph: Graph = GRAPHS[kind](radix, seed) if isinstance(kind, str) else kind

    def buddies(self, me: int, members: Sequence[int]) -> tuple[int, ...]:
        """Return the places that ``me`` asks; ``members`` is sorted and contains ``me``."""
        return tuple(members[at] for at in self.graph.forward(bisect_left(members, me), len(members)))

    def thieves(self, me: int, members: Sequence[int]) -> tuple[int, ...]:
        """Return the places that ask ``me``; ``members`` is sorted and contains ``me``."""
        return tuple(members[at] for at in self.graph.reverse(bisect_left(members, me), len(members)))
