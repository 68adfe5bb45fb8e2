"""The sum that the centralities must have, from distances alone.

A shortest path of d edges has d - 1 inner vertices, and each pair of vertices hands out one unit per inner vertex of
its paths. So the centralities add up to the sum of d - 1 over all ordered pairs with a path. The distances come from 64
breadth-first searches at once, one bit each: nothing of it is shared with the kernel. Source: Then et al., "The more
the merrier: efficient multi-source graph traversal", VLDB 2014.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ..harness.jit import has_numba, setup_cache

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .graph import Graph

SEARCHES: Final = 64


def inner_vertices(graph: Graph, compiled: bool | None = None) -> int:
    """Return the sum of distance - 1 over all ordered pairs of different vertices with a path.

    Args:
        graph: The graph.
        compiled: Whether to use numba; by default, where it is installed.
    """
    if has_numba() if compiled is None else compiled:
        setup_cache()
        from .distances_kernel import search

        space = np.zeros((3, graph.active), np.uint64)
        adjacency = graph.out.starts, graph.out.neighbours
        return sum(
            int(search(first, min(first + SEARCHES, graph.active), *adjacency, *space))
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
