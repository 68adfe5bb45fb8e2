"""Ends while a method of its handler, or that of arrays, waits for a step that will never come; prints "fine"."""

from __future__ import annotations

import sys
import threading
import time

import apgas
from apgas import arrays
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


def main_with_arrays() -> None:
    numbers = arrays.zeros(50)
    constant = arrays.zeros((50, 4)).freeze()
    before = len(apgas.places())
    for step in arrays.steps():
        if step == 1:
            apgas.schedule_orders("0:+2,0:-2")
        arrays.update_blocks(increase, numbers, constant)
        if len(apgas.places()) > before:
            break
    print("fine")


def increase(block: arrays.Block, _: arrays.Block) -> None:
    time.sleep(0.01)
    block.local += 1


if __name__ == "__main__":
    apgas.run(main_with_arrays if WAITS_IN == "arrays" else main)
