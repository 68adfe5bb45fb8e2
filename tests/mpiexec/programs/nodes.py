"""Grows and shrinks on nodes of two places; prints what handler and records say, as JSON.

Arguments: ORDERS COUNT HOSTS; goes on until COUNT orders have ended.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

import apgas
from apgas import at, here


class Handler(apgas.MalleableHandler):
    """Releases the last nodes; the first time it cuts one in two."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.cut = False

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        self.calls.append(f"preShrink {nb_places}")
        leavers = [place for node in apgas.nodes()[1:] for place in node][-nb_places:]
        if not self.cut:
            self.cut = True
            return leavers[1:]
        return leavers

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:
        self.calls.append(f"postShrink {[place.id for place in removed_places]}")

    def shrinkAborted(self, places: Sequence[apgas.Place]) -> None:
        self.calls.append(f"shrinkAborted {[place.id for place in places]}")

    def preGrow(self, nb_places: int) -> None:
        self.calls.append(f"preGrow {nb_places}")

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        self.calls.append(f"postGrow {[f'{place.id} {at(place, here).node}' for place in new_places]}")


def main() -> None:
    orders, expected, hosts = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
    calls: list[str] = []
    apgas.define_malleable_handler(Handler(calls))
    apgas.schedule_orders(orders, hosts)
    until = time.monotonic() + 600
    while len(apgas.resizes()) < expected and time.monotonic() < until:
        time.sleep(0.01)
    nodes = [[place.id for place in node] for node in apgas.nodes()]
    records = [
        (record.kind, record.n, record.outcome, record.reason, record.nodes, record.places)
        for record in apgas.resizes()
    ]
    print(json.dumps({"calls": calls, "nodes": nodes, "records": records}), flush=True)


if __name__ == "__main__":
    apgas.run(main)
