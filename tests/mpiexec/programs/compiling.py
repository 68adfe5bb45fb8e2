"""Computes with a compiled kernel while a place joins, and prints which places compiled it."""

from __future__ import annotations

import json
import sys
from functools import partial

import apgas
import glb


def load_kernel(orders: str) -> None:
    """Warm up as the benchmarks do; on place 0, which is warm by then, the clock of the orders starts."""
    from benchmarks.uts.problems import warm_up  # imports the kernel: not before the place has joined

    warm_up()
    if apgas.here().id == 0:
        apgas.schedule_orders(orders)


def compiled() -> tuple[bool, int]:
    """Return whether this place has loaded the compiler, and how many versions of the kernel it has compiled."""
    loaded = "numba" in sys.modules
    from benchmarks.uts import vector

    return loaded, sum(vector.expand.stats.cache_misses.values())


def main(depth: str, rate: str, orders: str) -> None:
    from benchmarks.levelbag import Count
    from benchmarks.uts.problems import bag_of
    from benchmarks.uts.tree import Tree

    tree = Tree(int(depth))
    config = glb.Config(workers=1, rate=float(rate), warm_up=partial(load_kernel, orders))
    outcome = glb.compute(bag_of(tree), Count, config)
    document = {
        "right": outcome.result.value == tree.known_nodes(),
        "tasks": {place: own.tasks for place, own in outcome.places.items()},
        "compiled": [apgas.at(place, compiled) for place in apgas.places()],
        "resizes": [(record.kind, record.outcome, record.phases) for record in apgas.resizes()],
    }
    sys.stdout.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    apgas.run(main, *sys.argv[1:])
