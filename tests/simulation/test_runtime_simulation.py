"""Random programs under random resizes, thousands of times, in virtual time."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable

import pytest
from stress.seeds import DELIVERIES, Spread, lossy, main, repeatable, whole
from stress.simulation import Simulation
from stress.survival import LossSimulation
from support import planted

from apgas.errors import ApgasError

SEEDS = 10_000
BLOCKS = 10


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_programs_end_exactly_when_all_is_done(block: int, summary: list[str]) -> None:
    outcomes: Counter[str] = Counter()
    deliveries, resizes = Spread(), Spread()
    seeds = range(block * SEEDS // BLOCKS, (block + 1) * SEEDS // BLOCKS)
    for seed in seeds:
        with repeatable(seed):
            run = whole(seed).run()
            done = sum(record.outcome == "done" for record in run.records)
            assert run.network.delivered >= DELIVERIES
            assert done >= 2
        outcomes.update(f"{record.kind} {record.outcome}" for record in run.records)
        deliveries.add(run.network.delivered)
        resizes.add(done)
    summary.append(f"runtime, seeds {seeds[0]} to {seeds[-1]}: deliveries {deliveries}; resizes {resizes}")
    print(dict(outcomes))
    assert all(outcomes[f"{kind} {end}"] > 20 for kind in ("grow", "shrink") for end in ("done", "aborted"))


@pytest.mark.parametrize("block", range(2))
def test_when_a_place_dies_all_others_end(block: int) -> None:
    for seed in range(block * 1000, (block + 1) * 1000):
        with repeatable(seed):
            lossy(seed).run()


def test_a_failure_says_how_to_repeat_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    planted.lose_a_reply(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["", "--from", "5"])
    with pytest.raises(AssertionError) as found:
        main()
    (note,) = found.value.__notes__
    command = re.fullmatch(r"seed (\d+), commit \S+; again: PYTHONPATH=tests python -m stress\.seeds (--seed \1)", note)
    assert command
    monkeypatch.setattr(sys, "argv", ["", *command[2].split()])
    with pytest.raises(AssertionError) as again:
        main()
    assert str(again.value) == str(found.value)
    monkeypatch.undo()
    monkeypatch.setattr(sys, "argv", ["", *command[2].split()])
    assert main() == 0
    assert re.match(r"1 seeds, \d+ deliveries; of jobs that end well, deliveries: \d{3,} to ", capsys.readouterr().out)


@pytest.mark.parametrize(
    "plant",
    [
        planted.forget_a_spawn,
        planted.report_before_quiet,
        planted.act_on_a_future_epoch,
        planted.wait_for_no_final,
        planted.drain_with_open_calls,
        planted.commit_with_the_first_drained,
        planted.leavers_stay_marked,
        planted.forget_an_early_final,
        planted.stay_drained,
        planted.commit_twice,
        planted.use_an_id_twice,
        planted.lose_a_reply,
        planted.lose_the_errors,
        planted.report_after_every_activity,
        planted.overlook_a_dying_leaver,
        planted.leave_uncounted_activities_behind,
        planted.start_what_is_cancelled,
        planted.count_no_end_of_what_is_cancelled,
        planted.tell_no_newcomer_that_all_is_forgotten,
        planted.cancel_no_nested_finish,
        planted.drop_what_is_held_at_a_leave,
        planted.add_what_is_held_twice,
        planted.pass_on_before_adding,
        planted.relay_by_leavers,
        planted.hold_as_a_leaver,
        planted.report_by_the_tree_alone,
        planted.pass_news_to_all_children_but_one,
        planted.pass_news_on_by_place_0_alone,
        planted.pass_news_on_twice,
        planted.pass_news_to_none_that_leave,
        planted.pass_news_to_those_that_it_removes,
        planted.pass_a_commit_on_among_the_new_members,
        planted.let_the_end_wait,
        planted.let_news_wait,
        planted.take_what_was_held_backwards,
        planted.let_newcomers_stand_before_the_others,
    ],
)
def test_the_net_catches(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    def run_many() -> None:
        for seed in range(300):
            Simulation(seed, places=4, orders=5).run(max_steps=5000)
            LossSimulation(seed, after=seed % 60, places=4).run(max_steps=5000)

    with pytest.raises((AssertionError, ApgasError, KeyError)):
        run_many()


@pytest.mark.parametrize("places_per_node", [2, 3])
def test_nodes_of_several_places_come_and_go_as_a_whole(places_per_node: int) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(150):
        nodes = 1 + seed % 3
        job = Simulation(seed, places=nodes * places_per_node, orders=4, places_per_node=places_per_node).run()
        for record in job.records:
            outcomes[f"{record.kind} {record.outcome}"] += 1
            if record.outcome == "done":
                assert len(record.places) == record.n * places_per_node
                assert len(set(record.nodes)) == len(record.nodes) == record.n
    assert outcomes["grow done"] > 50, outcomes
    assert outcomes["shrink done"] > 50, outcomes
