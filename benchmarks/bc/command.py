"""The command ``python -m benchmarks.bc``."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from scheduler_bridge.atomic_write import write_whole

from ..harness.cli import Benchmark
from ..harness.errors import BadUsage
from ..harness.measurement import reserve
from .bag import BLOCK_SOURCES, BCBag, Centrality, fraction_bits, load_solver
from .graph import MAX_SCALE, Generated, Graph, Instance, keep

if TYPE_CHECKING:
    from numpy.typing import NDArray


MANY_SOURCES = 1024
"""From this number on, a block of sources is a call of ``process``; on smaller graphs it takes no time."""


def sequential(instance: Instance) -> Centrality:
    """Compute the whole centrality here, in one go."""
    solver = load_solver(instance)
    totals = solver.zeros()
    solver.accumulate(0, instance.vertices, totals)
    return Centrality(totals)


def build(
    instance: Instance, parameters: dict[str, object], output: Path | None = None, top: int = 0
) -> Benchmark[Centrality]:
    """Return the betweenness centrality of a graph, which is called ``parameters`` in the result.

    The centrality of each vertex goes to ``output``; the summary names the ``top`` vertices of highest centrality.
    """

    def value(result: Centrality) -> object:
        return summary(instance.graph(), result)

    def verify(result: Centrality) -> tuple[bool, str]:
        from .check import check

        solver = load_solver(instance)
        return check(instance.graph(), solver.zeros() if result.totals is None else result.totals)

    def publish(result: Centrality) -> list[tuple[str, str]]:
        scores = Scores.of(instance.graph(), result)
        if output is not None:
            write_whole(output, scores.as_csv().encode())
        best = [(f"vertex {name}", f"{score:,.6g}") for name, score in scores.top(top)]
        return best if output is None else [*best, ("scores", str(output))]

    return Benchmark(
        name="bc",
        parameters=parameters,
        make_bag=lambda _: BCBag.whole(instance.vertices, instance),
        make_result=Centrality,
        value=value,
        expected=lambda: value(sequential(instance)),
        unit="sources",
        static=True,
        default_granularity=BLOCK_SOURCES if instance.vertices >= MANY_SOURCES else 8 * BLOCK_SOURCES,
        warm_up=partial(load_solver, instance),
        rule="all vertices are sources",
        verify=verify,
        publish=publish,
    )


def command(
    scale: Annotated[
        int | None, typer.Option(help="2^SCALE vertices, 8 times as many edges.", show_default="12")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the graph.")] = 2,
    graph: Annotated[
        Path | None, typer.Option(help="A graph of your own: edge list or Matrix Market, also .gz.")
    ] = None,
    directed: Annotated[
        bool | None,
        typer.Option(
            "--directed/--undirected", help="Do its edges lead one way?", show_default="no, or as its header says"
        ),
    ] = None,
    multigraph: Annotated[
        bool, typer.Option("--multigraph", help="An edge that the file lists twice is two edges.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Write each vertex's centrality there, as CSV.")] = None,
    top: Annotated[int, typer.Option(help="How many vertices of highest centrality to show.")] = 5,
) -> Benchmark[Centrality]:
    """Compute the betweenness centrality of an R-MAT graph or of your own, to the same bits on any number of places.

    Example: mpiexec -n 4 python -m benchmarks.bc --scale 14 --verify
    """
    if top < 0:
        raise BadUsage(f"--top {top}", "it is a number of vertices", "give 0 or more")
    if graph is None:
        if directed is not None or multigraph:
            raise BadUsage("--directed, --undirected, --multigraph", "they say how to read a file", "give --graph FILE")
        instance, parameters = _generated(12 if scale is None else scale, seed)
    else:
        if scale is not None:
            raise BadUsage(f"--graph {graph} --scale {scale}", "these are two graphs", "give one of the two")
        instance, parameters = _read(graph, directed, multigraph)
    if output is not None:
        reserve(output, "--output", "the run did not end\n")
    return build(instance, parameters, output, top)


def _generated(scale: int, seed: int) -> tuple[Instance, dict[str, object]]:
    if not 1 <= scale <= MAX_SCALE:
        raise BadUsage(
            f"--scale {scale}", f"a graph has 2^1 to 2^{MAX_SCALE} vertices", f"give a scale from 1 to {MAX_SCALE}"
        )
    if not 0 <= seed < 2**64:
        raise BadUsage(f"--seed {seed}", "a seed has 64 bits", "give a seed from 0 to 2^64 - 1")
    return Generated(scale, seed), {"scale": scale, "seed": seed}


def _read(path: Path, directed: bool | None, multigraph: bool) -> tuple[Instance, dict[str, object]]:
    from .files import read_graph

    graph = read_graph(path, directed, multigraph)
    about: dict[str, object] = {"graph": str(path), "vertices": graph.vertices, "edges": graph.edges}
    return keep(graph, str(path)), about | {"directed": graph.directed}


# The centrality of each vertex by name: what is shown, and the file that a user gets ---------------------------------


@dataclass(frozen=True)
class Scores:
    """Centralities, not normalised, by rising names; of an undirected graph each pair of ends counts once."""

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
        scores = zip(self.names.tolist(), self.values.tolist(), strict=True)
        return "".join(["vertex,betweenness\n", *(f"{name},{value!r}\n" for name, value in scores)])


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
