"""Heat flows as in docs/examples/jacobi.py, and two places are killed in the middle of steps."""

import os
import signal
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


def relax(new: arrays.Block, old: arrays.Block, victim: int) -> None:
    jacobi.relax(new, old)
    if apgas.here().id == victim:
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    alone = np.zeros(SHAPE)
    old, new = arrays.zeros(SHAPE), arrays.zeros(SHAPE)
    for step in arrays.steps(30, redundancy=1):
        arrays.map_blocks(relax, new, old.halo(1, above=1.0), {7: 1, 19: 2}.get(step, -1))
        old, new = new, old
        rows = np.vstack([np.ones((1, SHAPE[1])), alone, np.zeros((1, SHAPE[1]))])
        alone[:, 1:-1] = (rows[:-2, 1:-1] + rows[2:, 1:-1] + rows[1:-1, :-2] + rows[1:-1, 2:]) / 4
    print([place.id for place in apgas.places()], np.array_equal(old.gather(), alone))


if __name__ == "__main__":
    apgas.run(main, resilient=True)
