"""Choosing mates: hand-computed cases, and every choice of a naive search over all subsets."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_bridge.policies.sharing_candidates import Mate, choose, penalty


def ids(mates: list[Mate], nodes: int, at_most: int = 2, free_nodes: int = 0) -> list[int]:
    return [mate.job_id for mate in choose(mates, nodes, at_most=at_most, free_nodes=free_nodes)]


def test_the_penalty_is_the_slowdown_from_requested_times() -> None:
    # A job that asked for 100 s, waited 50 s and will run 30 s longer: (50 + 30 + 100) / 100.
    assert penalty(50.0, 30.0, 100.0) == 1.8


def test_a_single_mate_of_the_right_size_with_the_smallest_penalty() -> None:
    mates = [Mate(1, 4, 1.5), Mate(2, 4, 1.2), Mate(3, 5, 1.0), Mate(4, 3, 1.0)]
    assert ids(mates, 4) == [2]


def test_two_mates_may_be_better_than_one() -> None:
    # 4 nodes: job 1 alone costs 3.0, jobs 2 and 3 (1 + 3 nodes) cost 1.1 + 1.2 = 2.3, jobs 2 and 4 1.1 + 1.4.
    mates = [Mate(1, 4, 3.0), Mate(2, 1, 1.1), Mate(3, 3, 1.2), Mate(4, 3, 1.4)]
    assert ids(mates, 4) == [2, 3]
    assert ids(mates, 4, at_most=1) == [1]


def test_the_nodes_must_be_exactly_as_many_as_needed() -> None:
    mates = [Mate(1, 4, 1.0), Mate(2, 3, 1.0)]
    assert ids(mates, 5) == []
    assert ids(mates, 7) == [1, 2]
    assert ids(mates, 8) == []


def test_three_mates_only_if_they_may_be_three() -> None:
    mates = [Mate(1, 2, 1.0), Mate(2, 2, 1.1), Mate(3, 2, 1.2), Mate(4, 6, 9.0)]
    assert ids(mates, 6) == [4]
    assert ids(mates, 6, at_most=3) == [1, 2, 3]
    assert ids(mates, 6, at_most=0) == []


def test_two_jobs_of_equal_size_can_both_be_mates() -> None:
    mates = [Mate(1, 2, 1.0), Mate(2, 2, 1.1), Mate(3, 2, 1.2)]
    assert ids(mates, 4) == [1, 2]


def test_free_nodes_make_up_for_missing_ones_but_not_for_all() -> None:
    # 5 nodes, 2 free: job 1 (3 nodes) and both free ones, or job 2 (4 nodes) and one of them, which is cheaper.
    mates = [Mate(1, 3, 1.5), Mate(2, 4, 1.2)]
    assert ids(mates, 5, free_nodes=2) == [2]
    assert ids(mates, 5, free_nodes=0) == []
    assert ids([], 5, free_nodes=5) == []


def test_ties_go_to_the_smaller_id() -> None:
    mates = [Mate(3, 2, 1.0), Mate(1, 2, 1.0), Mate(2, 2, 1.0)]
    assert ids(mates, 2) == [1]
    assert ids(mates, 4) == [1, 2]


CANDIDATES = st.lists(st.tuples(st.integers(1, 6), st.sampled_from([1.0, 1.25, 1.5, 2.0, 4.0])), max_size=9).map(
    lambda pairs: [Mate(job_id, nodes, cost) for job_id, (nodes, cost) in enumerate(pairs)]
)


@given(CANDIDATES, st.integers(1, 12), st.integers(1, 4), st.integers(0, 3))
def test_no_choice_is_better(mates: list[Mate], nodes: int, at_most: int, free_nodes: int) -> None:
    sums = [
        sum(mate.penalty for mate in some)
        for count in range(1, at_most + 1)
        for some in itertools.combinations(mates, count)
        if nodes - free_nodes <= sum(mate.nodes for mate in some) <= nodes
    ]
    found = choose(mates, nodes, at_most=at_most, free_nodes=free_nodes)
    assert bool(found) == bool(sums)
    if found:
        assert sum(mate.penalty for mate in found) == pytest.approx(min(sums))
        assert len(set(found)) == len(found) <= at_most
        assert nodes - free_nodes <= sum(mate.nodes for mate in found) <= nodes
    assert found == choose(mates[::-1], nodes, at_most=at_most, free_nodes=free_nodes)
