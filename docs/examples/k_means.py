"""Groups points that are spread over places that come and go. `mpiexec -n 2 python k_means.py`."""

import sys

import numpy as np

import apgas
from apgas import arrays

POINTS, DIMENSIONS, GROUPS, STEPS = 20_000, 8, 12, 30


def coordinate(i, j):
    """Scattered numbers of 0 to 1 that depend on the indices alone, around another centre for each of the groups."""
    return (i * 7919 + j * 104_729 + i * i % 1009 * 31) % 10_007 / 10_007 + (i % GROUPS * (j + 3)) % GROUPS / 3


def assign(points: arrays.Block, centres):
    """Find the nearest centre of each point: sums and numbers of points, and squares of distances, by centre."""
    distances = np.stack([np.sum((points.local - centre) ** 2, axis=1) for centre in centres])
    nearest = np.argmin(distances, axis=0)
    counts = np.bincount(nearest, minlength=GROUPS)
    sums = [np.bincount(nearest, weights=column, minlength=GROUPS) for column in points.local.T]
    return np.stack(sums, axis=1), counts, distances.min(axis=0).sum()


def main(orders: str = "0:+2,0.1:-1") -> None:
    points = arrays.from_function(coordinate, (POINTS, DIMENSIONS)).freeze()
    centres = coordinate(np.arange(GROUPS)[:, np.newaxis], np.arange(DIMENSIONS)[np.newaxis])
    for step in arrays.steps(STEPS):
        if step == 1 and orders:
            apgas.schedule_orders(orders)  # a batch scheduler would send these
        sums, counts, squares = arrays.reduce_blocks(assign, points, centres)
        centres = sums / np.maximum(counts, 1)[:, np.newaxis]
    print(f"{squares:.6f} {np.linalg.norm(centres):.10f} {sorted(counts.tolist())}")


if __name__ == "__main__":
    apgas.run(main, *sys.argv[1:])
