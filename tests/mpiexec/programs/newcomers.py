"""What newcomers know of the main program; prints "fine" if that is enough."""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import time

import apgas
from apgas import at, places
from apgas.testing.handlers import ReleaseNewest


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass(frozen=True)
class Painted:
    number: int
    colour: Colour


@functools.lru_cache
def cached(number: int) -> int:
    return repaint(Painted(number, Colour.BLUE)).number


def repaint(what: Painted) -> Painted:
    return Painted(what.number + 1, Colour.RED if what.colour is Colour.BLUE else Colour.BLUE)


def give_cached() -> object:
    return cached


def arguments() -> list[str]:
    return sys.argv[1:]


def check(condition: object, what: object) -> None:
    if not condition:
        raise AssertionError(what)


def grow(orders: int) -> None:
    apgas.schedule_orders("0:+1")
    until = time.monotonic() + 600
    while len(apgas.resizes()) < orders and time.monotonic() < until:
        time.sleep(0.005)


def main() -> None:
    apgas.define_malleable_handler(ReleaseNewest())
    grow(1)
    check(len(places()) == 3, apgas.resizes())
    for place in places():
        check(at(place, repaint, Painted(1, Colour.RED)) == Painted(2, Colour.BLUE), f"classes at {place}")
        check(at(place, cached, 4) == 5, f"a function by name at {place}")
        check(at(place, arguments) == ["once", "-v"], f"arguments at {place}")
        check(at(place, give_cached) is cached, f"a function by name from {place}")


if __name__ == "__main__":
    apgas.run(main)
    print("fine", flush=True)
