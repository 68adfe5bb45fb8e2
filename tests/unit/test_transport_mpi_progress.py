from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from apgas.transport.engine import LINGER_S, STUCK_S, poke_while


class Clock:
    """Runs what is due when the test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.pokes: list[float] = []

    def later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.due.append((self.now_s + delay_s, callback))

    def poke(self) -> None:
        self.pokes.append(self.now_s)

    def step(self) -> None:
        self.now_s, callback = self.due.pop(0)
        callback()


def test_places_are_poked_so_often_that_they_never_stop_lingering_until_nobody_waits() -> None:
    clock = Clock()
    waits = True
    poke_while(lambda: waits, clock.poke, clock.later)
    assert not clock.pokes  # most waits are over soon
    for _ in range(5):
        clock.step()
    assert clock.pokes[0] == STUCK_S
    assert all(0 < later - earlier < LINGER_S for earlier, later in pairwise(clock.pokes))
    waits = False
    clock.step()
    assert (len(clock.pokes), clock.due) == (5, [])


def test_who_does_not_wait_any_more_pokes_none() -> None:
    clock = Clock()
    poke_while(lambda: False, clock.poke, clock.later)
    clock.step()
    assert (clock.pokes, clock.due) == ([], [])
