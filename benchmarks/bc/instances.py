"""Which graph is computed, in a few bytes that every bag carries, and how a place comes by it: once."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .graph import Graph

_kept: dict[str, Graph] = {}
_keeping = threading.Lock()


@dataclass(frozen=True)
class Generated:
    """An R-MAT graph, which every place generates for itself.

    Attributes:
        scale: Two to this power is the number of vertices.
        seed: Seed of the graph.
    """

    scale: int
    seed: int

    @property
    def vertices(self) -> int:
        """Number of vertices."""
        return 1 << self.scale

    def graph(self) -> Graph:
        """Return the graph."""
        from .graph import rmat

        return rmat(self.scale, self.seed)


@dataclass(frozen=True)
class Kept:
    """A graph that place 0 keeps in memory; every other place gets it from there, in one message.

    That is faster than reading a file again, and it is the same graph even if the file has changed since, or is not
    there on another machine.

    Attributes:
        key: Under which it is kept.
        vertices: Number of vertices.
    """

    key: str
    vertices: int

    def graph(self) -> Graph:
        """Return the graph; on another place than 0 without the names of its vertices."""
        with _keeping:
            own = _kept.get(self.key)
        if own is not None:
            return own
        import apgas

        with apgas.finish():
            return apgas.at(apgas.place(0), lend, self.key)


Instance: TypeAlias = Generated | Kept


def keep(graph: Graph, key: str) -> Kept:
    """Keep ``graph`` for all places; on place 0."""
    with _keeping:
        _kept[key] = graph
    return Kept(key, graph.vertices)


def lend(key: str) -> Graph:
    """Return the graph kept under ``key``, for a place that only computes."""
    with _keeping:
        return _kept[key].nameless()
