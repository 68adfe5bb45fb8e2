"""Ends while a method of its handler waits for a step that will never come; prints "fine"."""

from __future__ import annotations

import sys
import threading

import apgas
from apgas.testing.handlers import ReleaseNewest

WAITS_IN = sys.argv[1]
called, never = threading.Event(), threading.Event()


class Waits(ReleaseNewest):
    """Waits forever in one of its methods."""

    def preGrow(self, nb_places: int) -> None:
        self._wait("preGrow")

    def postGrow(self, *_: object) -> None:
        self._wait("postGrow")

    def _wait(self, method: str) -> None:
        if method == WAITS_IN:
            called.set()
            never.wait()


def main() -> None:
    patient = apgas.Deadlines(pre_s=3600, post_s=3600)
    apgas.define_malleable_handler(Waits(), deadlines=patient)
    apgas.schedule_orders("0:+1,0:+1,3600:-1")
    called.wait()
    print("fine")


if __name__ == "__main__":
    apgas.run(main)
