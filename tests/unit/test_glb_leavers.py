"""Who leaves."""

from __future__ import annotations

from numbered import Numbers

from glb.core.leavers import Evacuation, Load, cost_of_leaving, deal

LOADS = [Load(1, 2, 9), Load(2, 0, 0), Load(3, 2, 4), Load(4, 2, 4)]


def by_cost(loads: list[Load], beside: int = 0) -> list[int]:
    ranked = sorted(loads, key=lambda load: cost_of_leaving([load], beside=load.place == beside))
    return [load.place for load in ranked]


def test_least_work_is_the_cheapest() -> None:
    assert by_cost(LOADS) == [2, 3, 4, 1]
    assert cost_of_leaving(LOADS[2:], beside=False) < cost_of_leaving(LOADS[:1] * 2, beside=False)


def test_places_beside_place_0_leave_last() -> None:
    assert by_cost(LOADS, beside=2) == [3, 4, 1, 2]


def test_of_about_equal_work_the_fewest_bytes_leave() -> None:
    assert by_cost([Load(1, 2, 1000, 10), Load(2, 2, 900, 500), Load(3, 2, 4000, 1)]) == [1, 2, 3]


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


def leaving(*turns: int) -> Evacuation:
    evacuation = Evacuation()
    evacuation.begin(turns)
    return evacuation


def handed_out(evacuation: Evacuation, workers: int) -> list[int]:
    return sorted(to for to, _ in evacuation.hand_out(Numbers(list(range(16))), workers))


def test_what_still_arrives_goes_round() -> None:
    evacuation = leaving(0, 1, 2)
    assert [evacuation.next_in_turn() for _ in range(4)] == [0, 1, 2, 0]


def test_the_workers_of_a_leaver_divide_the_turns_among_them() -> None:
    assert [len(handed_out(leaving(0, 1, 2, 3), workers)) for workers in (1, 2, 3, 4)] == [4, 2, 2, 1]
    evacuation = leaving(0, 1, 2, 3)
    assert [handed_out(evacuation, workers) for workers in (2, 1)] == [[0, 1], [0, 1, 2, 3]]
