"""Reports of dense finishes go along a chain of places, of which one in the middle is killed."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import apgas
from apgas.core.resilient import ResilientPlaceCore

ResilientPlaceCore.degree = 1
VICTIM = 2
PATIENCE_S = 30.0


def hop(left: int) -> None:
    if left:
        there = apgas.places()
        apgas.async_at(there[(apgas.here().id + left) % len(there)], hop, left - 1)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wander(hops: int) -> None:
    """Go from place to place; only ``finish`` knows when that is over."""
    with apgas.finish(dense=True):
        for place in apgas.places():
            apgas.async_at(place, hop, hops)


def main() -> None:
    wander(50)
    lost = False
    try:
        with apgas.finish(dense=True):
            for place in apgas.places():
                apgas.async_at(place, hop, 500)
            with suppress(apgas.PlaceGoneError):
                apgas.async_at(apgas.place(VICTIM), die)
    except ExceptionGroup as errors:
        lost = errors.subgroup(apgas.DeadPlaceError) is not None
    until_s = time.monotonic() + PATIENCE_S
    while len(apgas.places()) == 4 and time.monotonic() < until_s:
        time.sleep(0.001)
    wander(50)
    print(lost, [place.id for place in apgas.places()])


if __name__ == "__main__":
    apgas.run(main, resilient=True)
