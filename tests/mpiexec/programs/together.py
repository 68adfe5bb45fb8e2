"""Collectives over the places of one moment, while places come and go; prints "fine" if all of it held."""

from __future__ import annotations

import itertools
import operator
import threading
import time

import apgas
from apgas import at, broadcast, finish, gather, here, places, reduce
from apgas.testing.handlers import ReleaseNewest

PATIENCE_S = 600.0


def check(condition: object, what: object) -> None:
    if not condition:
        raise AssertionError(what)


def word(text: str) -> str:
    return f"{text}{here().id}"


def fail_elsewhere(home: apgas.Place) -> int:
    if here() != home:
        raise ValueError(f"at {here()}")
    return 1


def read(handle: apgas.PlaceLocal[list[int]]) -> tuple[int, int]:
    return here().id, sum(handle.get())


def size(data: bytes) -> int:
    return len(data)


class Unpicklable:
    def __reduce__(self) -> str:
        raise RuntimeError("stays here")


def it_works_at_rest() -> None:
    ids = [place.id for place in places()]
    found = gather(word, "w")
    check(list(found) == places() and list(found.values()) == [f"w{i}" for i in ids], found)
    check(reduce(operator.add, word, text="w") == "".join(f"w{i}" for i in ids), "the order of a reduction")
    check(set(gather(size, bytes(1_000_000)).values()) == {1_000_000}, "a large argument")
    value = [1, 2, 3]
    handle = broadcast(value)
    check(handle.get() is value, "a copy at home")
    check(gather(read, handle) == {place: (place.id, 6) for place in places()}, "the copies")
    with finish():
        at(places()[-1], from_elsewhere, [4, 5])


def from_elsewhere(value: list[int]) -> None:
    check(gather(read, broadcast(value)) == {place: (place.id, 9) for place in places()}, "copies from elsewhere")


def errors_are_raised() -> None:
    others = len(places()) - 1
    try:
        gather(fail_elsewhere, here())
    except ExceptionGroup as group:
        check([type(error) for error in group.exceptions] == [ValueError] * others, group.exceptions)
    else:
        check(others == 0, "errors are lost")
    try:
        check(gather(type, Unpicklable()) and not others, "something was sent")
    except TypeError as error:
        check("stays here" in str(error), error)
    returned = False
    with finish() as scope:
        scope.cancel()
        gather(here)
        returned = True
    check(scope.cancelled and not returned, "it outlived the cancellation")


def they_hold_while_places_come_and_go() -> None:
    handle = broadcast([7])
    apgas.define_malleable_handler(ReleaseNewest())
    apgas.schedule_orders("0:+2,0.1:-1,0.2:+1,0.3:-2")
    over = threading.Event()
    with finish():
        for number in range(3):
            apgas.async_(keep_gathering, handle, number, over)
        until = time.monotonic() + PATIENCE_S
        while len(apgas.resizes()) < 4:
            check(time.monotonic() < until, apgas.resizes())
            time.sleep(0.005)
        over.set()
    apgas.disable_malleable_handler()
    check([record.outcome for record in apgas.resizes()] == ["done"] * 4, apgas.resizes())


def keep_gathering(handle: apgas.PlaceLocal[list[int]], number: int, over: threading.Event) -> None:
    for turn in itertools.count(number):
        found = gather(read, handle)
        check(all(found[place] == (place.id, 7) for place in found) and here() in found, (turn, found))
        if over.is_set():
            return


def main() -> None:
    it_works_at_rest()
    errors_are_raised()
    they_hold_while_places_come_and_go()
    print("fine", flush=True)


if __name__ == "__main__":
    apgas.run(main)
