"""Who leaves."""

from __future__ import annotations

from random import Random

import pytest

from glb.core.leavers import Evacuation, Load, choose_leavers, deal
from glb.core.lifelines import graph_of
from glb.core.view import View
from glb.testing.conformance import Numbers

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


def test_of_about_equal_work_the_fewest_bytes_leave() -> None:
    loads = [Load(1, 2, 1000, 10), Load(2, 2, 900, 500), Load(3, 2, 4000, 1)]
    assert choose_leavers(1, loads, (), ()) == [1]
    assert choose_leavers(2, loads, (), ()) == [1, 2]


def test_work_is_dealt_to_those_with_the_least() -> None:
    dealt = deal([Load(9, 1, 80)], [Load(0, 1, 100), Load(1, 0, 0), Load(2, 1, 45)])
    assert sorted(dealt) == [9]
    assert sorted(dealt[9]) == [1, 1, 1, 1, 1, 1, 2, 2]
    assert dealt[9][0] == 1


def test_several_leavers_fill_up_the_same_survivors_evenly() -> None:
    dealt = deal([Load(8, 2, 80), Load(9, 1, 160)], [Load(0, 1, 0), Load(1, 1, 0)])
    for turns in dealt.values():
        assert sorted(turns) == [0] * 4 + [1] * 4


def test_every_worker_of_a_leaver_has_a_piece_to_deal() -> None:
    assert len(deal([Load(9, 32, 0)], [Load(0, 1, 0)])[9]) == 32


def test_without_lengths_all_get_as_much() -> None:
    dealt = deal([Load(9, 1, 0)], [Load(place, 1, 0) for place in range(4)])
    assert sorted(dealt[9]) == [0, 0, 1, 1, 2, 2, 3, 3]


def leaving(turns: tuple[int, ...] = ()) -> Evacuation:
    evacuation = Evacuation(View(9, (0, 1, 2, 3), graph_of()), Random(1))
    evacuation.begin(turns)
    return evacuation


def handed_out(evacuation: Evacuation, workers: int) -> list[int]:
    return sorted(to for to, _ in evacuation.hand_out(Numbers(list(range(16))), workers, ()))


def test_the_workers_of_a_leaver_divide_the_survivors_among_them() -> None:
    assert [len(handed_out(leaving(), workers)) for workers in (1, 2, 3, 4)] == [4, 2, 2, 1]


def test_the_workers_of_a_leaver_divide_the_turns_among_them() -> None:
    assert handed_out(leaving((0, 1, 2, 3)), 1) == [0, 1, 2, 3]
    evacuation = leaving((0, 1, 2, 3))
    assert [handed_out(evacuation, workers) for workers in (2, 1)] == [[0, 1], [0, 1, 2, 3]]
