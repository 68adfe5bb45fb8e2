"""A small sweep on places: `sweeping.py FILE ORDERS`; prints what became of the orders, and how many places there were.

Its last simulation takes until the orders have been carried out; without orders, until it is killed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import apgas
import glb
from scheduler_bridge.experiments.penalty.cells import COLUMNS, cells, simulated
from scheduler_bridge.experiments.sweep import Cell, Figures, Standing, sweep

JOBS = 60
CELLS = cells(range(1, 9))
PATIENCE_S = 40
OVER = Path(f"{sys.argv[1]}.over")


class Counting(apgas.MalleableHandler):
    """Makes a file known when so many orders have been carried out."""

    def __init__(self, orders: int) -> None:
        self.left = orders

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        return []

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:
        self.resized()

    def preGrow(self, nb_places: int) -> None:
        """Nothing to do."""

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        self.resized()

    def resized(self) -> None:
        self.left -= 1
        if not self.left:
            OVER.touch()


def last_waits(cell: Cell) -> Figures:
    until = time.monotonic() + PATIENCE_S
    while cell == CELLS[-1] and not OVER.exists() and time.monotonic() < until:
        time.sleep(0.005)
    return simulated(cell, JOBS)


def main(file: str, orders: str) -> None:
    counts: set[int] = set()

    def tell(standing: Standing) -> None:
        if standing.cell is None:
            return
        if not counts and orders:
            apgas.schedule_orders(orders)
        counts.add(standing.places)

    print(f"pid {os.getpid()}", flush=True)
    glb.set_user_handler(Counting(orders.count(":")))
    sweep(CELLS, last_waits, COLUMNS, file=Path(file), told=tell)
    apgas.disable_malleable_handler()
    resizes = [(record.kind, record.n, record.outcome, record.reason) for record in apgas.resizes()]
    print(json.dumps({"resizes": resizes, "counts": sorted(counts), "places": len(apgas.places())}))


if __name__ == "__main__":
    apgas.run(main, *sys.argv[1:3])
