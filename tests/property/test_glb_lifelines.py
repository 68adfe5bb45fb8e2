"""Lifeline graphs are right for every number of places and for ids with gaps."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from random import Random

import networkx as nx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from glb.config import Config
from glb.core.lifelines import GRAPHS, Complete, Graph, Hypercube, Kautz, RandomRegular, Ring, graph_of
from glb.core.view import View
from glb.errors import ConfigError, GraphError
from glb.testing import check_graph

DEGREES = (2, 3, 4, 7)
SPARSE: list[Graph] = [kind(degree) for kind in (Hypercube, Kautz, RandomRegular) for degree in DEGREES]


@pytest.mark.parametrize("graph", [*SPARSE, Ring(), Complete()], ids=str)
def test_every_small_number_of_places(graph: Graph) -> None:
    check_graph(graph, range(1, 70))


@settings(max_examples=40)
@given(graph=st.sampled_from([*SPARSE, Ring()]), count=st.integers(1, 4096))
@example(graph=Hypercube(2), count=4096)
@example(graph=Kautz(2), count=4095)
@example(graph=RandomRegular(2), count=4096)
def test_any_number_of_places(graph: Graph, count: int) -> None:
    check_graph(graph, [count])


@pytest.mark.slow
@pytest.mark.parametrize("graph", SPARSE, ids=str)
def test_every_number_of_places(graph: Graph) -> None:
    check_graph(graph, range(70, 4097, 3))


@settings(max_examples=25)
@given(out=st.integers(2, 6), seed=st.integers(0, 1 << 62), count=st.integers(1, 600))
def test_random_graphs_of_any_seed_connect(out: int, seed: int, count: int) -> None:
    class Unbounded(RandomRegular):
        def diameter(self, count: int) -> int:
            return count

    check_graph(Unbounded(out, seed), [count])


def test_random_graphs_differ_by_their_seed() -> None:
    graphs = {tuple(RandomRegular(3, seed).forward(5, 1000)) for seed in range(20)}
    assert len(graphs) == 20


def by_hand(lifelines: Graph, members: Sequence[int]) -> nx.DiGraph:
    """A second look at the graph that shares no code with the first."""
    graph = nx.DiGraph()
    graph.add_nodes_from(members)
    for place in members:
        graph.add_edges_from((place, buddy) for buddy in View(place, members, lifelines).buddies)
    return graph


@given(
    kind=st.sampled_from(sorted(GRAPHS)),
    radix=st.integers(2, 6),
    seed=st.integers(0, 1 << 32),
    changes=st.lists(st.integers(-4, 6), max_size=12),
)
def test_after_any_joins_and_leaves(kind: str, radix: int, seed: int, changes: list[int]) -> None:
    rng = Random(seed)
    lifelines = graph_of(kind, radix, seed)
    members, following = [0], 1
    for change in changes:
        if change >= 0:
            members += range(following, following + change)
            following += change
        else:
            leavers = rng.sample(members[1:], min(-change, len(members) - 1))
            members = [place for place in members if place not in leavers]
        graph = by_hand(lifelines, members)
        assert set(graph.nodes) == set(members)
        assert nx.number_of_selfloops(graph) == 0
        assert nx.is_strongly_connected(graph)
        for place in members:
            view = View(place, members, lifelines)
            assert len(view.buddies) == graph.out_degree(place)
            assert sorted(view.thieves) == sorted(graph.predecessors(place))
        assert max(degree for _, degree in graph.out_degree()) <= lifelines.degree(len(members))
        if kind != "random":
            assert nx.diameter(graph) <= lifelines.diameter(len(members))


def test_hypercube_of_eight_is_the_cube() -> None:
    assert View(5, range(8), graph_of("hypercube", 2)).buddies == (4, 7, 1)


class Star:
    """A graph of one's own: all ask place 0, which asks all."""

    def forward(self, position: int, count: int) -> list[int]:
        return [0] if position else list(range(1, count))

    def reverse(self, position: int, count: int) -> list[int]:
        return self.forward(position, count)

    def degree(self, count: int) -> int:
        return count - 1

    def diameter(self, count: int) -> int:
        return min(count - 1, 2)


def test_a_graph_of_ones_own() -> None:
    check_graph(Star(), range(1, 40))
    config = pickle.loads(pickle.dumps(Config(lifelines=Star())))
    assert View(7, (0, 4, 7), graph_of(config.lifelines)).buddies == (0,)
    with pytest.raises(ConfigError, match="one of hypercube, kautz, random, ring, complete, or a graph"):
        Config(lifelines="star")


class Loops(Star):
    def forward(self, position: int, count: int) -> list[int]:
        return [position]


class Twice(Star):
    def forward(self, position: int, count: int) -> list[int]:
        return super().forward(position, count) * 2


class Beyond(Star):
    def forward(self, position: int, count: int) -> list[int]:
        return [count]


class Disagrees(Star):
    def reverse(self, position: int, count: int) -> list[int]:
        return []


class OneWay(Ring):
    def forward(self, position: int, count: int) -> list[int]:
        return [position + 1] if position + 1 < count else []

    def reverse(self, position: int, count: int) -> list[int]:
        return [position - 1] if position else []


class TooFar(Ring):
    def diameter(self, count: int) -> int:
        return 2


class TooMany(Complete):
    def degree(self, count: int) -> int:
        return 1


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (Loops(), "itself"),
        (Twice(), "twice"),
        (Beyond(), "is none"),
        (Disagrees(), "reverse says"),
        (OneWay(), "does not reach all"),
        (TooFar(), "bound 2"),
        (TooMany(), "more than the bound 1"),
    ],
)
def test_a_wrong_graph_is_named(graph: Graph, words: str) -> None:
    with pytest.raises(GraphError, match=words):
        check_graph(graph, [8])
