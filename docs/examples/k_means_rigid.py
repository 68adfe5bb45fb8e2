"""The same groups on ranks that stay, with mpi4py alone. `mpiexec -n 2 python k_means_rigid.py`."""

import numpy as np
from mpi4py import MPI

POINTS, DIMENSIONS, GROUPS, STEPS = 20_000, 8, 12, 30


def coordinate(i, j):
    """Scattered numbers of 0 to 1 that depend on the indices alone, around another centre for each of the groups."""
    return (i * 7919 + j * 104_729 + i * i % 1009 * 31) % 10_007 / 10_007 + (i % GROUPS * (j + 3)) % GROUPS / 3


def assign(points, centres):
    """Find the nearest centre of each point: sums and numbers of points, and squares of distances, by centre."""
    distances = np.stack([np.sum((points - centre) ** 2, axis=1) for centre in centres])
    nearest = np.argmin(distances, axis=0)
    counts = np.bincount(nearest, minlength=GROUPS)
    sums = [np.bincount(nearest, weights=column, minlength=GROUPS) for column in points.T]
    return np.stack(sums, axis=1), counts, distances.min(axis=0).sum()


def main() -> None:
    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    rows = np.arange(POINTS * rank // size, POINTS * (rank + 1) // size)
    columns = np.arange(DIMENSIONS)[np.newaxis]
    points = coordinate(rows[:, np.newaxis], columns)
    centres = coordinate(np.arange(GROUPS)[:, np.newaxis], columns)
    for _ in range(STEPS):
        sums, counts, squares = (comm.allreduce(part) for part in assign(points, centres))
        centres = sums / np.maximum(counts, 1)[:, np.newaxis]
    if rank == 0:
        print(f"{squares:.6f} {np.linalg.norm(centres):.10f} {sorted(counts.tolist())}")


if __name__ == "__main__":
    main()
