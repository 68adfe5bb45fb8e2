"""Random schedules of many places: nothing is lost, doubled, early, stuck or starving."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stress.glb_seeds import Tally, run_blocks, run_seeds
from stress.glb_simulation import Simulation, SimulationError
from support import planted_glb as planted

from glb.errors import LedgerError

SEEDS = 6000
LOSING_SEEDS = 10_000
PARTS = 3
BLOCK = 100


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_lost_doubled_early_stuck_or_starving(part: int, summary: list[str]) -> None:
    total = Tally()
    seeds = range(part * SEEDS // PARTS, (part + 1) * SEEDS // PARTS)
    for tally in run_blocks(seeds[first : first + BLOCK] for first in range(0, len(seeds), BLOCK)):
        total.merge(tally)
    summary.append(f"balancer: {total}")
    assert total.seeds == SEEDS // PARTS
    # the schedules must reach what they are to test
    assert all(total.events[event] > 50 for event in ("grow", "shrink", "workers", "call back", "lost place"))
    assert sum(count for places, count in total.places.items() if places >= 32) > 20
    assert min(total.statistics.steals_won, total.statistics.lifeline_deals) > 2000
    assert total.statistics.evacuation_deals > 200


def test_many_places() -> None:
    for seed in range(3):
        assert Simulation(seed, places=64, limit=3000, orders=6, losses=0).run().missing is None


def test_a_seed_is_one_run() -> None:
    first, second = (Simulation(77, places=5, orders=3).run() for _ in range(2))
    assert first == second


def test_a_failure_says_how_to_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.wait_without_asking_the_buddies(monkeypatch)
    with pytest.raises(SimulationError) as caught:
        run_seeds(range(100))
    (note,) = caught.value.__notes__
    seed = note.split()[1].rstrip(",")
    assert "commit " in note
    assert note.endswith(f"again: PYTHONPATH=tests python -m stress.glb_seeds --seed {seed}")
    with pytest.raises(SimulationError):
        run_seeds([int(seed)])


def test_a_finish_that_is_early_is_seen() -> None:
    job = Simulation(1, places=2, limit=400, orders=0, losses=0)
    job.counted -= 1
    with pytest.raises((SimulationError, LedgerError), match=r"early|after the finish|1 bags were sent"):
        job.run()


def test_a_finish_that_never_comes_is_seen() -> None:
    job = Simulation(1, places=2, limit=20, orders=0, losses=0)
    job.counted += 1
    with pytest.raises(SimulationError, match="stuck: 1 counted"):
        job.run()


@pytest.mark.parametrize("part", range(PARTS))
def test_the_result_is_right_whoever_dies(part: int, summary: list[str]) -> None:
    total = Tally()
    seeds = range(part * LOSING_SEEDS // PARTS, (part + 1) * LOSING_SEEDS // PARTS)
    blocks = (seeds[first : first + BLOCK] for first in range(0, len(seeds), BLOCK))
    for tally in run_blocks(blocks, survives=True):
        total.merge(tally)
    summary.append(f"balancer with backups: {total}")
    assert total.seeds == len(seeds)
    assert total.events["no result"] == 0
    # the schedules must reach what they are to test
    reached = {"grow", "shrink", "workers", "call back", "lost place", "lost at once", "lost at the end", "Redirect"}
    reached |= {"done again", "done again meanwhile", "went on"}
    reached |= {f"lost during {order}" for order in ("grow", "shrink", "evacuation", "change of workers")}
    assert all(total.events[event] > 100 for event in reached)
    assert total.events["lost during call-back"] > 10


@pytest.mark.parametrize("part", range(PARTS))
def test_the_result_is_right_though_place_0_dies(part: int, summary: list[str]) -> None:
    total = Tally()
    seeds = range(part * LOSING_SEEDS // PARTS, (part + 1) * LOSING_SEEDS // PARTS)
    blocks = (seeds[first : first + BLOCK] for first in range(0, len(seeds), BLOCK))
    for tally in run_blocks(blocks, lives=True):
        total.merge(tally)
    summary.append(f"balancer that loses place 0: {total}")
    assert total.seeds == len(seeds)
    assert total.events["no result"] == 0
    assert all(total.events[event] > 80 for event in ("grow", "shrink", "lost place", "done again", "lost at the end"))
    assert min(total.events["lost place 0"], total.events["went on from books"]) > 500


# planted defects -----------------------------------------------------------------------------------------------------

DEFECTS: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (planted.drop_the_result_that_comes_along, "are lost"),
    (planted.leave_the_shared_bag_behind, "holds a bag, but has no worker|has work after the finish"),
    (planted.forget_thieves_when_members_change, "does not know"),
    (planted.take_an_old_refusal, "old refusal"),
    (planted.give_twice_after_a_failed_gift, "more than once"),
    (planted.count_a_failed_gift_as_given, "were sent between places"),
    (planted.never_register_newcomers, "starves"),
    (planted.end_without_submitting, "are lost"),
    (planted.wait_without_asking_the_buddies, "does not know"),
    (planted.tell_new_buddies_nothing, "does not know"),
    (planted.retire_with_the_bag, "are lost"),
    (planted.work_on_in_a_closed_slot, "slot .* goes on"),
    (planted.end_beside_a_full_pool, "holds a bag, but has no worker"),
    (planted.hand_the_result_in_twice, "were not asked for|more than once"),
    (planted.lose_the_result_of_a_leaver, "are lost"),
    (planted.prefer_the_older_question, "does not know"),
    (planted.leave_thieves_without_an_answer, "owes answers"),
    (planted.never_disappoint, "no answer though"),
    (planted.notice_no_thieves, "while others wait"),
    (planted.answer_a_leaver_not_at_all, "does not know"),
    (planted.send_pieces_to_those_who_leave_too, "does not stay"),
    (planted.drop_what_does_not_fit, "are lost"),
    (planted.count_what_is_passed_on, "received"),
    (planted.let_thieves_wait_for_a_cold_place, "until it is warm"),
    (planted.go_on_after_the_end, "after the end"),
    (planted.forget_the_attendant, "no attendant serves"),
    (planted.never_wake_the_attendant, "has idle slots while"),
    (planted.keep_an_attendant_without_work, "the finish is not reached|stuck"),
    (planted.let_thieves_wait_for_a_long_call, "has idle slots while"),
    (planted.let_newcomers_begin_before_all_have_joined, "taking no part yet"),
]


@pytest.mark.parametrize(("plant", "words"), DEFECTS)
def test_the_net_catches(
    plant: Callable[[pytest.MonkeyPatch], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((SimulationError, LedgerError), match=words) as caught:
        run_seeds(range(2000))
    print(caught.value.__notes__, caught.value)


LOSING: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (planted.forget_what_is_under_way, "the places count"),
    (planted.forget_the_last_backup, "the places count"),
    (planted.recover_twice, "the places count"),
    (planted.back_up_what_is_given_away, "the places count"),
    (planted.back_up_no_shared_bags, "the places count"),
    (planted.back_up_results_that_are_not_handed_in, "are lost"),
    (planted.forget_what_has_arrived, "did not arrive"),
    (planted.give_before_the_backup_has_come, "the places count"),
    (planted.send_on_without_saying_so, "which is for place|it would count twice"),
    (planted.send_on_what_was_recovered, "has arrived before"),
]


@pytest.mark.parametrize(("plant", "words"), LOSING)
def test_the_net_catches_what_makes_a_loss_fatal(
    plant: Callable[[pytest.MonkeyPatch], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((SimulationError, LedgerError), match=words) as caught:
        run_seeds(range(2000), survives=True)
    print(caught.value.__notes__, caught.value)


FIRST: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (planted.keep_no_bags_under_way, "the places count"),
    (planted.keep_no_backups, "the places count"),
    (planted.keep_what_comes_early, "the places count"),
    (planted.hold_nothing_on_place_0, "the places count"),
    (planted.keep_the_result_later_than_the_bags, "the places count|done more than once"),
    (planted.recover_in_two_steps, "the places count"),
]


@pytest.mark.parametrize(("plant", "words"), FIRST)
def test_the_net_catches_what_makes_the_loss_of_place_0_fatal(
    plant: Callable[[pytest.MonkeyPatch], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((SimulationError, LedgerError), match=words) as caught:
        run_seeds(range(2000), lives=True)
    print(caught.value.__notes__, caught.value)
