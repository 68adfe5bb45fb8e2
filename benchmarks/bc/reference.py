"""Brandes' algorithm for one source at a time, in NumPy: the oracle of the kernel, and its stand-in without numba.

Source: Brandes, "A faster algorithm for betweenness centrality", J. Math. Sociology 25(2), 2001.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.bc.graph import Adjacency, Graph


def dependencies(graph: Graph, source: int) -> NDArray[np.float64]:
    """Return, for each vertex, the share of the shortest paths from ``source`` that lead through it, over all ends.

    Parallel edges are different paths.
    """
    depth = np.full(graph.vertices, -1, np.int64)
    paths = np.zeros(graph.vertices)
    depth[source], paths[source] = 0, 1.0
    levels = [np.array([source])]
    while levels[-1].size:
        tails, heads = _edges(graph.out, levels[-1])
        fresh = depth[heads] < 0
        tails, heads = tails[fresh], heads[fresh]
        paths += np.bincount(heads, weights=paths[tails], minlength=graph.vertices)
        levels.append(np.unique(heads))
        depth[levels[-1]] = len(levels) - 1
    through = np.zeros(graph.vertices)
    for level in reversed(levels[:-1]):
        tails, heads = _edges(graph.out, level)
        below = depth[heads] == depth[tails] + 1
        tails, heads = tails[below], heads[below]
        shares = paths[tails] * (1.0 + through[heads]) / paths[heads]
        through += np.bincount(tails, weights=shares, minlength=graph.vertices)
    through[source] = 0.0
    return through


def _edges(adjacency: Adjacency, vertices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return tails and heads of all edges that leave ``vertices``."""
    starts, ends = adjacency.starts[vertices], adjacency.starts[vertices + 1]
    counts = ends - starts
    before = np.cumsum(counts) - counts
    edges = np.arange(int(counts.sum())) + np.repeat(starts - before, counts)
    return np.repeat(vertices, counts), adjacency.neighbours[edges]


def accumulate(graph: Graph, first: int, last: int, factor: float, totals: NDArray[np.int64]) -> None:
    """Add the dependencies of the sources [first, last) to ``totals``, in units of 1 / ``factor``."""
    sums = np.zeros(graph.vertices)
    for source in range(first, last):
        sums += dependencies(graph, source)
    totals += np.rint(sums[: len(totals)] * factor).astype(np.int64)
