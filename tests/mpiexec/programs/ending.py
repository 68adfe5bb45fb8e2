"""Ends in the way that its argument names, with activities running everywhere and one place grown."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence

import apgas
from apgas import async_at, at, places


class Handler(apgas.MalleableHandler):
    """Tells when a newcomer is there."""

    def __init__(self, grown: threading.Event) -> None:
        self.grown = grown

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:  # noqa: N802
        return []

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:  # noqa: N802
        pass

    def preGrow(self, nb_places: int) -> None:  # noqa: N802
        pass

    def postGrow(  # noqa: N802
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        self.grown.set()


def wait_for_ever() -> None:
    threading.Event().wait()


def main() -> int:
    how = sys.argv[1]
    grown = threading.Event()
    apgas.define_malleable_handler(Handler(grown))
    apgas.schedule_orders("0:+1")
    grown.wait(30)
    pids = [at(place, os.getpid) for place in places()]
    for place in places():
        async_at(place, wait_for_ever)
    print("ready", *pids, flush=True)
    if how == "error":
        raise RuntimeError("main failed on purpose")
    if how == "exit":
        raise SystemExit(3)
    if how == "kill-newcomer":
        os.kill(pids[-1], signal.SIGKILL)
    if how == "kill-first-world":
        os.kill(pids[1], signal.SIGKILL)
    if how == "kill-place-0":
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()
    return 0


if __name__ == "__main__":
    apgas.run(main)
