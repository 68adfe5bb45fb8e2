"""Graphs in the order that the kernel likes; the R-MAT graph; how a place comes by the graph that is computed.

Source: Chakrabarti et al., "R-MAT: a recursive model for graph mining", SDM 2004; parameters of SSCA2.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]


EDGES_PER_VERTEX: Final = 8
MAX_SCALE: Final = 26
MAX_VERTICES: Final = 2**31 - 1
_BITS: Final = 53
_WALK_EDGES: Final = 3
SSCA2: Final = (0.55, 0.65, 0.75)
"""Bounds of the quadrants: a = 0.55, b = 0.1, c = 0.1, d = 0.25."""
GRAPH500: Final = (0.57, 0.76, 0.95)
"""Those of the Graph500 and GAP benchmarks: a = 0.57, b = 0.19, c = 0.19, d = 0.05."""


@dataclass(frozen=True)
class Adjacency:
    """Neighbours of each vertex: those of v are ``neighbours[starts[v]:starts[v + 1]]``, sorted, multi-edges kept."""

    starts: Integers
    neighbours: NDArray[np.int32]


@dataclass(frozen=True)
class Graph:
    """A graph, vertices numbered by falling degree. An undirected one holds each edge in both directions.

    Attributes:
        vertices: Number of vertices, those without edges included.
        active: Vertices with an edge; they are the first ones.
        out: Successors.
        into: Predecessors; the same object where edges lead both ways.
        names: What each vertex was called before it was numbered; empty where they are not needed.
        directed: Whether an edge leads one way only.
        simple: Whether there is at most one edge from one vertex to another.
    """

    vertices: int
    active: int
    out: Adjacency
    into: Adjacency
    names: Integers
    directed: bool = True
    simple: bool = False

    @classmethod
    def from_edges(
        cls,
        vertices: int,
        tails: Integers,
        heads: Integers,
        *,
        names: Integers | None = None,
        directed: bool = True,
        simple: bool = False,
    ) -> Graph:
        """Build the graph of the edges ``tails[i] -> heads[i]``; loops are dropped: no shortest path takes them.

        The busiest vertices get the smallest numbers, so that the data that is touched most lies together.

        Args:
            vertices: Number of vertices.
            tails: Where each edge begins: numbers below ``vertices``.
            heads: Where it ends.
            names: What the vertices are called; their numbers by default.
            directed: Whether the edges lead one way only.
            simple: Whether to take parallel edges as one; otherwise they are different paths.
        """
        proper = tails != heads
        tails, heads = tails[proper], heads[proper]
        if not directed:
            tails, heads = np.concatenate([tails, heads]), np.concatenate([heads, tails])
        degree = np.bincount(tails, minlength=vertices) + np.bincount(heads, minlength=vertices)
        order = np.argsort(-degree, kind="stable")
        number = np.empty(vertices, np.int64)
        number[order] = np.arange(vertices)
        keys = np.sort(number[tails] * vertices + number[heads])
        if simple:
            keys = keys[np.diff(keys, prepend=-1) > 0]
        out = _adjacency(vertices, keys)
        into = _adjacency(vertices, np.sort(keys % vertices * vertices + keys // vertices)) if directed else out
        known = order if names is None else names[order]
        return cls(vertices, int(np.count_nonzero(degree)), out, into, known, directed, simple)

    @property
    def edges(self) -> int:
        """Number of edges; an undirected one counts once."""
        return len(self.out.neighbours) // (1 if self.directed else 2)

    def sources(self) -> NDArray[np.uint32]:
        """Return the vertices with successors in the order in which they are to be taken as sources.

        Those from which about as many walks of some length begin reach most vertices at the same distances, so that a
        block of them goes through few levels per vertex.
        """
        starts, walks = self.out.starts, np.ones(self.vertices, np.int64)
        for _ in range(_WALK_EDGES):
            sums = np.cumsum(walks[self.out.neighbours], dtype=np.int64)
            walks = np.diff(np.concatenate([np.zeros(1, np.int64), sums])[starts])
        order = np.argsort(-walks, kind="stable")
        return order[np.diff(starts)[order] > 0].astype(np.uint32)


def _adjacency(vertices: int, keys: Integers) -> Adjacency:
    """Return the neighbours by the sorted numbers vertex * ``vertices`` + neighbour."""
    starts = np.searchsorted(keys, np.arange(vertices + 1, dtype=np.int64) * vertices)
    return Adjacency(starts.astype(np.int64), (keys % vertices).astype(np.int32))


def rmat_edges(
    scale: int, seed: int, *, per_vertex: int = EDGES_PER_VERTEX, bounds: tuple[float, float, float] = SSCA2
) -> tuple[Integers, Integers]:
    """Return tails and heads of the edges between 2^``scale`` vertices, ``per_vertex`` times as many.

    The raw stream of a bit generator is the same in every NumPy version; distributions built on it are not. ``bounds``
    are the shares of the quadrants, added up.
    """
    edges = per_vertex << scale
    a, ab, abc = (round(share * 2**_BITS) for share in bounds)
    stream = np.random.Philox(key=seed)
    tails, heads = np.zeros(edges, np.int64), np.zeros(edges, np.int64)
    for _ in range(scale):
        draw = stream.random_raw(edges) >> np.uint64(64 - _BITS)
        tails = 2 * tails + (draw >= ab)
        heads = 2 * heads + ((draw >= abc) | ((draw >= a) & (draw < ab)))
    return tails, heads


@functools.lru_cache(maxsize=1)
def rmat(scale: int, seed: int) -> Graph:
    """Return the graph of ``scale`` and ``seed``; workers ask for it one at a time, see ``bag.load_solver``."""
    return Graph.from_edges(1 << scale, *rmat_edges(scale, seed))


# What can go wrong with a graph --------------------------------------------------------------------------------------


class PathCountError(ArithmeticError):
    """Vertices at the same distance from a source have numbers of shortest paths that no double holds together."""

    def __init__(self, source: int) -> None:
        super().__init__(
            f"the numbers of shortest paths from vertex {source}, counted by falling degree, differ by more than a "
            "factor of 2^960 within one distance; no such graph (a very large grid, say) can be computed"
        )


# Which graph is computed, in a few bytes that every bag carries, and how a place comes by it: once -------------------

_kept: dict[str, Graph] = {}


@dataclass(frozen=True)
class Generated:
    """An R-MAT graph with 2^``scale`` vertices, which every place generates for itself."""

    scale: int
    seed: int

    @property
    def vertices(self) -> int:
        """Number of vertices."""
        return 1 << self.scale

    def graph(self) -> Graph:
        """Return the graph."""
        return rmat(self.scale, self.seed)


@dataclass(frozen=True)
class Kept:
    """A graph that place 0 keeps in memory under a key; every other place gets it from there, in one message.

    That is faster than reading a file again, and it is the same graph even if the file has changed since, or is not
    there on another machine.
    """

    key: str
    vertices: int

    def graph(self) -> Graph:
        """Return the graph; on another place than 0 without the names of its vertices."""
        if (own := _kept.get(self.key)) is not None:
            return own
        import apgas

        with apgas.finish():
            return apgas.at(apgas.place(0), lend, self.key)


Instance: TypeAlias = Generated | Kept


def keep(graph: Graph, key: str) -> Kept:
    """Keep ``graph`` for all places; on place 0."""
    _kept[key] = graph
    return Kept(key, graph.vertices)


def lend(key: str) -> Graph:
    """Return the graph kept under ``key``, for a place that only computes."""
    return replace(_kept[key], names=np.empty(0, np.int64))
