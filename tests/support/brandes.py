"""Betweenness in plain Python, one source after the other: an oracle that shares nothing with the benchmark."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from itertools import pairwise


def totals(successors: Sequence[Sequence[int]], units: float, largest: float = 2.0**960) -> list[int]:
    """Return the centralities in units of 1 / ``units``, each dependency rounded once, half up.

    Args:
        successors: Of each vertex, in rising order, parallel edges repeated.
        units: Units per path; a power of two.
        largest: Path counts of a distance are scaled by 1 / ``largest`` when one of them exceeds it.
    """
    result = [0] * len(successors)
    for source in range(len(successors)):
        if successors[source]:
            for vertex, dependency in enumerate(dependencies(successors, source, largest)):
                result[vertex] += math.floor(dependency * units + 0.5)
    return result


def levels_from(successors: Sequence[Sequence[int]], source: int) -> list[list[int]]:
    """Return the vertices by their distance from ``source``, those of a distance in rising order."""
    depth, waiting = {source: 0}, deque([source])
    while waiting:
        vertex = waiting.popleft()
        for other in successors[vertex]:
            if other not in depth:
                depth[other] = depth[vertex] + 1
                waiting.append(other)
    levels: list[list[int]] = [[] for _ in range(max(depth.values()) + 1)]
    for vertex in sorted(depth):
        levels[depth[vertex]].append(vertex)
    return levels


def dependencies(successors: Sequence[Sequence[int]], source: int, largest: float) -> list[float]:
    """Return the share of the shortest paths from ``source`` that lead through each vertex, over all ends."""
    levels = levels_from(successors, source)
    paths, scales = {source: 1.0}, [1.0]
    for level, below in pairwise(levels):
        paths |= dict.fromkeys(below, 0.0)
        members = set(below)
        for vertex in level:
            for other in successors[vertex]:
                if other in members:
                    paths[other] += paths[vertex]
        scales.append(1.0 / largest if max(paths[vertex] for vertex in below) > largest else 1.0)
        for vertex in below:
            paths[vertex] *= scales[-1]
    through = [0.0] * len(successors)
    for number in range(len(levels) - 2, 0, -1):
        below = levels[number + 1]
        members = set(below)
        for vertex in levels[number]:
            shares = 0.0
            for other in successors[vertex]:
                if other in members:
                    shares += (1.0 + through[other]) / paths[other]
            through[vertex] = paths[vertex] * shares * scales[number + 1]
    return through
