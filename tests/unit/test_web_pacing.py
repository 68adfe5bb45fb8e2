"""How often something that costs time is made anew."""

from __future__ import annotations

from scheduler_bridge.web.feed import LARGEST_SHARE, Paced


class Slow:
    """Counts, and takes ``cost_s`` for it."""

    def __init__(self, cost_s: float) -> None:
        self.cost_s = cost_s
        self.now_s = 0.0
        self.made = 0

    def make(self) -> int:
        self.now_s += self.cost_s
        self.made += 1
        return self.made

    def clock(self) -> float:
        return self.now_s


def test_what_costs_little_is_always_new() -> None:
    slow = Slow(0.001)
    paced = Paced(slow.make, slow.clock)
    assert [paced.get() for _ in range(100)] == list(range(1, 101))


def test_what_costs_much_takes_its_share_however_often_it_is_asked_for() -> None:
    slow = Slow(0.5)
    paced = Paced(slow.make, slow.clock)
    for _ in range(10_000):
        paced.get()
        slow.now_s += 0.1
    assert 0.9 * LARGEST_SHARE < slow.made * slow.cost_s / slow.now_s < 1.1 * LARGEST_SHARE


def test_what_is_asked_for_seldom_is_new() -> None:
    slow = Slow(5.0)
    paced = Paced(slow.make, slow.clock)
    for number in range(1, 4):
        assert paced.get() == number
        slow.now_s += 5.0 / LARGEST_SHARE
