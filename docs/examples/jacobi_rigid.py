"""The same heat on ranks that stay, with mpi4py alone. `mpiexec -n 2 python jacobi_rigid.py`."""

import hashlib

import numpy as np
from mpi4py import MPI

HEIGHT, WIDTH, STEPS = 600, 800, 200


def relax(new, old):
    """One Jacobi step: every inner cell becomes the mean of its four neighbours."""
    new[1:-1, 1:-1] = (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]) / 4


def main() -> None:
    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    upper = rank - 1 if rank > 0 else MPI.PROC_NULL
    lower = rank + 1 if rank < size - 1 else MPI.PROC_NULL
    rows = HEIGHT * (rank + 1) // size - HEIGHT * rank // size
    old, new = np.zeros((rows + 2, WIDTH)), np.zeros((rows + 2, WIDTH))
    if rank == 0:
        old[0] = new[0] = 1.0
    for _ in range(STEPS):
        comm.Sendrecv(old[1], upper, recvbuf=old[-1], source=lower)
        comm.Sendrecv(old[-2], lower, recvbuf=old[0], source=upper)
        relax(new, old)
        old, new = new, old
    plate = comm.gather(old[1:-1])
    if plate is not None:
        print(hashlib.sha256(np.vstack(plate).tobytes()).hexdigest()[:16])


if __name__ == "__main__":
    main()
