"""Betweenness against networkx, against the definition, and against the distances."""

from __future__ import annotations

import contextlib
import pickle
from itertools import pairwise
from random import Random

import networkx as nx
import numpy as np
import pytest

import apgas
from benchmarks.bc.bag import BCBag, Centrality, Solver, fraction_bits, load_solver
from benchmarks.bc.command import sequential, summary
from benchmarks.bc.graph import Generated, Graph, Kept, keep, lend, rmat, rmat_edges
from benchmarks.harness.jit import has_numba
from glb.testing import check_bag

KERNELS = [
    pytest.param(True, id="numba", marks=pytest.mark.skipif(not has_numba(), reason="no numba")),
    pytest.param(False, id="numpy"),
]


def centrality(graph: Graph, compiled: bool) -> list[float]:
    """By the numbers of ``graph``, vertices without edges included."""
    solver = Solver(graph, compiled)
    totals = solver.zeros()
    solver.accumulate(0, graph.vertices, totals)
    values: list[float] = (totals * 2.0 ** -fraction_bits(graph.vertices)).tolist()
    return values + [0.0] * (graph.vertices - graph.active)


def edges_of(graph: Graph) -> list[tuple[int, int]]:
    tails = np.repeat(np.arange(graph.vertices), np.diff(graph.out.starts))
    return list(zip(tails.tolist(), graph.out.neighbours.tolist(), strict=True))


def graph_of(vertices: int, edges: list[tuple[int, int]]) -> Graph:
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    return Graph.from_edges(vertices, pairs[:, 0].copy(), pairs[:, 1].copy())


def by_definition(vertices: int, edges: list[tuple[int, int]]) -> list[float]:
    """Count the shortest paths through each vertex by listing them; parallel edges make different paths."""
    copies: dict[tuple[int, int], int] = {}
    for edge in edges:
        copies[edge] = copies.get(edge, 0) + 1
    graph = nx.DiGraph(list(copies))
    graph.add_nodes_from(range(vertices))
    through = [0.0] * vertices
    for source, target in ((s, t) for s in range(vertices) for t in range(vertices) if s != t):
        if not nx.has_path(graph, source, target):
            continue
        paths = [(path, float(np.prod([copies[e] for e in pairwise(path)])))
                 for path in nx.all_shortest_paths(graph, source, target)]  # fmt: skip
        everything = sum(weight for _, weight in paths)
        for path, weight in paths:
            for vertex in path[1:-1]:
                through[vertex] += weight / everything
    return through


@pytest.mark.parametrize("compiled", KERNELS)
@pytest.mark.parametrize("seed", range(6))
def test_simple_graphs_agree_with_networkx(seed: int, compiled: bool) -> None:
    rng = Random(seed)
    vertices = rng.choice([5, 8, 30, 61])
    model = nx.gnp_random_graph(vertices, rng.choice([0.05, 0.1, 0.3]), seed=seed, directed=True)
    graph = graph_of(vertices, list(model.edges))
    theirs = nx.betweenness_centrality(nx.DiGraph(edges_of(graph)), normalized=False)
    ours = centrality(graph, compiled)
    assert ours == pytest.approx([theirs.get(vertex, 0.0) for vertex in range(vertices)], abs=1e-6)


@pytest.mark.parametrize("compiled", KERNELS)
@pytest.mark.parametrize("seed", range(6))
def test_parallel_edges_are_different_paths(seed: int, compiled: bool) -> None:
    rng = Random(seed)
    vertices = rng.randint(2, 12)
    edges = [(rng.randrange(vertices), rng.randrange(vertices)) for _ in range(3 * vertices)]
    graph = graph_of(vertices, edges)
    assert centrality(graph, compiled) == pytest.approx(by_definition(vertices, edges_of(graph)), abs=1e-6)


@pytest.mark.parametrize("compiled", KERNELS)
def test_a_long_path_and_a_graph_without_edges(compiled: bool) -> None:
    length = 100
    graph = graph_of(length, [(v, v + 1) for v in range(length - 1)])
    assert sorted(centrality(graph, compiled)) == sorted(v * (length - 1 - v) for v in range(length))
    assert centrality(graph_of(4, []), compiled) == [0.0] * 4


def test_kernel_and_numpy_agree_to_the_bit() -> None:
    graph = rmat(9, 2)
    fast, plain = Solver(graph), Solver(graph, compiled=False)
    totals, expected = fast.zeros(), plain.zeros()
    fast.accumulate(0, 512, totals)
    plain.accumulate(0, 512, expected)
    assert totals.tolist() == expected.tolist()


def test_the_graph_is_the_one_of_its_seed() -> None:
    tails, heads = rmat_edges(10, 2)
    assert len(tails) == len(heads) == 8 << 10
    assert (int(tails.sum()), int(heads.sum())) == (2_916_068, 2_889_912)
    share = float(np.mean((tails < 512) & (heads < 512)))
    assert share == pytest.approx(0.55, abs=0.02)
    assert float(np.mean(tails < 512)) == pytest.approx(0.65, abs=0.02)
    other, _ = rmat_edges(10, 3)
    assert not np.array_equal(tails, other)


def test_vertices_are_numbered_by_falling_degree() -> None:
    graph = rmat(10, 2)
    degree = np.diff(graph.out.starts) + np.bincount(graph.out.neighbours, minlength=graph.vertices)
    assert (np.diff(degree) <= 0).all()
    assert graph.active == np.count_nonzero(degree) < graph.vertices
    assert sorted(edges_of(graph)) == edges_of(graph)


@pytest.mark.parametrize("scale", range(1, 27))
def test_totals_cannot_overflow(scale: int) -> None:
    vertices = 1 << scale
    assert vertices**2 * 2 ** fraction_bits(vertices) < 2**63


def test_the_bag_keeps_the_protocol() -> None:
    instance = Generated(7, 2)
    graph = instance.graph()
    check_bag(
        lambda: BCBag.whole(instance.vertices, instance),
        Centrality,
        lambda result: summary(graph, result),
        summary(graph, sequential(instance)),
        granularity=8,
    )


def test_a_result_does_not_share_what_it_merged() -> None:
    first, second = Centrality(np.array([1, 2])), Centrality(np.array([10, 20]))
    result = Centrality()
    for part in (first, second, Centrality()):
        result.merge(part)
    assert result.totals is not None
    assert first.totals is not None
    assert result.totals.tolist() == [11, 22]
    assert first.totals.tolist() == [1, 2]


def test_a_place_generates_its_graph_once() -> None:
    assert load_solver(Generated(7, 2)) is load_solver(Generated(7, 2))


def test_a_place_fetches_its_graph_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    graph = rmat(6, 4)
    original = keep(graph, "here")
    assert lend("here").names.size == 0

    def at(where: int, _: object, key: str) -> Graph:
        asked.append((where, key))
        return pickle.loads(pickle.dumps(lend("here")))  # type: ignore[no-any-return]  # pickle has no types

    monkeypatch.setattr(apgas, "finish", contextlib.nullcontext)
    monkeypatch.setattr(apgas, "place", lambda number: number)
    monkeypatch.setattr(apgas, "at", at)
    bags = BCBag.whole(graph.vertices, Kept("elsewhere", graph.vertices)).partition(3)
    result = Centrality()
    for bag in bags:
        copy = pickle.loads(pickle.dumps(bag))
        while copy.process(8):
            pass
        copy.submit(result)
    assert asked == [(0, "elsewhere")]
    expected = sequential(original).totals
    assert result.totals is not None
    assert expected is not None
    assert result.totals.tobytes() == expected.tobytes()
