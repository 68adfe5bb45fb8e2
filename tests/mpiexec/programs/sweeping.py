"""A small sweep on places: `sweeping.py FILE ORDERS`; prints what became of the orders, and how many places there were.

The first order is given with the first row, the others with the first row after it was carried out: that of the last
simulation but one at the latest, which takes so long. The last one takes until all have been carried out. Without
orders both take until the program is killed.
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
PATIENCE_S = 600.0
BEGUN, OVER = Path(f"{sys.argv[1]}.begun"), Path(f"{sys.argv[1]}.over")
AWAITED = {CELLS[-2]: BEGUN, CELLS[-1]: OVER}


class Counting(apgas.MalleableHandler):
    """Makes files when the first order has been carried out, and when all have."""

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
        BEGUN.touch()
        if not self.left:
            OVER.touch()


def last_wait(cell: Cell) -> Figures:
    until = time.monotonic() + PATIENCE_S
    while cell in AWAITED and not AWAITED[cell].exists() and time.monotonic() < until:
        time.sleep(0.005)
    return simulated(cell, JOBS)


def main(file: str, orders: str) -> None:
    counts: set[int] = set()
    first, _, rest = orders.partition(",")
    due = [order for order in (first, rest) if order]

    def reporter(standing: Standing) -> None:
        if standing.left_s is None:
            return
        new = standing.places not in counts
        counts.add(standing.places)
        if due and new:
            apgas.schedule_orders(due.pop(0))

    print(f"pid {os.getpid()}", flush=True)
    glb.set_user_handler(Counting(orders.count(":")))
    sweep(CELLS, last_wait, COLUMNS, file=Path(file), reporter=reporter)
    apgas.disable_malleable_handler()
    resizes = [(record.kind, record.n, record.outcome, record.reason) for record in apgas.resizes()]
    print(json.dumps({"resizes": resizes, "counts": sorted(counts), "places": len(apgas.places())}))


if __name__ == "__main__":
    apgas.run(main, *sys.argv[1:3])
