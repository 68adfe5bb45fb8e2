"""Random trees of activities while places are killed at random and others come and go; every loss has to be reported.

Arguments: seed, seconds.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress

import apgas
from apgas import DeadPlaceError, Future, PlaceGoneError, async_at, at, finish, places
from apgas.testing.handlers import ReleaseNewest


def tree(depth: int) -> None:
    time.sleep(random.random() * 0.003)
    for _ in range(2 if depth else 0):
        with suppress(PlaceGoneError):  # killed meanwhile
            async_at(random.choice(places()), tree, depth - 1)


def nested(depth: int) -> None:
    """Opens a finish of its own, and makes a call; what they lose is its own affair."""
    try:
        with finish():
            for _ in range(3):
                with suppress(PlaceGoneError):  # killed meanwhile
                    async_at(random.choice(places()), tree, depth)
    except BaseExceptionGroup as group:
        only_losses(group)
    with suppress(PlaceGoneError):  # killed meanwhile
        at(random.choice(places()), tree, 0)


def only_losses(group: BaseExceptionGroup[BaseException]) -> dict[int, int]:
    """How many activities are lost with which place; anything else is raised."""
    losses, rest = group.split(DeadPlaceError)
    if rest is not None or losses is None:
        raise group
    return {error.place: error.activities for error in losses.exceptions if isinstance(error, DeadPlaceError)}


def pids() -> list[int]:
    found = []
    for place in places()[1:]:
        with suppress(PlaceGoneError):  # killed meanwhile
            found.append(at(place, os.getpid))
    return found


def one_round(rng: random.Random) -> int:
    """Start activities everywhere, kill a place or none, and compare what is reported; returns how many are lost."""
    victims = pids()
    futures: list[tuple[int, Future[None]]] = []
    reported: dict[int, int] = {}
    try:
        with finish():
            for place in places() * 3:
                with suppress(PlaceGoneError):  # killed meanwhile
                    futures.append((place.id, async_at(place, nested, 2)))
            if victims and rng.random() < 0.5:
                time.sleep(rng.random() * 0.02)
                with suppress(ProcessLookupError):  # killed before
                    os.kill(rng.choice(victims), signal.SIGKILL)
    except BaseExceptionGroup as group:
        reported = only_losses(group)
    failed = Counter(place for place, future in futures if future.exception() is not None)
    assert all(reported.get(place, 0) >= count for place, count in failed.items()), (reported, failed)
    return sum(reported.values())


def main() -> None:
    rng, until = random.Random(int(sys.argv[1])), time.monotonic() + float(sys.argv[2])
    deaths: list[int] = []
    apgas.on_place_failure(lambda place: deaths.append(place.id))
    apgas.define_malleable_handler(ReleaseNewest())
    rounds = lost = ordered = 0
    while time.monotonic() < until or not (lost and deaths):  # on a busy machine there may be few rounds
        if len(apgas.resizes()) == ordered and (len(places()) < 3 or rng.random() < 0.3):
            ordered += 1
            apgas.schedule_orders("0:+1" if len(places()) < 5 else "0:-1")
        lost += one_round(rng)
        rounds += 1
    print(f"{rounds} rounds, {len(deaths)} places died, {lost} activities lost, {len(places())} places at the end")


if __name__ == "__main__":
    apgas.run(main)
