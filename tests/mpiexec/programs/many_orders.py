"""Waits until some orders of the scheduler have ended; then shows that the job still works. Argument: how many."""

from __future__ import annotations

import json
import sys
import time

import apgas
from apgas import at, here, places
from apgas.testing.handlers import ReleaseNewest


def main() -> None:
    wanted = int(sys.argv[1])
    apgas.define_malleable_handler(ReleaseNewest())
    until = time.monotonic() + 600
    while len(apgas.resizes()) < wanted and time.monotonic() < until:
        time.sleep(0.01)
    apgas.disable_malleable_handler()
    members = [at(place, here).id for place in places()]
    outcomes = [(record.order, record.outcome) for record in apgas.resizes()]
    print(json.dumps({"members": members, "outcomes": outcomes}), flush=True)


if __name__ == "__main__":
    apgas.run(main)
