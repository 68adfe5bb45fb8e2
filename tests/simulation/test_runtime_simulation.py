"""Random programs under random resizes, thousands of times, in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from apgas.core.cancel import Cancellations
from apgas.core.effects import Effect, Payload, ResolveCall, Send
from apgas.core.finish import FinishTable, Fired, Flush
from apgas.core.membership import Membership
from apgas.core.messages import AnyMessage, FinishId, Forget, Leave, Message, PlaceInfo, Reply, Spawn
from apgas.core.place import PlaceCore
from apgas.core.reshape import Reshape
from apgas.core.resize import ReshapeEffect
from apgas.errors import ApgasError
from apgas.testing.loss import LossSimulation
from apgas.testing.simulation import Simulation

SEEDS = 10_000
BLOCKS = 10
DELIVERIES = 300


def _run(seed: int) -> Simulation:
    places, orders = 1 + seed % 5, 3 + seed % 3
    try:
        return Simulation(seed, places=places, orders=orders, activities=80, deliveries=DELIVERIES).run()
    except Exception as error:
        error.add_note(f"replay: python -m apgas.testing --seed {seed}")
        raise


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_programs_end_exactly_when_all_is_done(block: int) -> None:
    outcomes: Counter[str] = Counter()
    delivered = []
    for seed in range(block * SEEDS // BLOCKS, (block + 1) * SEEDS // BLOCKS):
        run = _run(seed)
        outcomes.update(f"{record.kind} {record.outcome}" for record in run.records)
        delivered.append(run.network.delivered)
        assert sum(record.outcome == "done" for record in run.records) >= 2
    print(dict(outcomes), f"deliveries per seed: {min(delivered)} to {max(delivered)}")
    assert min(delivered) >= DELIVERIES
    assert all(outcomes[f"{kind} {end}"] > 20 for kind in ("grow", "shrink") for end in ("done", "aborted"))


@pytest.mark.parametrize("block", range(2))
def test_when_a_place_dies_all_others_end(block: int) -> None:
    for seed in range(block * 1000, (block + 1) * 1000):
        try:
            LossSimulation(seed, after=seed % 150, places=2 + seed % 5).run()
        except Exception as error:
            error.add_note(f"replay: LossSimulation({seed}, after={seed % 150}, places={2 + seed % 5}).run()")
            raise


def _forget_a_spawn(monkeypatch: pytest.MonkeyPatch) -> None:
    original = FinishTable.spawned

    def spawned(self: FinishTable, finish: FinishId, at: int) -> None:
        original(self, finish, at)
        share = self._shares[finish]
        if at == 2 and share.spawned[at] > 1:
            share.spawned[at] -= 1

    monkeypatch.setattr(FinishTable, "spawned", spawned)


def _report_before_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    original = FinishTable.reported

    def reported(self: FinishTable, src: int, report: Flush) -> Fired | None:
        balance = self._homed[report.finish]
        fired = original(self, src, report)
        if fired is None and sum(balance.open.values()) == 0:
            del self._homed[report.finish]
            return Fired(report.finish, ())
        return fired

    monkeypatch.setattr(FinishTable, "reported", reported)


def _act_on_a_future_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    def received(self: PlaceCore, src: int, message: AnyMessage, payload: Payload) -> list[Effect]:
        return self._take(src, message, payload)

    monkeypatch.setattr(PlaceCore, "received", received)


def _wait_for_no_final(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore._prepare

    def prepare(self: PlaceCore, message: Leave) -> list[Effect]:
        effects = original(self, message)
        self._awaited_finals = set()
        return [*effects, *self._maybe_drained()]

    monkeypatch.setattr(PlaceCore, "_prepare", prepare)


def _drain_with_open_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FinishTable, "quiet", property(lambda self: True))


def _commit_with_the_first_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Reshape.drained

    def drained(self: Reshape, order: int, place: int, now: float) -> list[ReshapeEffect]:
        if self._current is not None:
            self._current.pending = {place}
        return original(self, order, place, now)

    monkeypatch.setattr(Reshape, "drained", drained)


def _leavers_stay_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Membership, "abort_leave", lambda self: None)


def _forget_an_early_final(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore._final

    def final(self: PlaceCore, src: int, order: int) -> list[Effect]:
        return original(self, src, order) if self._leave == order else []

    monkeypatch.setattr(PlaceCore, "_final", final)


def _stay_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore._stay_on

    def stay_on(self: PlaceCore, order: int) -> list[Effect]:
        drained = self._drained
        effects = original(self, order)
        self._drained = drained
        return effects

    monkeypatch.setattr(PlaceCore, "_stay_on", stay_on)


def _commit_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore.commit_grow

    def commit_grow(self: PlaceCore, added: tuple[PlaceInfo, ...]) -> list[Effect]:
        effects = original(self, added)
        self.membership.epoch += 1
        return effects

    monkeypatch.setattr(PlaceCore, "commit_grow", commit_grow)


def _use_an_id_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def new_ids(self: Membership, count: int) -> range:
        return range(max(self.members) + 1, max(self.members) + 1 + count)

    monkeypatch.setattr(Membership, "new_ids", new_ids)


def _lose_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore._take

    def take(self: PlaceCore, src: int, message: AnyMessage, payload: Payload) -> list[Effect]:
        effects = original(self, src, message, payload)
        return [effect for effect in effects if not isinstance(effect, ResolveCall) or effect.call % 7 != 6]

    monkeypatch.setattr(PlaceCore, "_take", take)


def _lose_the_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    original = FinishTable.reported

    def reported(self: FinishTable, src: int, report: Flush) -> Fired | None:
        return original(self, src, replace(report, errors=report.errors[:1]))

    monkeypatch.setattr(FinishTable, "reported", reported)


def _report_after_every_activity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports before the place is quiet, and forgets that the share goes on."""
    original = FinishTable.ended

    def ended(self: FinishTable, finish: FinishId, error: bytes | None = None) -> Flush | Fired | None:
        share = self._shares[finish]
        if share.live > 1 and finish.home != self.here:
            share.completed += 1
            flush = Flush(finish, dict(share.spawned), share.completed, ())
            share.live -= 1
            self.live -= 1
            return flush
        return original(self, finish, error)

    monkeypatch.setattr(FinishTable, "ended", ended)


