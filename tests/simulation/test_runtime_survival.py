"""Random programs of resilient jobs under random resizes and losses, thousands of times, in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from stress.seeds import dense, repeatable, resilient
from stress.survival import SurvivalSimulation

from apgas.core.effects import Effect, FinishFired, LeaverDrained
from apgas.core.messages import FinishId, Leave, Word
from apgas.core.order import OrderMachine
from apgas.core.place import PlaceCore
from apgas.core.relay import Words
from apgas.core.resilient import Pairs, Record, ResilientFinishTable, ResilientPlaceCore, Settling
from apgas.core.resize import OrderEffect
from apgas.errors import ApgasError

SEEDS = 1_200
DENSE_SEEDS = 1_200
BLOCKS = 4


@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_others_go_on_and_every_loss_is_reported(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block * SEEDS // BLOCKS, (block + 1) * SEEDS // BLOCKS):
        run = resilient(seed)
        with repeatable(seed):
            run.run()
        seen.update(f"{record.kind} {record.outcome}" for record in run.records)
        seen.update(killed=len(run.killed), lost=len(run.losses.lost), counted=run.losses.counted)
        seen.update(orphans=sum(finish.home in run.losses.dead for finish in run.losses.alive))
        seen.update(
            leavers=sum("before it was released" in record.reason for record in run.records),
            newcomers=sum("as soon as it had joined" in record.reason for record in run.records),
            meanwhile=sum("meanwhile" in record.reason for record in run.records),
        )
    print(dict(seen))
    assert seen["killed"] > 1.5 * SEEDS / BLOCKS
    assert all(seen[what] > 0 for what in ("lost", "counted", "orphans", "leavers", "newcomers", "meanwhile"))
    assert all(seen[f"{kind} {end}"] > 20 for kind in ("grow", "shrink") for end in ("done", "aborted"))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_reports_go_up_a_tree_of_places_that_may_die(block: int) -> None:
    """Every second finish is dense, and a place has one to three children, so that few places make a deep tree."""
    passed_on = 0
    for seed in range(block * DENSE_SEEDS // BLOCKS, (block + 1) * DENSE_SEEDS // BLOCKS):
        run = dense(seed)
        with repeatable(seed):
            run.run()
        passed_on += run.passed_on
        for core in run.cores.values():
            assert isinstance(core.finishes, ResilientFinishTable)
            assert core.finishes._records.keys() <= run.losses.fired, (
                "of a finish that is open it must know all it said"
            )
    assert passed_on > DENSE_SEEDS / BLOCKS


def test_without_losses_a_resilient_job_reports_none() -> None:
    for seed in range(300):
        run = SurvivalSimulation(seed, kills=0, places=1 + seed % 5)
        run.run()
        assert run.losses.counted == 0
        assert not run.losses.lost


def test_nodes_of_several_places_lose_some_of_them() -> None:
    for seed in range(200):
        run = SurvivalSimulation(seed, kills=1 + seed % 3, places=4 + 2 * (seed % 2), places_per_node=2)
        run.run()


# planted defects -----------------------------------------------------------------------------------------------------


def _settle_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def died(self: ResilientFinishTable, place: int, survivors: set[int], drained: set[int]) -> None:
        self._settling[place] = Settling({self.here}, survivors | self._left)

    monkeypatch.setattr(ResilientFinishTable, "died", died)


def _settle_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(self: ResilientFinishTable) -> list[FinishFired]:
        fired: list[FinishFired] = []
        all_settling = self._settling
        for place, settling in list(all_settling.items()):
            if not settling.awaited - all_settling.keys():
                self._settling = {place: Settling(set(), settling.heard)}
                fired += original(self)
                del all_settling[place]
                for other in all_settling.values():
                    other.awaited.discard(place)
        self._settling = all_settling
        return fired

    original = ResilientFinishTable._settle
    monkeypatch.setattr(ResilientFinishTable, "_settle", settle)


def _forget_what_is_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ResilientFinishTable, "cut_off", lambda self, place: {})


def _forget_what_was_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    def hear(self: Pairs, dead: int, survivor: int, pending: int) -> None:
        self.arrived[dead, survivor] = pending

    monkeypatch.setattr(Pairs, "hear", hear)


def _believe_the_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a dead place had reported as sent counts, although some of it never arrived."""

    def settle(self: Pairs, dead: int, survivors: object, settled: set[int]) -> None:
        for pair in [pair for pair in self.open if pair[1] == dead]:
            del self.open[pair]

    monkeypatch.setattr(Pairs, "settle", settle)


def _take_what_comes_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ResilientPlaceCore, "received", PlaceCore.received)


def _keep_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pairs, "lost", lambda self, settled: ())


def _count_what_the_caller_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ResilientFinishTable, "caller_notified", lambda self, finish, place: None)


