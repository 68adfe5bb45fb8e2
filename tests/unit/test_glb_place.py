"""Single transitions of a place."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from numbered import Numbers, Total

from glb.core.effects import Attend, Effect, Ended, Forward, Give, Refuse, Request, Start
from glb.core.lifelines import graph_of
from glb.core.place import EXPECTED_CALLS, PlaceCore
from glb.core.pool import Pool
from glb.core.view import Phase
from glb.errors import BagError, LedgerError
from glb.statistics import tasks_in


def core(me: int = 0, members: tuple[int, ...] = (0, 1, 2), workers: int = 1, steals: int = 1) -> PlaceCore[Total]:
    return PlaceCore(me, members, Total, workers=workers, random_steals=steals, rng=Random(1), registered=True)


def phase(place: PlaceCore[Total]) -> Phase:
    return place.phase


def bag(count: int) -> Numbers:
    return Numbers(list(range(count)))


def started(place: PlaceCore[Total], tasks: int = 8) -> tuple[int, Numbers]:
    (run,) = place.receive(bag(tasks))
    assert isinstance(run, Start)
    assert isinstance(run.bag, Numbers)
    return run.slot, run.bag


def test_loot_starts_a_worker_and_more_loot_is_shared() -> None:
    place = core()
    _, own = started(place)
    assert phase(place) is Phase.WORKING
    assert place.receive(bag(3)) == []
    assert [tasks_in(each) for each in place.shared] == [3]
    assert len(own) == 8


def test_a_dry_worker_takes_the_shared_bag() -> None:
    place = core()
    slot, own = started(place)
    place.receive(bag(3))
    own.tasks.clear()
    assert place.dry(slot, own) == []
    assert len(own) == 3
    assert not place.shared


def test_registered_thieves_are_served_with_half() -> None:
    place = core()
    slot, own = started(place, 8)
    gives = place.look(slot, own)
    assert [(type(give), give.to, give.tasks, give.why) for give in gives if isinstance(give, Give)] == [
        (Give, 1, 4, "lifeline"),
        (Give, 2, 2, "lifeline"),
    ]
    assert not place.attention


def test_the_last_dry_worker_steals_then_asks_its_buddies_once() -> None:
    place = core(steals=1)
    slot, own = started(place, 0)
    ended, request = sorted(place.dry(slot, own), key=lambda effect: isinstance(effect, Request))
    assert isinstance(ended, Ended)
    assert isinstance(request, Request)
    assert request.nonce is not None
    assert phase(place) is Phase.STEALING
    assert place.refused(request.nonce + 1) == []
    assert place.refused(request.nonce) == [Request(1, None), Request(2, None)]
    assert phase(place) is Phase.WAITING
    assert place.refused(request.nonce) == []


def test_an_idle_place_refuses_random_thieves_and_remembers_lifelines() -> None:
    place = core()
    assert place.requested(1, 7) == [Refuse(1, 7)]
    assert place.requested(1, None) == []
    assert 1 in place.thieves._lifeline


def test_a_random_thief_is_refused_when_every_worker_had_its_chance() -> None:
    place = core(workers=2)
    place.thieves.keep(())
    slot, own = started(place, 1)
    other, own2 = started(place, 1)
    assert place.requested(2, 5) == []
    assert place.look(slot, own) == []
    assert place.look(other, own2) == [Refuse(2, 5)]


def test_a_thief_gets_the_whole_shared_bag_if_nothing_can_be_split() -> None:
    place = core()
    place.thieves.keep(())
    slot, own = started(place, 1)
    place.receive(bag(1))
    place.requested(2, None)
    (give,) = place.look(slot, own)
    assert isinstance(give, Give)
    assert give.tasks == 1
    assert not place.shared


def test_siblings_start_and_the_shared_bag_is_stocked() -> None:
    place = core(workers=3)
    place.thieves.keep(())
    slot, own = started(place, 32)
    effects = place.look(slot, own)
    assert [type(effect) for effect in effects] == [Start, Start]
    assert place.shared
    assert place.alive == 3
    assert not place.attention


def test_a_failed_gift_is_taken_back() -> None:
    place = core()
    slot, own = started(place, 8)
    give = place.look(slot, own)[0]
    assert isinstance(give, Give)
    place.give_failed(give)
    assert place.statistics.sent == 1
    assert place.statistics.tasks_sent == 2


def test_a_leaver_gives_everything_away_and_forwards_the_rest() -> None:
    place = core(me=2, workers=2)
    slot, own = started(place, 8)
    own.process(2)
    place.requested(0, 3)
    assert place.evacuate((0, 1), (0, 1)) == [Refuse(0, 3)]
    assert phase(place) is Phase.EVACUATING
    effects: list[Effect[Total]] = place.look(slot, own)
    assert sum(effect.tasks for effect in effects if isinstance(effect, Give)) == 6
    assert {effect.to for effect in effects if isinstance(effect, Give)} == {0, 1}
    assert isinstance(effects[-1], Ended)
    assert phase(place) is Phase.EVACUATED
    assert place.take_result().done.total() == 2
    (forward,) = place.receive(bag(1))
    assert isinstance(forward, Forward)
    assert place.statistics.received == 1


def test_a_leaver_gives_nothing_to_a_thief_that_leaves_too() -> None:
    """It may ask before it hears that it is to leave; it is remembered, for the shrink may be called off."""
    place = core(me=2, members=(0, 1, 2, 3))
    slot, own = started(place)
    place.evacuate((0, 1), (0, 1))
    place.requested(3, None)
    assert 3 in place.thieves._lifeline
    gives = [effect for effect in place.look(slot, own) if isinstance(effect, Give)]
    assert {give.to for give in gives} == {0, 1}
    assert sum(give.tasks for give in gives) == 8
    assert tuple(place.thieves._lifeline) == (3,)


def away(place: PlaceCore[Total], tasks: int = 8) -> tuple[int, Numbers]:
    """Put a worker into a long call of one task; the thieves that are known from the start are forgotten."""
    slot, own = started(place, tasks)
    for thief in tuple(place.thieves._lifeline):
        place.thieves.discard(thief)
    assert place.look(slot, own, 1) == ([Attend()] if tasks > 1 else [])
    assert place._attended == (tasks > 1)
    return slot, own


def test_before_a_long_call_everything_else_is_set_out() -> None:
    place = core()
    slot, own = away(place, 8)
    assert own.tasks == [7]
    assert [tasks_in(each) for each in place.shared] == [4, 2, 1]
    own.process(1)
    # who comes back takes the newest piece, and sets nothing out twice
    assert place.dry(slot, own, 1) == []
    assert own.tasks == [6]
    assert place.look(slot, own, 1) == []
    assert [tasks_in(each) for each in place.shared] == [4, 2]


def test_fixed_granularity_keeps_its_tasks_where_bags_have_a_length() -> None:
    place = core()
    slot, own = started(place, 64)
    place.look(slot, own, 5)
    assert len(own) == 4  # of the 16 that thieves have left
    assert sum(map(tasks_in, place.shared)) == 12


def test_the_attendant_serves_thieves_during_a_long_call() -> None:
    place = core()
    away(place, 8)
    assert place.attend() == []
    before = place.calls
    assert place.requested(1, 5) == []
    assert place.calls != before
    (give,) = place.attend()
    assert isinstance(give, Give)
    assert (give.to, give.nonce, give.tasks) == (1, 5, 4)
    place.requested(2, None)
    place.requested(1, 6)
    assert [(give.to, give.tasks) for give in place.attend() if isinstance(give, Give)] == [(1, 2), (2, 1)]
    assert not place.shared
    assert not place._attended


def test_the_attendant_cuts_a_single_bag_in_halves() -> None:
    place = core()
    away(place, 1)
    assert place.receive(bag(8)) == [Attend()]
    place.requested(1, None)
    (give,) = place.attend()
    assert isinstance(give, Give)
    assert give.tasks == 4
    assert [tasks_in(each) for each in place.shared] == [4]


def test_who_has_nothing_to_give_for_long_says_so_at_once_and_asks_for_others() -> None:
    place = core(members=(0, 1, 2, 3))
    away(place, 1)
    assert place.requested(3, 5) == [Refuse(3, 5)]
    (question,) = place.requested(1, None)
    assert isinstance(question, Request)
    assert question.nonce is not None
    assert [type(each) for each in place.refused(question.nonce)] == [Request, Request]  # both buddies
    assert place.requested(2, None) == []
    # what comes is for those who wait
    assert place.receive(bag(2)) == [Attend()]
    assert [(give.to, give.tasks) for give in place.attend() if isinstance(give, Give)] == [(1, 1), (2, 1)]


def test_free_slots_look_for_work_while_all_workers_are_in_long_calls() -> None:
    place = core(workers=2)
    slot, own = started(place, 1)
    for thief in tuple(place.thieves._lifeline):
        place.thieves.discard(thief)
    (question,) = place.look(slot, own, 1)
    assert isinstance(question, Request)
    (run,) = place.receive(bag(1), question.nonce)
    assert isinstance(run, Start)


def test_the_attendant_starts_siblings() -> None:
    place = core()
    away(place, 8)
    place.set_workers(2)
    (start,) = place.attend()
    assert isinstance(start, Start)
    assert tasks_in(start.bag) == 4


def test_set_out_work_is_taken_back_when_calls_are_short() -> None:
    place = core()
    slot, own = away(place, 8)
    own.process(1)
    assert place.look(slot, own) == []
    assert sorted(own.tasks) == list(range(7))
    assert place.attend() == [Ended()]


def sets_out(place: PlaceCore[Total]) -> bool:
    return place.sets_out


def test_work_is_set_out_as_long_as_others_ask() -> None:
    place = core()
    slot, own = started(place, 64)
    assert sets_out(place)  # all look for work at the beginning
    for _ in range(EXPECTED_CALLS):
        place.look(slot, own)
    assert not sets_out(place)
    place.requested(1, 5)
    assert sets_out(place)


def test_work_is_set_out_for_siblings() -> None:
    place = core(workers=2)
    slot, own = started(place, 64)
    for _ in range(2 * EXPECTED_CALLS):
        place.look(slot, own)
    assert sets_out(place)


def test_a_leaver_sends_what_is_set_out_away_during_its_call() -> None:
    place = core(me=2)
    slot, own = away(place, 8)
    begun = bag(3)
    begun.process(1)
    place.receive(begun)
    before = place.calls
    place.evacuate((0, 1), [0, 1])
    assert place.calls != before
    *gives, ended = place.attend()
    assert sum(give.tasks for give in gives if isinstance(give, Give)) == 9
    assert ended == Ended()
    assert phase(place) is Phase.EVACUATING
    own.process(1)
    assert place.look(slot, own, 1) == [Ended()]
    assert phase(place) is Phase.EVACUATED
    assert place.take_result().done.total() == 2


def test_an_aborted_place_drops_what_is_set_out() -> None:
    place = core()
    slot, own = away(place, 8)
    place.abort()
    assert place.attend() == [Ended()]
    assert place.look(slot, own, 1) == [Ended()]


def test_an_idle_leaver_is_done_at_once_and_can_be_called_back() -> None:
    place = core(me=2)
    place.evacuate((0, 1), (0, 1))
    assert phase(place) is Phase.EVACUATED
    assert place.begin() == []
    place.readmit((0, 1, 2))
    assert phase(place) is Phase.JOINING
    assert [type(effect) for effect in place.begin()] == [Request]


def test_rewiring_asks_anew() -> None:
    place = core(me=0, members=(0, 1, 2, 3), steals=1)
    assert place.set_members((0, 5, 9)) == [Request(5, None), Request(9, None)]
    slot, own = started(place, 0)
    place.dry(slot, own)
    assert place._thief.asked is not None
    assert place._thief.asked.to in (5, 9)
    assert place.set_members((0, 7)) == [Request(7, None)]
    assert phase(place) is Phase.WAITING


def test_an_aborted_place_ends_its_workers_and_drops_loot() -> None:
    place = core()
    slot, own = started(place, 8)
    place.abort()
    assert place.attention
    assert place.look(slot, own) == [Ended()]
    assert place.receive(bag(2)) == []
    assert place.alive == 0


def test_a_single_place_has_nobody_to_ask() -> None:
    place = core(members=(0,))
    slot, own = started(place, 0)
    assert place.dry(slot, own) == [Ended()]
    assert phase(place) is Phase.WAITING


def test_more_workers_are_started_from_the_bag_of_one() -> None:
    place = core(members=(0,))
    slot, own = started(place, 32)
    before = place.attention
    assert place.set_workers(3) == []
    assert (before, place.attention) == (False, True)
    starts = [effect for effect in place.look(slot, own) if isinstance(effect, Start)]
    assert [start.slot for start in starts] == [1, 2]
    assert place.shared
    assert place.alive == place.workers == 3


def test_a_worker_that_retires_hands_its_bag_to_the_others() -> None:
    place = core(members=(0,), workers=2)
    slot, own = started(place, 8)
    (start,) = place.look(slot, own)
    assert isinstance(start, Start)
    assert isinstance(start.bag, Numbers)
    kept = len(own)
    start.bag.process(1)
    place.set_workers(1)
    assert place.look(start.slot, start.bag) == [Ended()]
    assert (place.alive, place.result.done.total()) == (1, 1)
    own.tasks.clear()
    assert place.dry(slot, own) == []
    assert len(own) == 8 - kept - 1


def test_the_only_worker_moves_to_a_slot_that_stays() -> None:
    place = core(members=(0,), workers=2)
    slot, own = started(place, 2)
    (start,) = place.look(slot, own)
    assert isinstance(start, Start)
    assert isinstance(start.bag, Numbers)
    own.tasks.clear()
    assert place.dry(slot, own) == [Ended()]
    place.set_workers(1)
    moved, ended = place.look(start.slot, start.bag)
    assert isinstance(moved, Start)
    assert moved.slot == slot
    assert isinstance(ended, Ended)
    assert place.alive == 1


def test_a_place_keeps_a_worker() -> None:
    with pytest.raises(ValueError, match="at least one worker, not 0"):
        core().set_workers(0)


def test_newcomers_count_as_waiting_before_they_ask() -> None:
    place = core(members=(0,))
    slot, own = started(place, 8)
    assert place.set_members((0, 1, 2)) == []
    assert tuple(place.thieves._lifeline) == (1, 2)
    assert [effect.to for effect in place.look(slot, own) if isinstance(effect, Give)] == [1, 2]


def test_those_who_join_together_know_each_other() -> None:
    newcomer = PlaceCore(2, (0, 1, 2, 3), Total, rng=Random(1), before=(0, 1))
    assert phase(newcomer) is Phase.JOINING
    assert tuple(newcomer.thieves._lifeline) == (3,)


def test_a_cold_place_keeps_its_work_and_refuses_thieves() -> None:
    newcomer = PlaceCore(2, (0, 1, 2), Total, rng=Random(1), before=(0, 1))
    newcomer.receive(bag(8))
    assert newcomer.requested(0, 1) == [Refuse(0, 1)]
    assert newcomer.begin() == []
    assert newcomer.requested(0, 2) == []
    assert phase(newcomer) is Phase.WORKING


def test_pieces_go_to_whose_turn_it_is() -> None:
    place = core(me=2, members=(0, 1, 2, 5))
    slot, own = started(place, 8)
    place.evacuate((0, 1, 5), (5, 1, 5, 5))
    gives = [effect for effect in place.look(slot, own) if isinstance(effect, Give)]
    assert [(give.to, give.tasks) for give in gives] == [(5, 6), (1, 2)]


class KeepsSomeBack(Numbers):
    """Its split(True) gives half only."""

    def split(self, all: bool) -> Numbers | None:
        return super().split(False)


def test_a_leaver_that_would_lose_tasks_says_so() -> None:
    place = core(me=2)
    own = KeepsSomeBack(list(range(8)))
    place.receive(own)
    place.evacuate((0, 1), (0, 1))
    with pytest.raises(LedgerError, match="left 4 tasks behind"):
        place.look(0, own)


class SplitsBadly(Numbers):
    """Its split does what it is given."""

    def __init__(self, tasks: list[int], wrong: Callable[[Numbers], Any]) -> None:
        super().__init__(tasks)
        self.wrong = wrong

    def split(self, all: bool) -> Any:
        return self.wrong(self)


class SplitsBadlyUncounted(SplitsBadly):
    """Does not say how many tasks it holds."""

    __len__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("kind", "wrong", "words"),
    [
        (SplitsBadly, lambda bag: Numbers(bag.tasks[:4]), "8 tasks gave 4 and kept 8"),
        (SplitsBadly, lambda bag: Numbers([bag.tasks.pop(), bag.tasks.pop()][:1]), "8 tasks gave 1 and kept 6"),
        (SplitsBadly, lambda bag: bag.tasks.clear(), "8 tasks gave 0 and kept 0"),
        (SplitsBadly, lambda bag: bag, "SplitsBadly returned the bag itself"),
        (SplitsBadly, lambda bag: bag.tasks[:4], r"returned \[0, 1, 2, 3\]; it must return a bag"),
        (SplitsBadly, lambda bag: Numbers([]), "returned a bag without tasks instead of None"),
        (SplitsBadlyUncounted, lambda bag: SplitsBadlyUncounted(bag.tasks[:4], len), "split 100000 times"),
    ],
)
def test_a_split_that_loses_or_doubles_tasks_is_refused(
    kind: type[SplitsBadly], wrong: Callable[[Numbers], Any], words: str
) -> None:
    with pytest.raises((BagError, LedgerError), match=words):
        Pool[Total]().set_out(kind(list(range(8)), wrong), 1)


def test_a_worker_with_tasks_does_not_end() -> None:
    place = core()
    slot, own = started(place, 2)
    with pytest.raises(LedgerError, match="ends with 2 tasks"):
        place.dry(slot, own)


def test_a_place_of_a_hundred_thousand_is_small() -> None:
    members = range(100_000)
    lifelines, rng = graph_of(), Random(1)
    tracemalloc.start()
    places = [
        PlaceCore(me, members, Total, lifelines=lifelines, rng=rng, registered=True) for me in range(0, 100_000, 1000)
    ]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / len(places) < 5000


def test_a_place_that_nobody_is_registered_at_knows_no_thief() -> None:
    place = PlaceCore(0, (0, 1, 2), Total, workers=1, random_steals=1, rng=Random(1), registered=False)
    assert not place.thieves._lifeline


def test_a_thief_that_leaves_needs_no_answer() -> None:
    place = core()
    started(place)
    place.requested(1, 3)
    assert place.thieves._random == {1: [3, 1]}
    place.set_members((0, 2))
    assert (place.thieves._random, 1 in place.thieves._lifeline) == ({}, False)


def test_an_aborted_place_wakes_whoever_pauses() -> None:
    place = core()
    started(place)
    before = place.calls
    place.abort()
    assert place.calls > before
