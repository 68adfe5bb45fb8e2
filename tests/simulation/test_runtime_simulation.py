"""Random programs under random resizes, thousands of times, in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from apgas.core.effects import Effect, Payload
from apgas.core.finish import FinishTable, Fired, Flush
from apgas.core.membership import Membership
from apgas.core.messages import AnyMessage, FinishId, Leave
from apgas.core.place import PlaceCore
from apgas.core.reshape import Reshape
from apgas.core.resize import ReshapeEffect
from apgas.errors import ApgasError
from apgas.testing.simulation import Simulation

SEEDS = 1800


@pytest.mark.parametrize("block", range(6))
def test_random_programs_end_exactly_when_all_is_done(block: int) -> None:
    outcomes: Counter[str] = Counter()
    delivered = 0
    for seed in range(block * SEEDS // 6, (block + 1) * SEEDS // 6):
        try:
            run = Simulation(seed, places=1 + seed % 5, orders=3 + seed % 3, activities=100).run()
        except Exception as error:
            error.add_note(
                f"replay: Simulation({seed}, places={1 + seed % 5}, orders={3 + seed % 3}, activities=100).run()"
            )
            raise
        outcomes.update(f"{record.kind} {record.outcome}" for record in run.records)
        delivered += run.network.delivered
    print(dict(outcomes), f"{delivered * 6 / SEEDS:.0f} deliveries per seed")
    assert outcomes["grow done"] > 20
    assert outcomes["shrink done"] > 20
    assert outcomes["shrink aborted"] > 0
    assert outcomes["grow aborted"] > 0


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
    ],
)
def test_the_net_catches(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    def run_many() -> None:
        for seed in range(400):
            Simulation(seed, places=4, orders=5).run(max_steps=5000)

    with pytest.raises((AssertionError, ApgasError, KeyError)):
        run_many()
