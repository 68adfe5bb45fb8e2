"""Fits a plane by gradient descent with an MPI Allreduce per step, on places that come and go.

APGAS_TRANSPORT=mpi mpiexec -n 2 python regression.py
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import apgas
from apgas import Place, gather, here, places

Vector = NDArray[np.float64]
ROWS, STEPS, RATE = 60_000, 300, 0.1
TRUTH = np.array([3.0, -2.0, 0.5])


def share(rank: int, size: int) -> tuple[NDArray[np.float64], Vector]:
    """The rows of this rank: others when there are more or fewer of us."""
    rows = np.arange(rank, ROWS, size)
    x = np.stack([np.ones(len(rows)), np.sin(rows), np.cos(2 * rows)], axis=1)
    return x, x @ TRUTH


def step(weights: Vector) -> Vector:
    """One step of every place at once: the gradient of our rows, added to that of the others."""
    comm = apgas.comm()  # of the places that this step runs on
    x, y = share(comm.rank, comm.size)
    mine = x.T @ (x @ weights - y)
    total = np.empty_like(mine)
    comm.Allreduce(mine, total)
    return weights - RATE * total / ROWS


class Handler(apgas.MalleableHandler):
    """Nothing has to be moved: every step takes the places that there are."""

    def preShrink(self, nb_places: int) -> Sequence[Place]:
        return places()[-nb_places:]

    def postShrink(self, nb_places: int, removed_places: Sequence[Place]) -> None:
        print(f"without {[place.id for place in removed_places]}", flush=True)

    def preGrow(self, nb_places: int) -> None:
        pass

    def postGrow(self, nb_places: int, continued_places: Sequence[Place], new_places: Sequence[Place]) -> None:
        print(f"with {[place.id for place in new_places]}", flush=True)


def main() -> None:
    apgas.define_malleable_handler(Handler())
    apgas.schedule_orders("0.1:+2,0.5:-1")  # a batch scheduler would send these
    weights = np.zeros(3)
    steps = 0
    while steps < STEPS or len(apgas.resizes()) < 2:
        weights = gather(step, weights)[here()]
        steps += 1
    apgas.disable_malleable_handler()
    print(f"{len(places())} places found {np.round(weights, 6)}", flush=True)


if __name__ == "__main__":
    apgas.run(main)
