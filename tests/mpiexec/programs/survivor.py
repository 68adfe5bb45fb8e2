"""Loses places, goes on without them, grows, and says what it has seen."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import apgas
from apgas import DeadPlaceError, Place, async_at, at, finish, places
from apgas.testing.handlers import ReleaseNewest


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def spawn_and_die(on: Place) -> None:
    """Its own finish dies with it, but what it has begun elsewhere goes on."""
    with finish():
        async_at(on, work)
        die()


def work() -> int:
    time.sleep(0.05)
    return os.getpid()


def grow() -> None:
    """Grow by one and wait for it."""
    before = len(apgas.resizes())
    apgas.schedule_orders("0:+1")
    while len(apgas.resizes()) == before:
        time.sleep(0.01)
    print("grow", apgas.resizes()[-1].outcome, apgas.resizes()[-1].reason, flush=True)


def deaths(group: BaseExceptionGroup[BaseException]) -> list[str]:
    found, rest = group.split(DeadPlaceError)
    assert rest is None, rest
    assert found is not None
    return [
        f"{error.place}:{error.activities}"
        for error in found.exceptions
        if isinstance(error, DeadPlaceError) and error.node
    ]


def lose(victim: Place) -> None:
    others = [place for place in places() if place != victim]
    results: list[apgas.Future[int]] = []
    losses: list[apgas.Future[None]] = []
    try:
        with finish():
            results += [async_at(place, work) for place in others]
            # the other way round the death may be known here before the second one is sent, which is refused then
            losses += [async_at(victim, time.sleep, 60), async_at(victim, die)]
    except BaseExceptionGroup as group:
        print("finish lost", *deaths(group), "of", victim.id, flush=True)
    assert all(result.result() for result in results)
    assert all(isinstance(lost.exception(), DeadPlaceError) for lost in losses), losses
    try:
        at(victim, work)
    except DeadPlaceError as error:
        print("at says", error, flush=True)
    assert victim not in places()


def lose_in_a_call(victim: Place) -> None:
    """The caller hears of it; the finish around has nothing to add."""
    with finish():
        try:
            at(victim, spawn_and_die, places()[0])
        except DeadPlaceError as error:
            print("call lost", error.place, error.activities, flush=True)


def main() -> None:
    seen: list[int] = []
    heard = threading.Semaphore(0)

    def note(place: Place) -> None:
        assert place not in places()
        seen.append(place.id)
        heard.release()

    apgas.on_place_failure(note)
    apgas.define_malleable_handler(ReleaseNewest())
    grow()
    first, spawned = places()[1], places()[-1]
    lose(first)
    lose(spawned)
    grow()
    lose_in_a_call(places()[-1])
    grow()
    with finish():
        for place in places():
            async_at(place, work)
    for _ in range(3):
        heard.acquire(timeout=600)
    print("handler heard of", seen, flush=True)
    print("places", [place.id for place in places()], flush=True)
    if "shrink" in sys.argv:
        before = len(apgas.resizes())
        apgas.schedule_orders("0:-1")
        while len(apgas.resizes()) == before:
            time.sleep(0.01)
        print("shrink", apgas.resizes()[-1].outcome, flush=True)
    print("fine", flush=True)


if __name__ == "__main__":
    apgas.run(main)
