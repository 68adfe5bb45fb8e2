"""Imports MPI before the runtime could prepare it, and gets an error that says so when it is to grow."""

from __future__ import annotations

import time

from mpi4py import MPI

import apgas
from apgas.testing.handlers import ReleaseNewest


class Handler(ReleaseNewest):
    """Does nothing."""

    def preShrink(self, nb_places: int) -> list[apgas.Place]:
        return []


def main() -> None:
    apgas.define_malleable_handler(Handler())
    apgas.schedule_orders("0:+1", hosts=[])
    until = time.monotonic() + 600
    while not apgas.resizes() and time.monotonic() < until:
        time.sleep(0.01)
    (record,) = apgas.resizes()
    print(len(apgas.places()), MPI.COMM_WORLD.size, record.outcome, record.reason)


if __name__ == "__main__":
    apgas.run(main)
