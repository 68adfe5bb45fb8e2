"""Brandes' algorithm for one source at a time, in NumPy: the stand-in of the kernel without numba, to the bit.

Path counts are summed in the order of the numbers of the predecessors, dependencies in the order of the successors, as
in the kernel. Source: Brandes, "A faster algorithm for betweenness centrality", J. Math. Sociology 25(2), 2001.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from .graph import Adjacency, Graph, PathCountError

if TYPE_CHECKING:
    from numpy.typing import NDArray


LARGEST: Final = 2.0**960
"""Path counts above this are scaled: 2^31 of them still add up to less than 2^1023."""
SMALLEST: Final = 2.0**-960


def dependencies(graph: Graph, source: int) -> NDArray[np.float64]:
    """Return, for each vertex, the share of the shortest paths from ``source`` that lead through it, over all ends.

    Parallel edges are different paths.

    Raises:
        PathCountError: The numbers of shortest paths to vertices of the same distance are too far apart.
    """
    depth = np.full(graph.vertices, -1, np.int64)
    paths = np.zeros(graph.vertices)
    depth[source], paths[source] = 0, 1.0
    levels, scales = [np.array([source])], [1.0]
    while levels[-1].size:
        tails, heads = _edges(graph.out, levels[-1])
        fresh = depth[heads] < 0
        tails, heads = tails[fresh], heads[fresh]
        paths += np.bincount(heads, weights=paths[tails], minlength=graph.vertices)
        levels.append(np.unique(heads))
        depth[levels[-1]] = len(levels) - 1
        scales.append(_scale(paths, levels[-1], source))
    through = np.zeros(graph.vertices)
    for level, scale in zip(reversed(levels[:-1]), reversed(scales), strict=False):
        tails, heads = _edges(graph.out, level)
        below = depth[heads] == depth[tails] + 1
        tails, heads = tails[below], heads[below]
        sums = np.bincount(tails, weights=(1.0 + through[heads]) / paths[heads], minlength=graph.vertices)
        through[level] = paths[level] * sums[level] * scale
    through[source] = 0.0
    return through


def _scale(paths: NDArray[np.float64], level: NDArray[np.int64], source: int) -> float:
    """Scale the path counts of a level down if they are near the end of the doubles; return the factor."""
    if not level.size or paths[level].max() <= LARGEST:
        return 1.0
    if paths[level].min() < 1.0:
        raise PathCountError(source)
    paths[level] *= SMALLEST
    return SMALLEST


def _edges(adjacency: Adjacency, vertices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return tails and heads of all edges that leave ``vertices``."""
    starts, ends = adjacency.starts[vertices], adjacency.starts[vertices + 1]
    counts = ends - starts
    before = np.cumsum(counts) - counts
    edges = np.arange(int(counts.sum())) + np.repeat(starts - before, counts)
    return np.repeat(vertices, counts), adjacency.neighbours[edges]


def accumulate(graph: Graph, factor: float, sources: NDArray[np.integer], totals: NDArray[np.int64]) -> None:
    """Add the dependencies of the sources to ``totals``, each rounded to units of 1 / ``factor``."""
    for source in sources.tolist():
        totals += (dependencies(graph, source)[: len(totals)] * factor + 0.5).astype(np.int64)
