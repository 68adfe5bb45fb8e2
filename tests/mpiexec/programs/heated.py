"""Heat flows over a plate as in docs/examples/jacobi.py, until the places have come and gone: `heated.py ORDERS...`."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import apgas
from apgas import arrays

sys.path.insert(0, str(Path(__file__).parents[3] / "docs" / "examples"))
jacobi: Any = import_module("jacobi")

SHAPE = 40, 30


def main() -> None:
    orders = sys.argv[1]
    alone = np.zeros(SHAPE)
    old, new = arrays.zeros(SHAPE), arrays.zeros(SHAPE)
    held: list[int] = []
    for step in arrays.steps():
        if step == 5:
            apgas.schedule_orders(orders)
        if step >= 50 and len(apgas.resizes()) == len(orders.split(",")):
            break
        arrays.map_blocks(jacobi.relax, new, old.halo(1, above=1.0))
        old, new = new, old
        rows = np.vstack([np.ones((1, SHAPE[1])), alone, np.zeros((1, SHAPE[1]))])
        alone[:, 1:-1] = (rows[:-2, 1:-1] + rows[2:, 1:-1] + rows[1:-1, :-2] + rows[1:-1, 2:]) / 4
        if held[-1:] != [sum(1 for _ in old.layout.blocks())]:
            held.append(sum(1 for _ in old.layout.blocks()))
    print(*held, np.array_equal(old.gather(), alone), *(record.outcome for record in apgas.resizes()))


if __name__ == "__main__":
    apgas.run(main)
