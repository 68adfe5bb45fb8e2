"""Layouts of arrays: every row is somewhere once, and when the places change as few rows move as can be.

After a loss, every row of the dead is found with a neighbour, or named as lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apgas.arrays.layout import (
    Form,
    Layout,
    Move,
    everywhere,
    halo,
    inherited,
    lost_for_good,
    neighbours,
    portions,
    rebalanced,
    ways,
)


def moves(old: Layout, new: Layout) -> list[Move]:
    """What has to be sent from place to place."""
    return [way for way in ways(old, new) if way.source != way.target]


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


def fewest_blocks_moved(layout: Layout, places: Sequence[int]) -> int:
    """The fewest blocks that move if all may be given anew, but evenly: all ways to share them out are tried."""
    blocks = len(layout.owners)
    have = [sum(owner == place for owner in layout.owners) for place in places]
    share, larger = divmod(blocks, len(places))
    ways = itertools.combinations(range(len(places)), larger)
    return blocks - max(sum(min(n, share + (i in more)) for i, n in enumerate(have)) for more in ways)


@given(ROWS, st.integers(1, 8), st.lists(some_places(6), min_size=2, max_size=6))
def test_dealt_blocks_stay_even_and_as_few_as_can_be_move(rows: int, block: int, course: list[list[int]]) -> None:
    old = Layout.first(Form(rows, block), course[0])
    assert old.owners == tuple(course[0][i % len(course[0])] for i in range(-(-rows // block)))
    for places in course[1:]:
        new = rebalanced(old, places)
        assert new.cuts == old.cuts
        assert set(new.owners) <= set(places)
        numbers = [sum(owner == place for owner in new.owners) for place in places]
        assert max(numbers) - min(numbers) <= 1
        assert sum(before != after for before, after in zip(old.owners, new.owners, strict=True)) == (
            fewest_blocks_moved(old, places)
        )
        holds = owners(old)
        for move in moves(old, new):
            assert move.source != move.target
            for row in range(move.first, move.end):
                assert holds[row] == move.source
                holds[row] = move.target
        assert holds == owners(new)
        old = new


def test_what_is_given_away_lies_at_equal_distances() -> None:
    grown = rebalanced(Layout.first(Form(24, 1), [0, 1]), [0, 1, 2])
    for place in range(3):
        blocks = [block for block, owner in enumerate(grown.owners) if owner == place]
        assert len(blocks) == 8
        assert max(late - early for early, late in itertools.pairwise(blocks)) <= 6


FORMS = st.builds(Form, ROWS, st.just(0) | st.integers(1, 8))


@given(FORMS, some_places(8), st.integers(1, 20))
def test_a_halo_brings_exactly_the_rows_beside_each_block(form: Form, places: list[int], width: int) -> None:
    layout = Layout.first(form, places)
    holds = owners(layout)
    brought: dict[int, list[int]] = {place: [] for place in places}
    for source, target, first, end in halo(layout, width):
        assert {holds[row] for row in range(first, end)} == {source}
        brought[target] += range(first, end)
    near: dict[int, set[int]] = {place: set() for place in places}
    for place, first, end in layout.blocks():
        near[place] |= {row for row in range(first - width, end + width) if 0 <= row < form.rows}
    for place in places:
        assert sorted(brought[place]) == sorted(row for row in near[place] if holds[row] != place)


@given(FORMS, some_places(6), some_places(6))
def test_ways_are_the_moves_and_what_stays(form: Form, before: list[int], places: list[int]) -> None:
    old = Layout.first(form, before)
    new = rebalanced(old, places)
    found = {row: (way.source, way.target) for way in ways(old, new) for row in range(way.first, way.end)}
    assert found == {row: (owners(old)[row], owners(new)[row]) for row in range(form.rows)}
    assert sum(way.end - way.first for way in ways(old, new)) == form.rows  # none twice


RANGES = st.lists(st.integers(0, 30), max_size=12).map(lambda cuts: list(itertools.pairwise(sorted(cuts)))[::2])


@given(RANGES, st.integers(1, 12))
def test_portions_are_all_rows_in_their_order_and_as_few_as_can_be(ranges: list[tuple[int, int]], most: int) -> None:
    def rows(parts: list[tuple[int, int]]) -> list[int]:
        return [row for first, end in parts for row in range(first, end)]

    found = [rows(portion) for portion in portions(ranges, most)]
    assert [*itertools.chain(*found)] == rows(ranges)
    assert all(len(portion) == most for portion in found[:-1])
    assert all(1 <= len(portion) <= most for portion in found)


@given(FORMS, some_places(6), some_places(6))
def test_everywhere_brings_all_that_one_has_not(form: Form, places: list[int], targets: list[int]) -> None:
    layout = Layout.first(form, places)
    has = {target: [row for row, owner in owners(layout).items() if owner == target] for target in targets}
    for source, target, first, end in everywhere(layout, targets):
        assert {owners(layout)[row] for row in range(first, end)} == {source}
        has[target] += range(first, end)
    assert all(sorted(rows) == list(range(form.rows)) for rows in has.values())


@given(FORMS, some_places(6), some_places(6), st.sets(st.integers(0, 12)))
def test_rows_of_the_dead_are_found_with_a_neighbour(
    form: Form, before: list[int], places: list[int], dying: set[int]
) -> None:
    layout = rebalanced(Layout.first(form, before), places)
    copies = neighbours(layout, places)
    assert all(copies[owner] != owner for owner in copies)
    assert copies.keys() >= {owner for owner, _, _ in layout.blocks()} or len(places) == 1
    for dead in (dying, *({place} for place in places)):
        after_a_loss(layout, copies, [place for place in places if place not in dead])


def after_a_loss(layout: Layout, copies: dict[int, int], living: list[int]) -> None:
    holders = owners(layout)
    gone = {owner for owner in holders.values() if owner not in living and copies.get(owner) not in living}
    assert set(lost_for_good(layout, copies, living)) == gone
    if gone or not living:
        return
    base = inherited(layout, {dead: heir for dead, heir in copies.items() if dead not in living})
    expected = {row: owner if owner in living else copies[owner] for row, owner in holders.items()}
    assert owners(base) == expected
    new = rebalanced(base, living)
    assert layout.dealt or sorted(new.owners) == sorted(living)  # one block for each, as before
    for source, target, first, end in moves(base, new):
        assert source in living
        assert {expected[row] for row in range(first, end)} == {source}
        expected |= dict.fromkeys(range(first, end), target)
    assert expected == owners(new)


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
