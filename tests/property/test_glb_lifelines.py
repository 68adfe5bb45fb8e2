"""Lifeline graphs are right for every number of places and for ids with gaps."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glb.core.lifelines import GRAPHS, Lifelines


def check(lifelines: Lifelines, members: Sequence[int]) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(members)
    asked_by: dict[int, set[int]] = {place: set() for place in members}
    for place in members:
        buddies = lifelines.buddies(place, members)
        assert place not in buddies
        assert len(set(buddies)) == len(buddies)
        assert set(buddies) <= set(members)
        graph.add_edges_from((place, buddy) for buddy in buddies)
        for buddy in buddies:
            asked_by[buddy].add(place)
    for place in members:
        thieves = lifelines.thieves(place, members)
        assert len(set(thieves)) == len(thieves)
        assert set(thieves) == asked_by[place]
    assert nx.is_strongly_connected(graph)
    return graph


@pytest.mark.parametrize("radix", [2, 3, 4, 7])
def test_every_number_of_places_up_to_300(radix: int) -> None:
    lifelines = Lifelines("hypercube", radix)
    for count in range(1, 301):
        graph = check(lifelines, range(count))
        dimensions = 0
        while radix**dimensions < count:
            dimensions += 1
        assert max(degree for _, degree in graph.out_degree()) <= dimensions


@given(
    kind=st.sampled_from(sorted(GRAPHS)),
    radix=st.integers(2, 6),
    seed=st.integers(0, 1 << 32),
    changes=st.lists(st.integers(-4, 6), max_size=12),
)
def test_after_any_joins_and_leaves(kind: str, radix: int, seed: int, changes: list[int]) -> None:
    rng = Random(seed)
    lifelines = Lifelines(kind, radix)
    members, following = [0], 1
    for change in changes:
        if change >= 0:
            members += range(following, following + change)
            following += change
        else:
            leavers = rng.sample(members[1:], min(-change, len(members) - 1))
            members = [place for place in members if place not in leavers]
        check(lifelines, members)


def test_hypercube_of_eight_is_the_cube() -> None:
    assert Lifelines("hypercube", 2).buddies(5, range(8)) == (4, 7, 1)
