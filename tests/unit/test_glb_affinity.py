"""How the places of a machine share out its cores."""

from __future__ import annotations

import pytest

from glb.affinity import Home, shares

FOUR = (0, 1, 2, 3)


def homes(*machines: tuple[str, tuple[int, ...]]) -> dict[int, Home]:
    return {place: Home(name, 100 + place, cores) for place, (name, cores) in enumerate(machines)}


def test_places_of_a_machine_get_parts_in_proportion_to_their_workers() -> None:
    assert shares(homes(*[("a", FOUR)] * 2), {0: 1, 1: 1}) == {0: (0, 1), 1: (2, 3)}
    assert shares(homes(*[("a", FOUR)] * 2), {0: 1, 1: 3}) == {0: (0,), 1: (1, 2, 3)}
    assert shares(homes(*[("a", (2, 5, 7))] * 2), {0: 1, 1: 1}) == {0: (2,), 1: (5, 7)}


def test_places_that_do_not_fit_or_are_alone_keep_what_they_have() -> None:
    assert shares(homes(*[("a", FOUR)] * 2), {0: 2, 1: 3}) == {0: (), 1: ()}
    assert shares(homes(("a", FOUR), ("b", FOUR)), {0: 1, 1: 4}) == {0: (), 1: ()}


def test_a_tighter_mask_of_the_launcher_is_left_alone() -> None:
    masks = [("a", (0, 1)), ("a", (0, 1)), ("a", (2, 3)), ("a", FOUR)]
    assert shares(homes(*masks), dict.fromkeys(range(4), 1)) == {0: (0,), 1: (1,), 2: (), 3: ()}


def test_simulated_places_of_one_process_share_nothing_out() -> None:
    assert shares({0: Home("a", 1, FOUR), 1: Home("a", 1, FOUR)}, {0: 1, 1: 1}) == {0: (), 1: ()}


@pytest.mark.parametrize("cores", range(1, 30))
def test_parts_never_overlap_and_are_large_enough(cores: int) -> None:
    for places in range(2, cores + 1):
        workers = {place: 1 + place % 3 for place in range(places)}
        found = shares(homes(*[("a", tuple(range(cores)))] * places), workers)
        if sum(workers.values()) > cores:
            assert set(found.values()) == {()}
            continue
        assert sorted(core for part in found.values() for core in part) == list(range(cores))
        assert all(len(found[place]) >= workers[place] for place in workers)
