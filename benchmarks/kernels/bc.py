"""Betweenness centrality: our kernel beside igraph, NetworKit and networkx, on the graph of the GAP benchmark suite.

That is an undirected R-MAT graph with the parameters of Graph500 and 16 edges per vertex, without loops and parallel
edges, vertices numbered at random. Source: Beamer et al., "The GAP benchmark suite", arXiv:1508.03619.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ..harness.goals import OURS, Goal, Quantity
from .results import Absent, Contender, Measure, Setting, Work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ..bc.graph import Graph

    Edges = NDArray[Any]

_SCALES: Final = {False: 17, True: 12}
_SEED: Final = 2
_EDGES_PER_VERTEX: Final = 16
_BLOCK: Final = 8
_BLOCKS: Final = 8
_FEW: Final = 4
"""Sources for the slower contenders."""


@lru_cache(maxsize=1)
def undirected(scale: int) -> tuple[int, Edges]:
    """Return the number of vertices and the edges, of shape (n, 2), without loops and doubles; smaller end first."""
    import numpy as np

    from ..bc.graph import GRAPH500, rmat_edges

    vertices = 1 << scale
    number = np.argsort(np.random.Philox(key=_SEED + 1).random_raw(vertices))
    tails, heads = (number[ends] for ends in rmat_edges(scale, _SEED, per_vertex=_EDGES_PER_VERTEX, bounds=GRAPH500))
    low, high = np.minimum(tails, heads), np.maximum(tails, heads)
    keys = np.unique((low * vertices + high)[low != high])
    return vertices, np.stack([keys // vertices, keys % vertices], axis=1)


@lru_cache(maxsize=1)
def _graph(scale: int) -> Graph:
    import numpy as np

    from ..bc.graph import Graph

    vertices, edges = undirected(scale)
    low, high = edges.T
    return Graph.from_edges(vertices, np.concatenate([low, high]), np.concatenate([high, low]))


def _spread(scale: int, count: int) -> list[int]:
    """Return sources that have edges, spread over the graph's own order of vertices."""
    import numpy as np

    _, edges = undirected(scale)
    busy = np.unique(edges)
    chosen: list[int] = busy[np.linspace(0, len(busy) - 1, count).astype(int)].tolist()
    return chosen


def _ours(setting: Setting) -> Work:
    import numpy as np

    from ..bc.bag import Solver

    graph = _graph(_SCALES[setting.quick])
    solver = Solver(graph)
    blocks = graph.active // _BLOCK
    starts = [_BLOCK * int(block) for block in np.linspace(0, blocks - 1, _BLOCKS)]

    def work() -> Mapping[str, float]:
        totals = solver.zeros()
        for start in starts:
            solver.accumulate(start, start + _BLOCK, totals)
        return {"sources": _BLOCK * len(starts)}

    return work


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Absent("not installed") from None


def _igraph(setting: Setting) -> Work:
    package = _package("igraph")
    scale = _SCALES[setting.quick]
    vertices, edges = undirected(scale)
    graph = package.Graph(n=vertices, edges=edges)
    sources = _spread(scale, 2 * _FEW)
    return lambda: _done(graph.betweenness(directed=False, sources=sources), sources)


def _done(_scores: object, sources: Sequence[int]) -> Mapping[str, float]:
    return {"sources": len(sources)}


def _networkit(setting: Setting) -> Work:
    import numpy as np

    package = _package("networkit")
    package.setNumberOfThreads(1)
    package.setSeed(_SEED, False)
    scale = _SCALES[setting.quick]
    vertices, edges = undirected(scale)
    rows, columns = (np.ascontiguousarray(ends) for ends in edges.T)
    graph = package.GraphFromCoo((np.ones(len(rows)), (rows, columns)), n=vertices, weighted=False, directed=False)
    sources = range(2 * _FEW)  # it chooses so many at random
    return lambda: _done(package.centrality.EstimateBetweenness(graph, len(sources), False, False).run(), sources)


def _networkx(setting: Setting) -> Work:
    package = _package("networkx")
    scale = _SCALES[setting.quick]
    graph = package.Graph()
    graph.add_edges_from(undirected(scale)[1].tolist())
    sources = _spread(scale, 1)
    targets = list(graph)
    return lambda: _done(package.betweenness_centrality_subset(graph, sources, targets), sources)


BC: Final = Measure(
    name="bc",
    title=lambda quick: f"BC, R-MAT graph, scale {_SCALES[quick]}",
    quantities=(Quantity("sources", "sources", "1/s", (Goal(">=", 100), Goal(">=", 4, "igraph"))),),
    contenders=(
        Contender(OURS, "ours", _ours),
        Contender("igraph", "igraph", _igraph),
        Contender("networkit", "NetworKit", _networkit),
        Contender("networkx", "networkx", _networkx),
    ),
    rule="BC: shortest paths from one source and their dependencies, one thread; 100 sources/s are 10 ms each",
)
