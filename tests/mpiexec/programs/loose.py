"""Activities that no finish counts: they run, fail, spawn, and hold a leaver until they have ended; prints "fine"."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import apgas
from apgas import at, finish, here, immediate, places, uncounted
from apgas.testing.handlers import ReleaseNewest

EACH = 40


class Seen:
    """What came back to place 0."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.enough = threading.Event()


def note(into: apgas.GlobalRef[Seen], number: int) -> None:
    into.get().ran.append(number)
    if number < 0:
        into.get().enough.set()


def work(into: apgas.GlobalRef[Seen], number: int) -> None:
    sum(range(50_000))
    immediate(into.place, note, into, number)


def fail(word: str) -> None:
    raise ValueError(f"no activity waits for {word}")


def spawns_without_a_finish(into: apgas.GlobalRef[Seen]) -> None:
    try:
        at(apgas.place(0), here)
    except apgas.UsageError:
        with finish():
            at(apgas.place(0), here)
        immediate(into.place, note, into, -1)


class Handler(ReleaseNewest):
    """Sends work to the leavers just before they have to go."""

    def __init__(self, into: apgas.GlobalRef[Seen]) -> None:
        self.into = into
        self.at_post = -1

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        leavers = places()[-nb_places:]
        for number in range(EACH):
            for leaver in leavers:
                uncounted(leaver, work, self.into, number)
        return leavers

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:
        self.at_post = len(self.into.get().ran)
        self.into.get().enough.set()


def check(condition: object, what: object) -> None:
    if not condition:
        raise AssertionError(what)


def main() -> None:
    seen = Seen()
    into = apgas.GlobalRef(seen)
    for place in places():
        uncounted(place, fail, f"place {place.id}")
        uncounted(place, spawns_without_a_finish, into)
        check(seen.enough.wait(600), "nothing was spawned from an uncounted activity")
        seen.enough.clear()
    seen.ran.clear()
    handler = Handler(into)
    apgas.define_malleable_handler(handler)
    apgas.schedule_orders("0:-2")
    check(seen.enough.wait(600), "the leavers never left")
    apgas.disable_malleable_handler()
    check([record.outcome for record in apgas.resizes()] == ["done"], apgas.resizes())
    check(handler.at_post == 2 * EACH, f"{handler.at_post} of {2 * EACH} had ended when the leavers were gone")
    try:
        uncounted(apgas.place(2), work, into, 0)
    except apgas.PlaceGoneError:
        print("fine", flush=True)


if __name__ == "__main__":
    apgas.run(main)
