"""Tries a lifeline graph for what the balancer relies on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from glb.core.graphs import Graph
from glb.errors import GraphError

_ALL_SOURCES = 64
_SOME_SOURCES = 4


def check_graph(graph: Graph, counts: Iterable[int]) -> None:
    """Build the whole graph for each number of places and look at it.

    The diameter is exact up to 64 places; beyond, a few places are looked at, spread evenly.

    Args:
        graph: The graph.
        counts: Numbers of places to try.

    Raises:
        GraphError: It is not connected, has loops or doubled edges, breaks its bounds, or who asks and who is asked
            disagree; the text says where.
    """
    for count in counts:
        _check(graph, count)


def _check(graph: Graph, count: int) -> None:
    asks = [list(graph.forward(position, count)) for position in range(count)]
    asked: list[set[int]] = [set() for _ in range(count)]
    for position, targets in enumerate(asks):
        _check_one(graph, count, position, targets)
        for target in targets:
            asked[target].add(position)
    for position in range(count):
        reverse = list(graph.reverse(position, count))
        if sorted(reverse) != sorted(asked[position]):
            raise GraphError(
                f"{graph}: of {count} places {sorted(asked[position])} ask place {position}, "
                f"but reverse says {sorted(reverse)}"
            )
    sources = range(count) if count <= _ALL_SOURCES else range(0, count, -(-count // _SOME_SOURCES))
    for source in sources:
        steps = _steps(asks, source)
        if steps is None:
            raise GraphError(f"{graph}: place {source} of {count} does not reach all others")
        if steps > graph.diameter(count):
            raise GraphError(f"{graph}: {steps} steps from place {source} of {count}; bound {graph.diameter(count)}")
    if count and _steps([sorted(askers) for askers in asked], 0) is None:
        raise GraphError(f"{graph}: not all of {count} places reach place 0")


def _check_one(graph: Graph, count: int, position: int, targets: Sequence[int]) -> None:
    where = f"{graph}: place {position} of {count} asks {targets}"
    if position in targets:
        raise GraphError(f"{where}: itself")
    if len(set(targets)) != len(targets):
        raise GraphError(f"{where}: one of them twice")
    if not all(0 <= target < count for target in targets):
        raise GraphError(f"{where}: one of them is none")
    if len(targets) > graph.degree(count):
        raise GraphError(f"{where}: more than the bound {graph.degree(count)}")


def _steps(asks: Sequence[Sequence[int]], source: int) -> int | None:
    """Return how many steps lead from ``source`` to the farthest position; None if they do not reach all."""
    seen = bytearray(len(asks))
    seen[source] = 1
    reached, steps, border = 1, 0, [source]
    while reached < len(asks):
        following = []
        for position in border:
            for target in asks[position]:
                if not seen[target]:
                    seen[target] = 1
                    following.append(target)
        if not following:
            return None
        border = following
        reached += len(border)
        steps += 1
    return steps
