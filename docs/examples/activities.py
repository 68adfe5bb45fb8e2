"""Cancels, limits and leaves alone what runs on other places: `mpiexec -n 3 python activities.py`."""

import logging

import apgas
from apgas import GlobalRef, async_at, at, finish, places


def search(first: int, step: int, found: GlobalRef[list[int]]) -> None:
    """Look for a number whose square ends in 025 and that 49 divides."""
    for number in range(first, 10**9, step):
        if apgas.cancelled():
            return
        if number % 49 == 0 and number * number % 1000 == 25:
            at(found.place, report, found, number)
            apgas.cancel()  # the finish in which this runs, on all places


def report(found: GlobalRef[list[int]], number: int) -> None:
    found.get().append(number)


def first_to_find() -> None:
    found: list[int] = []
    with finish() as scope:
        for index, place in enumerate(places()):
            async_at(place, search, index, len(places()), GlobalRef(found))
    print("found one:", found[0] % 49 == 0, "- cancelled:", scope.cancelled)


def run_on() -> None:
    """Work that never ends by itself, but listens."""
    while not apgas.cancelled():
        pass


def out_of_time() -> None:
    try:
        with finish(timeout=0.2):
            async_at(places()[-1], run_on)
    except TimeoutError as error:
        print(type(error).__name__)


def all_together() -> None:
    table = apgas.broadcast({"weight": 2})
    values = apgas.gather(lambda: apgas.here().id * table.get()["weight"])
    print("gathered:", list(values.values()), "- sum:", apgas.reduce(int.__add__, len, "word"))


def housekeeping(name: str) -> None:
    logging.getLogger("housekeeping").info("%s is in order", name)


def main() -> None:
    first_to_find()
    out_of_time()
    all_together()
    apgas.uncounted(places()[-1], housekeeping, "the store")  # no finish waits for it


if __name__ == "__main__":
    apgas.run(main)
