"""Ends while a newcomer that never reports is waited for. Arguments: well or badly, whether the newcomer enters MPI."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import apgas
from apgas.runtime import spawning
from apgas.testing.handlers import ReleaseNewest

ENTER = (
    "import sys; sys.path.insert(0, {path!r}); from apgas.runtime import environment; "
    "environment.load(); environment.unlink_leftovers(); "
)
spawning._NEWCOMER = (ENTER if sys.argv[2] == "inside" else "") + "import time; time.sleep(1000)"


class Handler(ReleaseNewest):
    """Only grows."""

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        return []


def main() -> None:
    apgas.define_malleable_handler(Handler(), deadlines=apgas.Deadlines(spawn_s=1.0))
    apgas.schedule_orders("0:+1")
    until = time.monotonic() + 600
    while not apgas.resizes() and time.monotonic() < until:
        time.sleep(0.01)
    print(apgas.resizes()[0].outcome, [apgas.at(place, apgas.here).id for place in apgas.places()], flush=True)
    if sys.argv[1] == "badly":
        raise RuntimeError("on purpose")


if __name__ == "__main__":
    apgas.run(main)
    print("result", flush=True)
