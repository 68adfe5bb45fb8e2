"""Grows and shrinks while activities fly between all places; counts that each ran exactly once.

Arguments: ORDERS COUNT [HOSTS]; goes on until COUNT orders have ended. Prints a JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

import apgas
from apgas import async_at, at, finish, here, places


class Handler(apgas.MalleableHandler):
    """Releases the lowest ids, so that places of the first world go first."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        self.calls.append(f"preShrink {nb_places}")
        return [place for place in places() if place.id][:nb_places]

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:
        self.calls.append(f"postShrink {[place.id for place in removed_places]}")

    def preGrow(self, nb_places: int) -> None:
        self.calls.append(f"preGrow {nb_places}")

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        nodes = [at(place, here).node for place in new_places]
        self.calls.append(f"postGrow {[place.id for place in new_places]} {nodes}")


def hop(left: int, done: apgas.GlobalRef[list[int]]) -> None:
    """Travels to a random-looking place, again and again; says so at home when it has ended."""
    sum(range(2000))
    while left:
        now = places()
        target = now[(left * 7 + here().id) % len(now)]
        try:
            async_at(target, hop, left - 1, done)
        except apgas.PlaceGoneError:
            continue  # left meanwhile: another one
        return
    apgas.immediate(done.place, arrive, done)


def arrive(done: apgas.GlobalRef[list[int]]) -> None:
    done.get().append(1)


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent to notice does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def main() -> None:
    orders, expected = sys.argv[1], int(sys.argv[2])
    hosts = sys.argv[3].split(",") if len(sys.argv) > 3 else []
    calls: list[str] = []
    apgas.define_malleable_handler(Handler(calls))
    apgas.schedule_orders(orders, hosts)
    pids = {place.id: at(place, os.getpid) for place in places()}
    arrived: list[int] = []
    done = apgas.GlobalRef(arrived)
    sent = 0
    until = time.monotonic() + 600
    while len(apgas.resizes()) < expected and time.monotonic() < until:
        with finish():
            for number in range(20):
                with suppress(apgas.PlaceGoneError):  # it may begin to leave between the two calls
                    now = places()
                    async_at(now[number % len(now)], hop, 10, done)
                    sent += 1
    apgas.disable_malleable_handler()
    settle = time.monotonic() + 60
    while (alive := [place for place, pid in pids.items() if lives(pid)]) != [0] and time.monotonic() < settle:
        time.sleep(0.01)
    places_now = [place.id for place in places()]
    settle = time.monotonic() + 60
    while len(arrived) < sent and time.monotonic() < settle:
        time.sleep(0.01)
    try:
        async_at(apgas.place(1), print)
        gone = ""
    except apgas.PlaceGoneError as error:
        gone = str(error)
    records = [msgspec.structs.asdict(record) for record in apgas.resizes()]
    result = {"sent": sent, "arrived": len(arrived), "calls": calls, "records": records}
    print(json.dumps({**result, "alive": alive, "places": places_now, "gone": gone}), flush=True)


if __name__ == "__main__":
    apgas.run(main)