def _leave_calls_open(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ResilientPlaceCore.cut_off

    def cut_off(self: ResilientPlaceCore, place: int) -> list[Effect]:
        calls, self.calls = self.calls, {}
        effects = original(self, place)
        self.calls = calls
        return effects

    monkeypatch.setattr(ResilientPlaceCore, "cut_off", cut_off)


def _await_the_final_of_the_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ResilientPlaceCore.cut_off

    def cut_off(self: ResilientPlaceCore, place: int) -> list[Effect]:
        awaited = place in self._leaving.awaited
        effects = original(self, place)
        self._leaving.awaited |= {place} if awaited else set()
        return [] if awaited else effects

    monkeypatch.setattr(ResilientPlaceCore, "cut_off", cut_off)


def _drain_before_the_dead_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ResilientPlaceCore._member_died

    def mourn(self: ResilientPlaceCore, place: int) -> list[Effect]:
        self._leaving.awaited.discard(place)
        return [*original(self, place), *self._maybe_drained()]

    monkeypatch.setattr(ResilientPlaceCore, "_member_died", mourn)
    monkeypatch.setattr(ResilientPlaceCore, "_senders", PlaceCore._senders)


def _trust_a_shrink_that_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def has_parted(self: ResilientPlaceCore, leaver: int, order: int) -> list[Effect]:
        self._parted.add((order, leaver))
        return self._all_fired(self._losses.drained(leaver))

    monkeypatch.setattr(ResilientPlaceCore, "_has_parted", has_parted)


def _release_before_all_have_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def ready(self: ResilientPlaceCore, order: int, leaver: int) -> list[Effect]:
        return [LeaverDrained(order, leaver)] if self.here == 0 and (order, leaver) in self._parted else []

    monkeypatch.setattr(ResilientPlaceCore, "_ready", ready)


def _wait_for_a_dead_leaver(monkeypatch: pytest.MonkeyPatch) -> None:
    def died(self: OrderMachine, place: int, now: float) -> list[OrderEffect]:
        return []

    monkeypatch.setattr(OrderMachine, "died", died)


def _pass_news_on_by_places_that_may_die(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ResilientPlaceCore, "news_degree", 2)


def _say_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ResilientPlaceCore, "_say_again", lambda self: [])


def _say_again_in_the_same_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(self: Record) -> Word:
        return replace(original(self), turn=0)

    original = Record.again
    monkeypatch.setattr(Record, "again", again)


def _say_again_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(self: Record) -> Word:
        return replace(original(self), completed={})

    original = Record.again
    monkeypatch.setattr(Record, "again", again)


def _take_words_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(self: Pairs, place: int, word: Word, settled: set[int]) -> None:
        pairs = [((place, dst), total, self.sent) for dst, total in word.sent.items()]
        pairs += [((src, place), total, self.completed) for src, total in word.completed.items()]
        for pair, total, counts in pairs:
            counts[pair] = max(total, counts.get(pair, 0))
            self.weigh(pair, settled)
        self.failures |= {(place, number): error for number, error in word.errors.items()}
        self.words[place] = replace(word, count=word.highest)

    monkeypatch.setattr(Pairs, "take", take)


def _leave_words_on_their_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(self: ResilientPlaceCore, message: Leave) -> list[Effect]:
        self._shrink = message.order
        return PlaceCore._prepare(self, message)

    monkeypatch.setattr(ResilientPlaceCore, "_prepare", prepare)


def _speak_by_the_tree_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def said_again(self: ResilientFinishTable) -> list[tuple[FinishId, Word, bool]]:
        return [(finish, word, False) for finish, word, _ in original(self)]

    original = ResilientFinishTable.said_again
    monkeypatch.setattr(ResilientFinishTable, "said_again", said_again)


def _believe_that_all_has_been_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A survivor says what it has not reported of a dead place, as if all else had arrived at the home."""

    def cut_off(self: ResilientFinishTable, place: int) -> dict[int, dict[int, int]]:
        records, self._records = self._records, {}
        pending = original(self, place)
        self._records = records
        return pending

    original = ResilientFinishTable.cut_off
    monkeypatch.setattr(ResilientFinishTable, "cut_off", cut_off)


def _keep_words_to_oneself(monkeypatch: pytest.MonkeyPatch) -> None:
    def hold(self: ResilientPlaceCore, finish: FinishId, reports: Words) -> list[Effect]:
        return original(self, finish, reports) if self.here % 2 else []

    original = ResilientPlaceCore._hold
    monkeypatch.setattr(ResilientPlaceCore, "_hold", hold)


@pytest.mark.parametrize(
    ("plant", "first"),
    [
        (_say_nothing_again, 0),
        (_say_again_in_the_same_turn, 0),
        (_say_again_what_has_changed, 0),
        (_take_words_as_they_come, 200),
        (_leave_words_on_their_way, 2300),
        (_speak_by_the_tree_alone, 400),
        (_believe_that_all_has_been_said, 0),
        (_keep_words_to_oneself, 0),
    ],
)
def test_the_net_under_the_tree_catches(
    plant: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``first``: where to begin, which makes the test fast and decides nothing else."""
    plant(monkeypatch)

    def run_many() -> None:
        for seed in range(first, first + 3000):
            dense(seed).run(max_steps=5000)

    with pytest.raises((AssertionError, ApgasError, KeyError)):
        run_many()


@pytest.mark.parametrize(
    ("plant", "first"),
    [
        (_settle_without_the_others, 0),
        (_settle_one_by_one, 3670),
        (_forget_what_is_pending, 0),
        (_forget_what_was_completed, 0),
        (_believe_the_dead, 0),
        (_take_what_comes_late, 0),
        (_keep_silent, 0),
        (_count_what_the_caller_knows, 0),
        (_leave_calls_open, 0),
        (_await_the_final_of_the_dead, 0),
        (_drain_before_the_dead_is_cut_off, 740),
        (_trust_a_shrink_that_was_given_up, 600),
        (_release_before_all_have_seen, 0),
        (_wait_for_a_dead_leaver, 0),
        (_pass_news_on_by_places_that_may_die, 0),
    ],
)
def test_the_net_catches(
    plant: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``first``: where to begin, which makes the test fast and decides nothing else."""
    plant(monkeypatch)

    def run_many() -> None:
        for seed in range(first, first + 3000):
            SurvivalSimulation(seed, kills=1 + seed % 3, places=2 + seed % 5).run(max_steps=5000)

    with pytest.raises((AssertionError, ApgasError, KeyError)):
        run_many()
