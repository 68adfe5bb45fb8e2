"""Layouts of arrays: every row is somewhere once, and when the places change as few rows move as can be."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apgas.arrays.layout import Layout, halo, moves, rebalanced

ROWS = st.integers(1, 60)


def some_places(most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 12), min_size=1, max_size=most, unique=True)


def owners(layout: Layout) -> dict[int, int]:
    return {row: place for place, first, end in layout.blocks() for row in range(first, end)}


def least_moved(layout: Layout, places: Sequence[int]) -> int:
    """The fewest rows that move if any place may get any block of the even cuts: all ways are tried."""
    before = owners(layout)
    ways = (owners(Layout.even(layout.rows, way)) for way in itertools.permutations(places))
    return min(sum(before[row] != after[row] for row in before) for after in ways)


@given(ROWS, st.lists(some_places(5), min_size=2, max_size=5))
def test_rows_follow_any_course_of_resizes_and_as_few_as_can_be_move(rows: int, course: list[list[int]]) -> None:
    old = Layout.even(rows, course[0])
    for places in course[1:]:
        new = rebalanced(old, places)
        assert sorted(new.owners) == sorted(places)
        sizes = [end - first for first, end in itertools.pairwise(new.cuts)]
        assert new.cuts[0] == 0
        assert new.rows == rows
        assert max(sizes) - min(sizes) <= 1
        holds = owners(old)
        sent = moves(old, new)
        for move in sent:
            assert move.source != move.target
            for row in range(move.first, move.end):
                assert holds[row] == move.source  # so no row is sent twice, and from where it is
                holds[row] = move.target
        assert holds == owners(new)
        assert sum(move.end - move.first for move in sent) == least_moved(old, places)
        old = new


@given(ROWS, some_places(8), st.integers(1, 20))
def test_a_halo_brings_exactly_the_rows_beside_each_block(rows: int, places: list[int], width: int) -> None:
    layout = Layout.even(rows, places)
    holds = owners(layout)
    brought: dict[int, list[int]] = {place: [] for place in places}
    for source, target, first, end in halo(layout, width):
        assert {holds[row] for row in range(first, end)} == {source}
        brought[target] += range(first, end)
    for place, first, end in layout.blocks():
        near = {row for row in range(first - width, end + width) if 0 <= row < rows} - set(range(first, end))
        assert sorted(brought.pop(place)) == sorted(near)
    assert not any(brought.values())


RESIZES = [
    (2, 4, 512),  # halves become quarters: each keeps one at its end, and the newcomers get those between
    (4, 2, 768),  # the two that stay hold rows of one half, so one of them gets the other half
    (1, 4, 768),
    (4, 1, 768),
    (4, 4, 0),
]


@pytest.mark.parametrize(("before", "after", "moved"), RESIZES)
def test_known_resizes(before: int, after: int, moved: int) -> None:
    old = Layout.even(1024, range(before))
    sent = moves(old, rebalanced(old, range(after)))
    assert sum(move.end - move.first for move in sent) == moved


def test_thousands_of_places_are_planned_at_once() -> None:
    old = Layout.even(1 << 20, range(4096))
    new = rebalanced(old, range(5000))
    assert len(moves(old, new)) < 3 * 5000
