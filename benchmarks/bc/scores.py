"""The centrality of each vertex by name: what is shown, and the file that a user gets."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .bag import fraction_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .bag import Centrality
    from .graph import Graph


@dataclass(frozen=True)
class Scores:
    """Centralities, not normalised; of an undirected graph each pair of ends counts once.

    Attributes:
        names: The vertices, in rising order.
        values: Their centralities.
    """

    names: NDArray[np.int64]
    values: NDArray[np.float64]

    @classmethod
    def of(cls, graph: Graph, result: Centrality) -> Scores:
        """Return the scores of all vertices of ``graph``."""
        values = np.zeros(graph.vertices)
        if result.totals is not None:
            values[: graph.active] = result.totals * unit_of(graph)
        order = np.argsort(graph.names)
        return cls(graph.names[order], values[order])

    def top(self, count: int) -> list[tuple[int, float]]:
        """Return the ``count`` vertices of highest centrality, of equal ones those with the smallest names."""
        best = np.argsort(-self.values, kind="stable")[:count]
        return [(int(self.names[v]), float(self.values[v])) for v in best]

    def as_csv(self) -> str:
        """Return one line per vertex, ``vertex,betweenness``; the numbers are exact."""
        text = io.StringIO()
        text.write("vertex,betweenness\n")
        text.writelines(
            f"{name},{value!r}\n" for name, value in zip(self.names.tolist(), self.values.tolist(), strict=True)
        )
        return text.getvalue()


def unit_of(graph: Graph) -> float:
    """Return the centrality that one in a total stands for."""
    return 2.0 ** -(fraction_bits(graph.vertices) + (not graph.directed))


def summary(graph: Graph, result: Centrality) -> dict[str, object]:
    """Return sum, maximum and a digest of the totals, which are the same bits for any number of places."""
    totals = np.zeros(graph.active, np.int64) if result.totals is None else result.totals
    unit = unit_of(graph)
    return {
        "sum": sum(totals.tolist()) * unit,
        "maximum": int(totals.max(initial=0)) * unit,
        "digest": hashlib.sha256(totals.astype("<i8").tobytes()).hexdigest()[:16],
    }
