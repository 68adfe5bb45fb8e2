"""Under a scheduler: loses a place, with it a node, and goes on until another job has run on that node."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import apgas


class Handler(apgas.MalleableHandler):
    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:  # noqa: N802
        return apgas.places()[-nb_places:]

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None: ...  # noqa: N802
    def preGrow(self, nb_places: int) -> None: ...  # noqa: N802
    def postGrow(  # noqa: N802
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None: ...


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    apgas.define_malleable_handler(Handler())
    victim = apgas.places()[-1]
    try:
        apgas.at(victim, die)
    except apgas.DeadPlaceError as error:
        print("lost", error.node, len(apgas.places()), flush=True)
    while not Path(sys.argv[1]).exists():
        time.sleep(0.02)
    print("fine", flush=True)


if __name__ == "__main__":
    apgas.run(main)
