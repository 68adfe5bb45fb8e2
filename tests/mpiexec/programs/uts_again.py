"""Counts a tree again and again until that many orders have been carried out, and a file is there if one is named."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import apgas
import glb
from benchmarks.levelbag import Count
from benchmarks.uts.problems import bag_of
from benchmarks.uts.tree import Tree

# at full speed it would take the cores from what orders it to grow and shrink
CONFIG = glb.Config(workers=1, rate=3e7)


def main(orders: int, end: str = "/") -> None:
    tree = Tree(depth=11, seed=19, branching=4)
    counts = set()
    print("up", [apgas.at(place, os.getpid) for place in apgas.places()], flush=True)
    while sum(record.outcome == "done" for record in apgas.resizes()) < orders or not Path(end).exists():
        counts.add(glb.compute(bag_of(tree), Count, CONFIG).result.value)
    done = [(record.kind, record.n) for record in apgas.resizes() if record.outcome == "done"]
    wrong = [*(counts - {tree.known_nodes()})]
    print(f"resizes {done}, wrong counts {wrong}, on {os.uname().nodename}", flush=True)


if __name__ == "__main__":
    apgas.run(main, int(sys.argv[1]), *sys.argv[2:])
