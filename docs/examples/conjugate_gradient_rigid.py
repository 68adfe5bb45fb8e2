"""The same system on ranks that stay, with mpi4py alone. `mpiexec -n 2 python conjugate_gradient_rigid.py`."""

import numpy as np
from mpi4py import MPI
from numpy.lib.stride_tricks import sliding_window_view

SIDE, STEPS = 24, 60
ROWS, REACH = SIDE**3, SIDE**2 + SIDE + 1
"""Points of the grid, a row of the matrix each; how far apart coupled ones are."""


def entry(row, k):
    """The k-th of 27 entries in a row; those that would lie outside of the grid are 0."""
    at = [row // SIDE**2 + k // 9 - 1, row // SIDE % SIDE + k // 3 % 3 - 1, row % SIDE + k % 3 - 1]
    inside = np.logical_and.reduce([(x >= 0) & (x < SIDE) for x in at])
    return np.where(k == 13, 26.0, np.where(inside, -1.0, 0.0))


def neighbours(padded):
    """For each row what the vector is at the 27 points that are coupled; it is padded by REACH at both ends."""
    k = np.arange(27)
    apart = ((k // 9 - 1) * SIDE + k // 3 % 3 - 1) * SIDE + k % 3 - 1
    return sliding_window_view(padded, 2 * REACH + 1)[:, REACH + apart]


def main() -> None:
    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    upper = rank - 1 if rank > 0 else MPI.PROC_NULL
    lower = rank + 1 if rank < size - 1 else MPI.PROC_NULL
    first, end = ROWS * rank // size, ROWS * (rank + 1) // size
    values = entry(np.arange(first, end)[:, np.newaxis], np.arange(27)[np.newaxis])
    padded = np.zeros(end - first + 2 * REACH)  # a rank has REACH rows or more
    p = padded[REACH:-REACH]
    p[:] = np.sin(0.001 * np.arange(first, end))
    r, x = p.copy(), np.zeros(end - first)
    rr = comm.allreduce(r @ r)
    for _ in range(STEPS):
        comm.Sendrecv(p[:REACH], upper, recvbuf=padded[-REACH:], source=lower)
        comm.Sendrecv(p[-REACH:], lower, recvbuf=padded[:REACH], source=upper)
        ap = np.sum(values * neighbours(padded), axis=1)
        alpha = rr / comm.allreduce(p @ ap)
        x += alpha * p
        r -= alpha * ap
        rr, before = comm.allreduce(r @ r), rr
        p[:] = r + rr / before * p
    norm, largest = comm.allreduce(x @ x) ** 0.5, comm.allreduce(x.max(), MPI.MAX)
    if rank == 0:
        print(f"{norm:.10f} {largest:.10f} {rr < 1e-12}")


if __name__ == "__main__":
    main()
