"""Who leaves."""

from __future__ import annotations

import pytest

from glb.core.leavers import Load, choose_leavers

LOADS = [Load(1, 2, 9), Load(2, 0, 0), Load(3, 2, 4), Load(4, 2, 4)]


def test_least_work_leaves_and_the_newer_of_two_equals() -> None:
    assert choose_leavers(2, LOADS, (), ()) == [2, 4]


def test_the_wish_comes_first() -> None:
    assert choose_leavers(2, LOADS, {1}, ()) == [1, 2]


def test_places_beside_place_0_stay_if_others_can_go() -> None:
    assert choose_leavers(3, LOADS, (), {2}) == [1, 3, 4]
    assert choose_leavers(4, LOADS, (), {2}) == [1, 2, 3, 4]


def test_too_many() -> None:
    with pytest.raises(ValueError, match="5 nodes are to leave, but only 4 can"):
        choose_leavers(5, LOADS, (), ())
