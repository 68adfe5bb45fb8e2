"""How the io thread waits: asleep, or awake for a short time while events come in quick succession."""

from __future__ import annotations

import pytest

from apgas.transport.loop import AWAKE_S, LEAST_PRICE, MOST_PRICE, QUICK_S, STALL_S, Events, Poller

LOOK_S = 1e-6
EVENT: Events = [(3, 1)]


class World:
    """A clock, and events at given times; ``asked`` are the limits of the looks that were taken."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.asked: list[float | None] = []
        self.poller = Poller(self.look, lambda: self.now_s, self.give_way)
        self.stall_s = 0.0
        self._due_s = 0.0

    def look(self, timeout_s: float | None) -> Events:
        self.asked.append(timeout_s)
        self.now_s += LOOK_S
        if timeout_s is None or self.now_s + timeout_s >= self._due_s:
            self.now_s = max(self.now_s, self._due_s)
            return EVENT
        self.now_s += timeout_s
        return []

    def give_way(self) -> None:
        self.now_s += self.stall_s

    def poll(self, event_in_s: float, timeout_s: float | None = None) -> Events:
        self.asked.clear()
        self._due_s = self.now_s + event_in_s
        return self.poller.poll(timeout_s)

    def earn(self) -> None:
        for _ in range(self.poller.price):
            assert self.poll(QUICK_S / 4) == EVENT

    def fail(self) -> None:
        self.earn()
        assert self.poll(2 * QUICK_S) == EVENT
        assert self.asked[-1] is None


def test_it_sleeps_until_events_have_come_in_quick_succession() -> None:
    world = World()
    for _ in range(LEAST_PRICE):
        assert world.poll(QUICK_S / 4) == EVENT
        assert world.asked == [None]
    assert world.poll(QUICK_S / 4) == EVENT
    assert set(world.asked) == {0.0}


def test_one_slow_event_ends_the_succession() -> None:
    world = World()
    world.poll(QUICK_S / 4)
    world.poll(2 * QUICK_S)
    world.earn()
    assert world.asked == [None]


def test_it_stays_awake_as_long_as_that_pays() -> None:
    world = World()
    world.earn()
    for _ in range(5):
        assert world.poll(AWAKE_S / 2) == EVENT
        assert set(world.asked) == {0.0}


def test_staying_awake_in_vain_is_short_and_part_of_the_time_there_is() -> None:
    world = World()
    world.earn()
    before_s = world.now_s
    assert world.poll(1.0, timeout_s=0.5) == []
    *awake, asleep = world.asked
    assert set(awake) == {0.0}
    assert len(awake) * LOOK_S <= AWAKE_S + 2 * LOOK_S
    assert asleep is not None
    assert world.now_s - before_s == pytest.approx(0.5, abs=3 * LOOK_S)


def test_what_was_in_vain_costs_twice_as_much_and_half_as_much_once_it_pays() -> None:
    world = World()
    for price in (2, 4, 8):
        assert world.poller.price == price * LEAST_PRICE // 2
        world.fail()
    world.earn()
    assert world.asked == [None]
    for price in (4, 2, 1, 1):
        assert world.poll(AWAKE_S / 2) == EVENT
        assert world.poller.price == price * LEAST_PRICE
    for _ in range(20):
        world.fail()
    assert world.poller.price == MOST_PRICE


def test_it_goes_to_sleep_where_the_core_is_wanted_elsewhere() -> None:
    world = World()
    world.earn()
    world.stall_s = 2 * STALL_S
    assert world.poll(1.0) == EVENT
    assert world.asked == [0.0, None]


@pytest.mark.parametrize("timeout_s", [0.0, AWAKE_S])
def test_it_waits_no_longer_than_it_may(timeout_s: float) -> None:
    world = World()
    world.earn()
    assert world.poll(1.0, timeout_s=timeout_s) == []
    assert world.asked == [timeout_s]
