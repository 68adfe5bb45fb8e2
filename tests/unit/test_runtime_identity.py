"""Places as values: what makes them equal, and their order."""

from __future__ import annotations

import pickle

import pytest

from apgas import Place

FIRST, AGAIN, SECOND = Place(1, "b"), Place(1, "elsewhere"), Place(2, "a")


def test_places_differ_by_their_ids_alone() -> None:
    assert FIRST == AGAIN
    assert not FIRST != AGAIN  # noqa: SIM202 - each comparison is a method of its own
    assert FIRST != SECOND
    assert not FIRST == SECOND  # noqa: SIM201 - likewise
    assert {FIRST: "found"}[AGAIN] == "found"
    assert FIRST != 1


def test_places_are_in_the_order_of_their_ids() -> None:
    assert sorted([SECOND, FIRST]) == [FIRST, SECOND]
    assert (FIRST < SECOND, FIRST <= AGAIN, FIRST < AGAIN) == (True, True, False)
    assert (SECOND > FIRST, FIRST >= AGAIN, FIRST > AGAIN) == (True, True, False)
    with pytest.raises(TypeError):
        assert FIRST < 1


def test_places_travel_and_stay_as_they_are() -> None:
    copy = pickle.loads(pickle.dumps(FIRST))
    assert (copy.id, copy.node, str(copy), repr(copy)) == (1, "b", "place(1)", "Place(id=1, node='b')")
    with pytest.raises(AttributeError):
        FIRST.id = 3  # type: ignore[misc]  # wrong on purpose
