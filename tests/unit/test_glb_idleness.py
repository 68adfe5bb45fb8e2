"""Idle slots: stealing, starving, closed."""

from __future__ import annotations

from glb.core.pacing import Idleness, Stretch


def test_a_slot_steals_then_starves_then_works() -> None:
    idle = Idleness(1, 0.0)
    assert idle.begins(0, 1.0) == [Stretch(0, "starving", 0.0, 1.0)]
    assert idle.stealing(True, 5.0) == []
    idle.ends(0, 5.0)
    assert idle.stealing(True, 5.5) == []
    assert idle.stealing(False, 6.0) == [Stretch(0, "stealing", 5.0, 6.0)]
    assert idle.begins(0, 8.0) == [Stretch(0, "starving", 6.0, 8.0)]
    assert idle.cut(9.0) == []


def test_every_idle_slot_is_cut() -> None:
    idle = Idleness(3, 0.0)
    idle.begins(1, 0.0)
    assert idle.cut(2.0) == [Stretch(0, "starving", 0.0, 2.0), Stretch(2, "starving", 0.0, 2.0)]
    assert idle.cut(3.0) == [Stretch(0, "starving", 2.0, 3.0), Stretch(2, "starving", 2.0, 3.0)]


def test_a_closed_slot_is_not_idle() -> None:
    idle = Idleness(2, 0.0)
    idle.begins(0, 0.0)
    idle.begins(1, 0.0)
    assert idle.want(1, 1.0) == []
    idle.ends(1, 2.0)
    assert idle.cut(3.0) == []
    # the slot opens again, and a third one
    assert idle.want(3, 4.0) == []
    assert idle.cut(5.0) == [Stretch(1, "starving", 4.0, 5.0), Stretch(2, "starving", 4.0, 5.0)]
    assert idle.want(2, 6.0) == [Stretch(2, "starving", 5.0, 6.0)]


def test_a_retiring_worker_that_is_kept_after_all_is_not_idle() -> None:
    idle = Idleness(2, 0.0)
    idle.begins(0, 0.0)
    idle.begins(1, 0.0)
    idle.want(1, 1.0)
    idle.want(2, 2.0)
    assert idle.cut(3.0) == []
    idle.ends(1, 3.0)
    assert idle.cut(4.0) == [Stretch(1, "starving", 3.0, 4.0)]
