"""Real drivers, executors and threads on simulated places, under random orders and traffic: all runs exactly once."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import pytest
from support import PATIENCE_S

import apgas
from apgas import Deadlines, async_at, at, finish, here, places
from apgas.runtime import process
from apgas.testing.job import Job

ORDERS = 30
HOPS = 6


class Handler(apgas.MalleableHandler):
    """Releases random nodes; some of its calls fail."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def _may_fail(self) -> None:
        if self.rng.random() < 0.05:
            raise LookupError("bad luck")

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        self._may_fail()
        nodes = apgas.nodes()[1:]
        return [place for node in self.rng.sample(nodes, nb_places // len(nodes[0])) for place in node]

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:
        self._may_fail()

    def preGrow(self, nb_places: int) -> None:
        self._may_fail()

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        with finish():
            for place in new_places:
                async_at(place, here)


def hop(left: int, arrived: apgas.GlobalRef[list[int]]) -> None:
    """Travels from place to place; says so at home when it has ended."""
    while left:
        now = places()
        try:
            async_at(now[(left * 7 + here().id) % len(now)], hop, left - 1, arrived)
        except apgas.PlaceGoneError:
            continue  # left meanwhile: another one
        return
    apgas.immediate(arrived.place, arrive, arrived)


def arrive(arrived: apgas.GlobalRef[list[int]]) -> None:
    arrived.get().append(1)


def increased(value: int) -> int:
    return value + 1


def program(rng: random.Random, deadlines: Deadlines) -> None:
    """Sends activities around until all orders have ended; each must arrive exactly once."""
    arrivals: list[int] = []
    arrived = apgas.GlobalRef(arrivals)
    sent = 0
    apgas.define_malleable_handler(Handler(rng), deadlines=deadlines)
    while len(apgas.resizes()) < ORDERS:
        with finish():
            for number in range(8):
                with suppress(apgas.PlaceGoneError):  # left meanwhile
                    now = places()
                    async_at(now[number % len(now)], hop, HOPS, arrived)
                    sent += 1
            with suppress(apgas.PlaceGoneError):  # left meanwhile
                assert at(places()[-1], increased, number) == number + 1
    apgas.disable_malleable_handler()
    until = time.monotonic() + PATIENCE_S
    while len(arrivals) < sent and time.monotonic() < until:
        time.sleep(0.001)
    assert len(arrivals) == sent


def run(seed: int) -> Counter[str]:
    rng = random.Random(seed)
    places_per_node = rng.randint(1, 2)
    # a leaver that has to wait for others of its node may be too late for a short deadline
    deadlines = Deadlines(drain_s=rng.choice((0.002, 30.0)))
    start = places_per_node * rng.randint(1, 3)
    job = Job(program, rng, deadlines, places=start, places_per_node=places_per_node, deadline_s=60)
    for _ in range(ORDERS):
        if rng.random() < 0.45:
            job.shrink(rng.randint(1, 2))
        else:
            job.grow(rng.randint(1, 2), fails="no such host" if rng.random() < 0.1 else "")
    job.run()
    return Counter(f"{record.kind} {record.outcome}" for record in job.resizes)


def soak(seeds: range) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        try:
            outcomes += run(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    return outcomes


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has threads take turns far more often than usual."""
    monkeypatch.setattr(process, "SWITCH_S", 1e-5)


def test_places_come_and_go_under_traffic(restless: None) -> None:
    outcomes = soak(range(8))
    assert outcomes["grow done"] > 40, outcomes
    assert outcomes["shrink done"] > 40, outcomes
    assert outcomes["grow aborted"] > 4, outcomes


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_places_come_and_go_for_long(restless: None) -> None:
    outcomes = soak(range(1000, 1080))
    assert outcomes["shrink aborted"] > 20, outcomes
    assert threading.active_count() < 200
