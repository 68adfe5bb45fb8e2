"""Computes chunks on all places; those that are lost with a place are computed again by the others."""

from __future__ import annotations

import os
import signal

import apgas
from apgas import DeadPlaceError, Future, Place, async_at, finish, here, places


def chunk(number: int) -> int:
    if number == 5 and here().id == 2:
        os.kill(os.getpid(), signal.SIGKILL)  # the accident
    return sum(range(number * 1000, (number + 1) * 1000))


def compute(numbers: list[int]) -> dict[int, int]:
    """Compute chunks; what a dead place took with it is not in the answer."""
    futures: dict[int, Future[int]] = {}
    try:
        with finish():
            for index, number in enumerate(numbers):
                futures[number] = async_at(places()[index % len(places())], chunk, number)
    except* DeadPlaceError as group:
        for error in group.exceptions:
            print(type(error).__name__, "of", error.place if isinstance(error, DeadPlaceError) else error)
    return {number: future.result() for number, future in futures.items() if future.exception() is None}


def notice(place: Place) -> None:
    print("without", place, "there are", len(places()))


def main() -> None:
    apgas.on_place_failure(notice)
    results: dict[int, int] = {}
    while missing := [number for number in range(12) if number not in results]:
        results |= compute(missing)
    print("sum:", sum(results.values()), "-", sum(results.values()) == sum(range(12_000)))


if __name__ == "__main__":
    apgas.run(main, resilient=True)
