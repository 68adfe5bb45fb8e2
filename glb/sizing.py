"""How busy the nodes of a computation are, for a job that sizes itself (``Config.target_efficiency``).

Place 0 asks all places, uncounted, and waits for the answers a little; a place answers on the thread that receives. It
says what its state machine counts anyway: how long its slots were without a bag, which steals were tried and won, and
how many tasks wait. So nothing is added to the loop of a worker, and nothing looks while it computes.

A slot with a bag counts as busy, also while it gives work away. A place that does not answer in time computes in a call
that keeps its interpreter: it is taken to be busy, until an answer says what was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

import msgspec

import apgas
from glb import messages

ANSWER_S: Final = 0.1
"""How long answers are waited for; later ones count at the next look."""


class PlaceCounts(msgspec.Struct, frozen=True):
    """What a place has counted since it joined.

    Attributes:
        idle_s: Seconds of all slots together without a bag.
        tried: Random victims asked.
        won: Random victims that gave.
        waiting: Tasks beyond one for each worker that has a bag, as far as bags have a length.
        ready: Whether it is warm.
    """

    place: int
    clock_s: float
    idle_s: float
    workers: int
    tried: int
    won: int
    waiting: int
    ready: bool


class Gauge:
    """Place 0's measurements of a computation; ``counted`` says that bags have a length, so waiting tasks are known."""

    def __init__(self) -> None:
        self.counted = False
        self._answered = threading.Condition()
        self._latest: dict[int, PlaceCounts] = {}
        self._before: dict[int, PlaceCounts] = {}
        self._asked_s = time.monotonic()

    def take(self, counts: PlaceCounts) -> None:
        """Take an answer; never waits."""
        with self._answered:
            self._latest[counts.place] = counts
            self._answered.notify_all()

    def measure(self, number: int) -> apgas.Measured | None:
        """(place 0) Ask all places how they fare in computation ``number``; return what was so since the last time.

        None: they are asked for the first time.
        """
        nodes = [[place.id for place in places] for places in apgas.nodes()]
        everyone = [place for places in nodes for place in places]
        asked_s, before_s = time.monotonic(), self._asked_s
        with self._answered:
            known = dict(self._latest)
        for place in everyone:
            apgas.immediate(place, messages.count_up, number)
        with self._answered:
            self._answered.wait_for(
                lambda: all(self._latest.get(place) is not known.get(place) for place in everyone), ANSWER_S
            )
            now = {place: counts for place, counts in self._latest.items() if place in everyone}
        before, self._before, self._asked_s = self._before, now, asked_s
        if not before:
            return None
        return measured(nodes, before, now, asked_s, asked_s - before_s, counted=self.counted)


def measured(
    nodes: Sequence[Sequence[int]],
    before: dict[int, PlaceCounts],
    now: dict[int, PlaceCounts],
    at_s: float,
    seconds: float,
    *,
    counted: bool,
) -> apgas.Measured:
    """Return what follows from the counts of places, before and now, by id; ``nodes`` are the ids on each node."""
    busy: list[float] = []
    ready, tried, won, waiting, workers = True, 0, 0, 0, 0
    for places in nodes:
        shares: list[float] = []
        for place in places:
            last, first = now.get(place), before.get(place)
            if last is None or first is None or not last.ready or last.idle_s < first.idle_s:
                ready = False  # it joins, or begins anew after an evacuation that was called off
                continue
            shares.append(_share(first, last))
            tried, won = tried + last.tried - first.tried, won + last.won - first.won
            waiting, workers = waiting + last.waiting, max(workers, last.workers * len(places))
        busy.append(sum(shares) / len(shares) if shares else 0.0)
    failed = 1.0 - won / tried if tried > 0 else 0.0
    spare = waiting // workers if counted and workers else None
    return apgas.Measured(at_s, max(seconds, 1e-6), busy, failed=failed, spare=spare, ready=ready)


def _share(first: PlaceCounts, last: PlaceCounts) -> float:
    present_s = (last.clock_s - first.clock_s) * last.workers
    if present_s <= 0:
        return 1.0
    return min(1.0, max(0.0, 1.0 - (last.idle_s - first.idle_s) / present_s))
