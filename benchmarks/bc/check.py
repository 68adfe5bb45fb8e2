"""Checks a result by other means: at every vertex where the graph is small, by a sum that must come out anywhere."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Final

import numpy as np

from ..harness.jit import has_numba
from . import reference
from .bag import factor_of, fraction_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .graph import Graph


SMALL: Final = 5_000_000
"""Sources times edges up to which every vertex is checked: some ten seconds."""
_RELATIVE: Final = 1e-9
"""For the rounding of doubles in the dependencies."""


def check(graph: Graph, totals: NDArray[np.int64]) -> tuple[bool, str]:
    """Return whether ``totals`` are right, and what they were compared with or what is wrong.

    The sum of all centralities is compared with that of the distances. On small graphs every vertex is compared with
    networkx, where that is installed and the graph has no parallel edges (it counts those once), or else, to the bit,
    with the reference that takes one source at a time.
    """
    checks = [_sum]
    if graph.active * len(graph.out.neighbours) <= SMALL:
        checks.append(_networkx if graph.simple and importlib.util.find_spec("networkx") else _reference)
    words = []
    for compare in checks:
        right, spoken = compare(graph, totals)
        if not right:
            return False, spoken
        words.append(spoken)
    return True, " and ".join(words)


def _sum(graph: Graph, totals: NDArray[np.int64]) -> tuple[bool, str]:
    unit = 2.0 ** -fraction_bits(graph.vertices)
    found = sum(totals.tolist()) * unit
    expected = inner_vertices(graph)
    # each source rounds each vertex once
    allowed = 0.5 * unit * float(graph.active) ** 2 + _RELATIVE * expected
    if abs(found - expected) <= allowed:
        return True, "the sum of all distances"
    return False, f"the centralities add up to {found:,} over ordered pairs, but the distances to {expected:,}"


def _reference(graph: Graph, totals: NDArray[np.int64]) -> tuple[bool, str]:
    expected = np.zeros_like(totals)
    reference.accumulate(graph, factor_of(graph.vertices), np.arange(graph.active), expected)
    wrong = np.flatnonzero(totals != expected)
    return _spoken(graph, wrong, totals, expected, "every vertex of a sequential run, to the bit")


def _networkx(graph: Graph, totals: NDArray[np.int64]) -> tuple[bool, str]:
    import networkx as nx

    tails = np.repeat(np.arange(graph.vertices), np.diff(graph.out.starts))
    model = nx.DiGraph(zip(tails.tolist(), graph.out.neighbours.tolist(), strict=True))
    theirs = nx.betweenness_centrality(model, normalized=False)
    factor = factor_of(graph.vertices)
    expected = np.array([theirs[vertex] for vertex in range(graph.active)]) * factor
    allowed = 0.5 * graph.active + _RELATIVE * expected
    wrong = np.flatnonzero(np.abs(totals - expected) > allowed)
    return _spoken(graph, wrong, totals, expected, f"networkx {nx.__version__} at every vertex")


def _spoken(
    graph: Graph, wrong: NDArray[np.int64], totals: NDArray[np.int64], expected: NDArray[np.generic], source: str
) -> tuple[bool, str]:
    if not len(wrong):
        return True, source
    first, scale = int(wrong[0]), factor_of(graph.vertices) * (1 if graph.directed else 2)
    found, right = float(totals[first]) / scale, float(expected[first]) / scale
    name = int(graph.names[first])
    return False, f"{len(wrong):,} vertices differ, vertex {name} is {found:,} instead of {right:,}: {source}"


# The sum that the centralities must have, from distances alone -------------------------------------------------------
#
# A shortest path of d edges has d - 1 inner vertices, and each pair of vertices hands out one unit per inner vertex of
# its paths. So the centralities add up to the sum of d - 1 over all ordered pairs with a path. The distances come from
# 64 breadth-first searches at once, one bit each: nothing of it is shared with the kernel. Source: Then et al., "The
# more the merrier: efficient multi-source graph traversal", VLDB 2014.

SEARCHES: Final = 64


def inner_vertices(graph: Graph, compiled: bool | None = None) -> int:
    """Return the sum of distance - 1 over all ordered pairs of different vertices with a path.

    numba is used if ``compiled`` says so; by default, where it is installed.
    """
    if has_numba() if compiled is None else compiled:
        from . import kernel

        search, links, space = kernel.compiled().search, kernel.Links.of(graph), np.zeros((3, graph.active), np.uint64)
        return sum(
            int(search(first, min(first + SEARCHES, graph.active), links.starts, links.heads, *space))
            for first in range(0, graph.active, SEARCHES)
        )
    return sum(_search(graph, first) for first in range(0, graph.active, SEARCHES))


def _search(graph: Graph, first: int) -> int:
    """Search from up to 64 vertices from ``first`` on, in NumPy."""
    last = min(first + SEARCHES, graph.active)
    tails = np.repeat(np.arange(graph.vertices), np.diff(graph.out.starts))
    front: NDArray[np.uint64] = np.zeros(graph.vertices, np.uint64)
    front[first:last] = np.uint64(1) << np.arange(last - first, dtype=np.uint64)
    seen, total, steps = front.copy(), 0, 0
    while front.any():
        reached = np.zeros_like(front)
        np.bitwise_or.at(reached, graph.out.neighbours, front[tails])
        front = reached & ~seen
        seen |= front
        total += steps * int(np.unpackbits(front.view(np.uint8)).sum())
        steps += 1
    return total
