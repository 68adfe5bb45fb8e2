"""Carries out the resizes that its arguments name, one after another, and prints after each which places there are.

An argument is `+host3,host4` (grow there) or `-1,2` (release these places). A line of JSON follows each, and one comes
at the start: the outcome; of each place its host and the address that it announced; how many pairs of places talked.
With `wait` at the end it stays until it is ended.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence

import apgas
from apgas.runtime import driver
from apgas.testing.handlers import ReleaseNewest


class Roamer(ReleaseNewest):
    """Releases the places that the step names."""

    leavers: Sequence[int] = ()

    def preShrink(self, nb_places: int) -> list[apgas.Place]:
        return [place for place in apgas.places() if place.id in self.leavers]


def host_name() -> str:
    return os.uname().nodename


def visit_everyone() -> int:
    """An activity that asks every place for its host."""
    return sum(bool(apgas.at(place, host_name)) for place in apgas.places())


def report(outcome: str, reason: str = "") -> None:
    running = driver.current_driver()
    assert running is not None
    members = running.core.membership.members
    places = {place.id: [apgas.at(place, host_name), members[place.id].host] for place in apgas.places()}
    pairs = sum(apgas.at(place, visit_everyone) for place in apgas.places())
    print(json.dumps({"outcome": outcome, "reason": reason, "places": places, "pairs": pairs}), flush=True)


def main() -> None:
    handler = Roamer()
    apgas.define_malleable_handler(handler)
    report("start")
    for done, step in enumerate(word for word in sys.argv[1:] if word != "wait"):
        names = step[1:].split(",")
        if step.startswith("-"):
            handler.leavers = [int(name) for name in names]
            apgas.schedule_orders(f"0:-{len(names)}")
        else:
            apgas.schedule_orders(f"0:+{len(names)}", hosts=names)
        ended = threading.Event()
        while len(apgas.resizes()) <= done:
            ended.wait(0.01)
        record = apgas.resizes()[-1]
        report(record.outcome, record.reason)
    if sys.argv[-1] == "wait":
        print("waiting", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    apgas.run(main)
