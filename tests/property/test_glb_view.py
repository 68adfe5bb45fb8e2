"""Whom a place knows, whatever the ids, and whether it stays."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from glb.core.effects import Request
from glb.core.lifelines import graph_of
from glb.core.pool import Slots
from glb.core.thief import Thieves
from glb.core.view import View, count_asked
from glb.statistics import Statistics

IDS = st.sets(st.integers(0, 60), min_size=1).map(lambda ids: tuple(sorted(ids)))


@given(members=IDS, me=st.integers(0, 60), count=st.integers(0, 9), seed=st.integers(0, 1000))
def test_others_are_members_and_differ(members: tuple[int, ...], me: int, count: int, seed: int) -> None:
    view = View(me, members, graph_of())
    others = view.others(count, Random(seed))
    assert len(set(others)) == len(others) == min(count, len(set(members) - {me}))
    assert set(others) <= set(members) - {me}
    assert all((place in view) == (place in members) for place in range(61))
    assert set(view.others(61, Random(seed))) == set(members) - {me}


@given(before=IDS, after=IDS, me=st.integers(0, 60), radix=st.integers(2, 4))
def test_newcomers_are_those_that_will_ask(
    before: tuple[int, ...], after: tuple[int, ...], me: int, radix: int
) -> None:
    graph = graph_of("hypercube", radix)
    view = View(me, after, graph)
    asking = {place for place in after if place != me and me in View(place, after, graph).buddies}
    assert set(view.newcomers(before)) == asking - set(before)
    if me not in after:
        assert view.buddies == view.thieves == ()


@given(steps=st.lists(st.tuples(st.sampled_from(["take", "release", "want"]), st.integers(1, 6)), max_size=30))
def test_slots_are_never_taken_twice(steps: list[tuple[str, int]]) -> None:
    slots, busy, wanted = Slots(2), set[int](), 2
    for step, number in steps:
        if step == "take":
            free = set(range(wanted)) - busy
            slot = slots.take()
            assert slot == min(free, default=None)
            busy |= free and {min(free)}
        elif step == "release" and number - 1 in busy:
            busy.discard(number - 1)
            slots.release(number - 1)
        elif step == "want":
            wanted = number
            slots.set_wanted(number)
        assert slots.alive == len(busy)
        assert slots.any_free == (len(set(range(wanted)) - busy) > 0)
        assert slots.any_retiring == any(slot >= wanted for slot in busy)
        assert [slots.retires(slot) for slot in range(6)] == [slot >= wanted for slot in range(6)]


def test_workers_are_away_until_they_are_back() -> None:
    slots = Slots(3)
    assert [slots.take() for _ in range(4)] == [0, 1, 2, None]
    for slot in (2, 0):
        slots.leave(slot)
        assert (slots.any_away, slots.all_away) == (True, False)
    slots.leave(1)
    assert slots.all_away
    slots.release(1)
    assert slots.all_away
    for slot in (0, 2):
        slots.back(slot)
        assert not slots.all_away
    assert not slots.any_away


def test_a_question_is_known_by_its_nonce() -> None:
    thieves = Thieves((7,))
    thieves.add_random(1, 5, chances=2)
    assert (thieves._random, tuple(thieves._lifeline)) == ({1: [5, 2]}, (7,))
    thieves.add_random(1, 4, chances=3)
    assert thieves._random == {1: [5, 2]}, "the newer one counts"


def test_questions_are_counted_by_their_kind() -> None:
    statistics = Statistics()
    asked = [Request(1, 7), Request(2, None), Request(3, None)]
    count_asked(statistics, asked)
    assert (statistics.steals_tried, statistics.lifeline_requests) == (1, 2)