def _overlook_a_dying_leaver(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore.lost

    def lost(self: PlaceCore, place: int, reason: str) -> list[Effect]:
        return [] if place in self.membership.leaving else original(self, place, reason)

    monkeypatch.setattr(PlaceCore, "lost", lost)


def _leave_uncounted_activities_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlaceCore, "_idle", property(lambda self: not self.calls and self.finishes.quiet))


def _start_what_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlaceCore, "may_begin", lambda self, finish: True)


def _count_no_end_of_what_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    def dropped(self: PlaceCore, src: int, spawn: Spawn) -> list[Effect]:
        return [Send(src, Reply(self.epoch, spawn.call, ok=False), [])]

    monkeypatch.setattr(PlaceCore, "dropped", dropped)


def _tell_no_newcomer_that_all_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore._to_others

    def to_others(self: PlaceCore, message: Message) -> list[Effect]:
        return [each for each in original(self, message) if not (isinstance(message, Forget) and _dst(each) >= 4)]

    monkeypatch.setattr(PlaceCore, "_to_others", to_others)


def _dst(effect: Effect) -> int:
    assert isinstance(effect, Send)
    return effect.dst


def _cancel_no_nested_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cancellations, "opened", lambda self, finish, outer: None)


@pytest.mark.parametrize(
    "plant",
    [
        _forget_a_spawn,
        _report_before_quiet,
        _act_on_a_future_epoch,
        _wait_for_no_final,
        _drain_with_open_calls,
        _commit_with_the_first_drained,
        _leavers_stay_marked,
        _forget_an_early_final,
        _stay_drained,
        _commit_twice,
        _use_an_id_twice,
        _lose_a_reply,
        _lose_the_errors,
        _report_after_every_activity,
        _overlook_a_dying_leaver,
        _leave_uncounted_activities_behind,
        _start_what_is_cancelled,
        _count_no_end_of_what_is_cancelled,
        _tell_no_newcomer_that_all_is_forgotten,
        _cancel_no_nested_finish,
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
