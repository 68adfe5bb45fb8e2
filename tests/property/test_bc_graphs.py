"""Any graph, in any order of sources: kernel, NumPy and plain Python agree to the bit, and the distances with them."""

from __future__ import annotations

from random import Random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support import brandes

from benchmarks.bc import check
from benchmarks.bc.bag import BLOCK_SOURCES, Centrality, Solver, factor_of
from benchmarks.bc.check import inner_vertices
from benchmarks.bc.command import Scores
from benchmarks.bc.graph import Graph
from benchmarks.harness.jit import has_numba

Edges = tuple[int, list[tuple[int, int]]]
"""Number of vertices, and pairs of them."""

edges = st.integers(1, 40).flatmap(
    lambda vertices: st.tuples(
        st.just(vertices),
        st.lists(st.tuples(st.integers(0, vertices - 1), st.integers(0, vertices - 1)), max_size=3 * vertices),
    )
)
"""Disconnected, with loops, parallel edges and isolated vertices, as it comes."""


def graph_of(drawn: Edges, *, directed: bool, simple: bool) -> Graph:
    vertices, pairs = drawn
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    return Graph.from_edges(vertices, ends[:, 0], ends[:, 1], directed=directed, simple=simple)


def successors(graph: Graph) -> list[list[int]]:
    starts, heads = graph.out.starts.tolist(), graph.out.neighbours.tolist()
    return [heads[starts[v] : starts[v + 1]] for v in range(graph.vertices)]


def totals_of(graph: Graph, compiled: bool, order: Random | None = None) -> NDArray[np.int64]:
    """In blocks of any size, taken in any order, summed in parts."""
    solver = Solver(graph, compiled)
    parts = [solver.zeros() for _ in range(3)]
    if order is None:
        solver.accumulate(0, graph.vertices, parts[0])
    else:
        firsts = list(range(0, graph.vertices, BLOCK_SOURCES))
        order.shuffle(firsts)
        for first in firsts:
            cut = order.randint(first, first + BLOCK_SOURCES)
            solver.accumulate(first, min(cut, graph.vertices), order.choice(parts))
            solver.accumulate(cut, min(first + BLOCK_SOURCES, graph.vertices), order.choice(parts))
    total: NDArray[np.int64] = sum(parts, solver.zeros())
    return total


@settings(deadline=None)
@given(drawn=edges, directed=st.booleans(), simple=st.booleans(), order=st.randoms(use_true_random=False))
def test_all_implementations_agree_to_the_bit(drawn: Edges, directed: bool, simple: bool, order: Random) -> None:
    graph = graph_of(drawn, directed=directed, simple=simple)
    expected = brandes.totals(successors(graph), factor_of(graph.vertices))[: graph.active]
    assert totals_of(graph, compiled=False).tolist() == expected
    if has_numba():
        assert totals_of(graph, compiled=True).tolist() == expected
        assert totals_of(graph, compiled=True, order=order).tobytes() == np.array(expected, np.int64).tobytes()


@settings(deadline=None)
@given(drawn=edges, directed=st.booleans())
def test_scores_are_those_of_networkx(drawn: Edges, directed: bool) -> None:
    graph = graph_of(drawn, directed=directed, simple=True)
    model = (nx.DiGraph if directed else nx.Graph)(drawn[1])
    model.add_nodes_from(range(drawn[0]))
    expected = nx.betweenness_centrality(model, normalized=False)
    scores = Scores.of(graph, Centrality(totals_of(graph, compiled=False)))
    assert scores.names.tolist() == sorted(expected)
    assert scores.values.tolist() == pytest.approx([expected[v] for v in range(drawn[0])], abs=1e-6)


@settings(deadline=None)
@given(drawn=edges, directed=st.booleans(), simple=st.booleans())
def test_distances_and_the_check_agree(drawn: Edges, directed: bool, simple: bool) -> None:
    graph = graph_of(drawn, directed=directed, simple=simple)
    model = nx.DiGraph([(v, w) for v, others in enumerate(successors(graph)) for w in others])
    reached = nx.all_pairs_shortest_path_length(model)
    expected = sum(steps - 1 for _, lengths in reached for steps in lengths.values() if steps)
    assert inner_vertices(graph, compiled=False) == expected
    if has_numba():
        assert inner_vertices(graph, compiled=True) == expected
    totals = totals_of(graph, compiled=False)
    right, words = check.check(graph, totals)
    assert right, words
    if graph.active:
        totals[drawn[0] % graph.active] += int(factor_of(graph.vertices))
        assert not check.check(graph, totals)[0]
