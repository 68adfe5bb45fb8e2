"""Waits until so many orders of the scheduler have ended; then shows that the job still works. Argument: how many."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

import apgas
from apgas import at, here, places


class Handler(apgas.MalleableHandler):
    """Releases the highest ids."""

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:  # noqa: N802 - the published names
        return places()[-nb_places:]

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:  # noqa: N802
        pass

    def preGrow(self, nb_places: int) -> None:  # noqa: N802
        pass

    def postGrow(  # noqa: N802
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        pass


def main() -> None:
    wanted = int(sys.argv[1])
    apgas.define_malleable_handler(Handler())
    until = time.monotonic() + 80
    while len(apgas.resizes()) < wanted and time.monotonic() < until:
        time.sleep(0.01)
    apgas.disable_malleable_handler()
    members = [at(place, here).id for place in places()]
    outcomes = [(record.order, record.outcome) for record in apgas.resizes()]
    print(json.dumps({"members": members, "outcomes": outcomes}), flush=True)


if __name__ == "__main__":
    apgas.run(main)
