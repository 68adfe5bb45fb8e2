from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from apgas.transport.engine import LINGER_S, STUCK_S, MpiProgress


class Clock:
    """Runs what is due when the test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.pokes: list[tuple[float, tuple[int, ...]]] = []

    def later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.due.append((self.now_s + delay_s, callback))

    def poke(self, places: Sequence[int]) -> None:
        self.pokes.append((self.now_s, tuple(places)))

    def step(self) -> None:
        self.now_s, callback = self.due.pop(0)
        callback()


def test_places_are_poked_so_often_that_they_never_stop_lingering_until_nobody_waits() -> None:
    clock = Clock()
    waits = True
    MpiProgress(clock.poke, clock.later).begin((1, 2), lambda: waits)
    assert not clock.pokes  # most waits are over soon
    for _ in range(5):
        clock.step()
    times = [at_s for at_s, _ in clock.pokes]
    assert {places for _, places in clock.pokes} == {(1, 2)}
    assert all(0 < later - earlier < LINGER_S for earlier, later in pairwise(times))
    waits = False
    clock.step()
    assert (len(clock.pokes), clock.due) == (5, [])


def test_who_does_not_wait_any_more_pokes_nobody() -> None:
    clock = Clock()
    MpiProgress(clock.poke, clock.later).begin((1,), lambda: False)
    clock.step()
    assert (clock.pokes, clock.due) == ([], [])


def test_who_has_left_pokes_nobody() -> None:
    clock = Clock()
    leave = MpiProgress(clock.poke, clock.later).until_left((1,))
    clock.step()
    leave()
    clock.step()
    assert (clock.pokes, clock.due) == ([(STUCK_S, (1,))], [])
