"""Random grows and shrinks while frames of all sizes go both ways between all places; counts that each came once.

Arguments: SEED CYCLES. Prints a JSON object.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import zlib
from collections.abc import Sequence

import apgas
from apgas import async_at, finish, here, places
from apgas.testing.handlers import ReleaseNewest

SIZES = (100, 5_000, 70_000, 300_000, 1_500_000)
MOST_PLACES = 5


class Handler(ReleaseNewest):
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        return self.rng.sample([place for place in places() if place.id], nb_places)


def echo(body: bytearray, check: int) -> bytearray:
    assert zlib.crc32(body) == check, "a buffer changed on its way"
    return body


def spread(seed: int, count: int) -> tuple[int, int]:
    """Send ``count`` frames around and get them back; returns how many were sent and how many came back whole."""
    rng = random.Random(seed)
    answers = []
    for _ in range(count):
        body = bytearray(rng.randbytes(1000) * (rng.choice(SIZES) // 1000 + 1))
        check = zlib.crc32(body)
        target = rng.choice(places())
        try:
            answers.append((check, async_at(target, echo, body, check)))
        except apgas.PlaceGoneError:
            continue  # left meanwhile
        if target != here():
            body[:] = bytes(len(body))  # what was sent is a copy
    return len(answers), sum(zlib.crc32(answer.result()) == check for check, answer in answers)


def traffic(seed: int, over: threading.Event) -> list[tuple[int, int]]:
    rng = random.Random(seed)
    counts = []
    while not over.is_set():
        with finish():
            answers = []
            for place in places():
                try:
                    answers.append(async_at(place, spread, rng.randrange(2**32), 4))
                except apgas.PlaceGoneError:
                    continue  # left meanwhile
        counts += [answer.result() for answer in answers]
    return counts


def resize(rng: random.Random, cycles: int) -> None:
    """Give one order after another; each begins when the one before it has ended."""
    for cycle in range(cycles):
        now = len(places())
        grow = now == 1 or (now < MOST_PLACES and rng.random() < 0.5)
        count = rng.randint(1, min(2, MOST_PLACES - now if grow else now - 1))
        apgas.schedule_orders(f"0:{'+' if grow else '-'}{count}")
        while len(apgas.resizes()) <= cycle:
            threading.Event().wait(0.005)


def main() -> None:
    seed, cycles = int(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(seed)
    over = threading.Event()
    apgas.define_malleable_handler(Handler(rng))
    with finish():
        counts = apgas.async_(traffic, seed, over)
        try:
            resize(rng, cycles)
        finally:
            over.set()
    records = apgas.resizes()
    print(
        json.dumps(
            {
                "sent": sum(sent for sent, _ in counts.result()),
                "came_back": sum(came_back for _, came_back in counts.result()),
                "outcomes": [f"{record.kind} {record.n}: {record.outcome} {record.reason}" for record in records],
                "seconds": [round(record.seconds, 3) for record in records],
                "open_files": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - names only
                "here": here().id,
                "places": len(places()),
            }
        )
    )


if __name__ == "__main__":
    apgas.run(main)
