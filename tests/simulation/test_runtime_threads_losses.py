"""Real drivers, executors and threads on simulated places that die at random: the program goes on, and ends."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import pytest

import apgas
from apgas import Deadlines, DeadPlaceError, PlaceGoneError, async_at, finish, here, places
from apgas.runtime import process
from apgas.testing.handlers import ReleaseNewest
from apgas.testing.job import Job

ORDERS = 20
HOPS = 5


class Handler(ReleaseNewest):
    """Releases random places."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        others = [place for place in places() if place.id]
        return self.rng.sample(others, min(nb_places, len(others)))


def hop(left: int) -> None:
    while left:
        now = places()
        try:
            async_at(now[(left * 7 + here().id) % len(now)], hop, left - 1)
        except PlaceGoneError:
            left -= 1
            continue
        return


def open_a_finish(left: int) -> None:
    with suppress(ExceptionGroup), finish():  # what it lost is its own affair
        for place in places():
            with suppress(PlaceGoneError):  # gone meanwhile
                async_at(place, hop, left)


class Losing:
    """The program; kills places of its own job."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.killed = 0
        deadlines = Deadlines(pre_s=5, spawn_s=5, drain_s=self.rng.choice((0.01, 5)), release_s=2, post_s=5)
        self.job = Job(self.main, deadlines, places=1 + seed % 4, deadline_s=60, resilient=True)
        for _ in range(ORDERS):
            order = self.job.grow if self.rng.random() < 0.65 else self.job.shrink
            order(self.rng.randint(1, 2))

    def main(self, deadlines: Deadlines) -> None:
        apgas.define_malleable_handler(Handler(self.rng), deadlines=deadlines)
        while len(apgas.resizes()) < ORDERS:
            try:
                with finish():
                    self.spread()
                    self.may_kill()
            except ExceptionGroup as errors:
                _, others = errors.split((DeadPlaceError, PlaceGoneError))
                if others is not None:
                    raise
        apgas.disable_malleable_handler()

    def spread(self) -> None:
        for number in range(6):
            with suppress(PlaceGoneError):  # gone meanwhile
                now = places()
                async_at(now[number % len(now)], self.rng.choice((hop, open_a_finish)), HOPS)

    def may_kill(self) -> None:
        victims = [place.id for place in places() if place.id]
        if victims and self.rng.random() < 0.8:
            with suppress(apgas.UsageError):  # it has left meanwhile
                self.job.kill(self.rng.choice(victims))
                self.killed += 1


def soak(seeds: range) -> tuple[int, Counter[str]]:
    killed, outcomes = 0, Counter[str]()
    for seed in seeds:
        program = Losing(seed)
        try:
            program.job.run()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        killed += program.killed
        outcomes.update(program.job.outcomes)
    return killed, outcomes


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has threads take turns far more often than usual."""
    monkeypatch.setattr(process, "SWITCH_S", 1e-5)


def test_a_program_outlives_its_places(restless: None) -> None:
    killed, outcomes = soak(range(6))
    assert killed > 10
    assert outcomes["done"] > 40, outcomes


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_program_outlives_its_places_for_long(restless: None) -> None:
    killed, outcomes = soak(range(100, 125))
    assert killed > 75
    assert outcomes["aborted"] > 20, outcomes
