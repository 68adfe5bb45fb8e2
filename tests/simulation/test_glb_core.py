"""Random schedules of many places: nothing is lost, doubled, early or stuck."""

from __future__ import annotations

import pytest

from glb.core.place import PlaceCore
from glb.core.thieves import Thieves
from glb.statistics import Statistics
from glb.testing.bags import Total
from glb.testing.simulation import Simulation, SimulationError

SEEDS = 4000


@pytest.mark.parametrize("block", range(4))
def test_nothing_is_lost_doubled_early_or_stuck(block: int) -> None:
    total = Statistics()
    for seed in range(block, SEEDS, 4):
        total.merge(Simulation(seed).run())
    # the schedules must reach what they are to test
    assert total.steals_won > 500
    assert total.lifeline_deals > 500
    assert total.evacuation_deals > 500


def test_many_places() -> None:
    for seed in range(3):
        Simulation(seed, places=64, limit=5000, resizes=6).run()


def run_until_caught() -> None:
    for seed in range(1500):
        Simulation(seed).run()


def test_the_net_catches_a_forgotten_rewiring(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PlaceCore.set_members

    def silent(self: PlaceCore[Total], members: tuple[int, ...]) -> list[object]:
        original(self, members)
        return []

    monkeypatch.setattr(PlaceCore, "set_members", silent)
    with pytest.raises(SimulationError, match="which does not know it"):
        run_until_caught()


def test_the_net_catches_a_lost_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlaceCore, "take_result", lambda self: Total())
    with pytest.raises(SimulationError, match="left with results"):
        run_until_caught()


def test_the_net_catches_an_unanswered_thief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thieves, "refuse_all", lambda self: [])
    with pytest.raises(SimulationError, match="owes answers"):
        run_until_caught()
