"""Grows by one place, prints the process id of every place, and computes until it is ended."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence

import apgas
from apgas.testing.handlers import ReleaseNewest


class Grown(ReleaseNewest):
    """Notices when the newcomer is there."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        self.event.set()


def wait_for_ever() -> None:
    """An activity that does not end."""
    threading.Event().wait()


def hold_on() -> int:
    """An activity that does not even let other threads run."""
    return sum(range(10**11))


def fail() -> None:
    """An activity that raises."""
    raise LookupError("elsewhere, on purpose")


def quit_well() -> None:
    """An activity that takes its place along, with a code that says that all is well."""
    os._exit(0)


def main() -> None:
    """Runs on place 0."""
    handler = Grown()
    apgas.define_malleable_handler(handler)
    apgas.schedule_orders("0:+1", hosts=[])
    handler.event.wait()
    pids = [apgas.at(place, os.getpid) for place in apgas.places()]
    print("pids", *pids, flush=True)
    for place in apgas.places():
        apgas.async_at(place, wait_for_ever)
    if "busy" in sys.argv:
        apgas.async_at(apgas.places()[-1], hold_on)
        time.sleep(0.2)
    if "quit" in sys.argv:
        apgas.async_at(apgas.places()[int(sys.argv[-1])], quit_well)
        wait_for_ever()
    if "raise" in sys.argv:
        raise RuntimeError("on purpose")
    if "exit" in sys.argv:
        sys.exit(3)
    if "fail" in sys.argv:
        with apgas.finish():
            apgas.async_at(apgas.places()[-1], fail)


if __name__ == "__main__":
    apgas.run(main)
