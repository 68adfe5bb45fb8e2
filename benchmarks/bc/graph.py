"""The R-MAT graph, generated alike on every place from its seed, in the order that the kernel likes.

Source: Chakrabarti et al., "R-MAT: a recursive model for graph mining", SDM 2004; parameters of SSCA2.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

EDGES_PER_VERTEX: Final = 8
MAX_SCALE: Final = 26
_BITS: Final = 53
_A, _AB, _ABC = (round(share * 2**_BITS) for share in (0.55, 0.65, 0.75))
"""Bounds of the quadrants: a = 0.55, b = 0.1, c = 0.1, d = 0.25."""


@dataclass(frozen=True)
class Adjacency:
    """Neighbours of each vertex: those of v are ``neighbours[starts[v]:starts[v + 1]]``, sorted, multi-edges kept."""

    starts: Integers
    neighbours: NDArray[np.int32]


@dataclass(frozen=True)
class Graph:
    """A directed graph, vertices numbered by falling degree.

    Attributes:
        vertices: Number of vertices, those without edges included.
        active: Vertices with an edge; they are the first ones.
        out: Successors.
        into: Predecessors.
    """

    vertices: int
    active: int
    out: Adjacency
    into: Adjacency

    @classmethod
    def from_edges(cls, vertices: int, tails: Integers, heads: Integers) -> Graph:
        """Build the graph of the edges ``tails[i] -> heads[i]``; parallel edges and loops are kept.

        The busiest vertices get the smallest numbers, so that the data that is touched most lies together.
        """
        degree = np.bincount(tails, minlength=vertices) + np.bincount(heads, minlength=vertices)
        number = np.empty(vertices, np.int64)
        number[np.argsort(-degree, kind="stable")] = np.arange(vertices)
        tails, heads = number[tails], number[heads]
        active = int(np.count_nonzero(degree))
        return cls(vertices, active, _adjacency(vertices, tails, heads), _adjacency(vertices, heads, tails))


def _adjacency(vertices: int, tails: Integers, heads: Integers) -> Adjacency:
    keys = np.sort(tails * vertices + heads)
    starts = np.searchsorted(keys, np.arange(vertices + 1, dtype=np.int64) * vertices)
    return Adjacency(starts.astype(np.int64), (keys % vertices).astype(np.int32))


def rmat_edges(scale: int, seed: int) -> tuple[Integers, Integers]:
    """Return tails and heads of the 8 * 2^scale edges.

    The raw stream of a bit generator is the same in every NumPy version; distributions built on it are not.
    """
    edges = EDGES_PER_VERTEX << scale
    stream = np.random.Philox(key=seed)
    tails, heads = np.zeros(edges, np.int64), np.zeros(edges, np.int64)
    for _ in range(scale):
        draw = stream.random_raw(edges) >> np.uint64(64 - _BITS)
        tails = 2 * tails + (draw >= _AB)
        heads = 2 * heads + ((draw >= _ABC) | ((draw >= _A) & (draw < _AB)))
    return tails, heads


_generating = threading.Lock()


def rmat(scale: int, seed: int) -> Graph:
    """Return the graph of ``scale`` and ``seed``; the first caller on a place generates it, the others wait for it."""
    with _generating:
        return _rmat(scale, seed)


@functools.lru_cache(maxsize=1)
def _rmat(scale: int, seed: int) -> Graph:
    return Graph.from_edges(1 << scale, *rmat_edges(scale, seed))
