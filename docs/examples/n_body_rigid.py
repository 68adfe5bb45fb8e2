"""The same bodies on ranks that stay, with mpi4py alone. `mpiexec -n 2 python n_body_rigid.py`."""

import numpy as np
from mpi4py import MPI

BODIES, STEPS, STEP_S, SOFTENING = 600, 40, 0.001, 0.01


def pull(own, every):
    """The acceleration of some bodies by all; each has the mass 1 / BODIES."""
    apart = every[np.newaxis] - own[:, np.newaxis]
    cubed = (np.sum(apart**2, axis=2) + SOFTENING) ** 1.5
    return np.sum(apart / cubed[:, :, np.newaxis], axis=1) / BODIES


def main() -> None:
    comm = MPI.COMM_WORLD
    first, end = BODIES * comm.rank // comm.size, BODIES * (comm.rank + 1) // comm.size
    counts = comm.allgather(3 * (end - first))
    i, j = np.arange(first, end)[:, np.newaxis], np.arange(3)[np.newaxis]
    x = (i * 7919 + j * 104_729 + i * i % 1009 * 31) % 10_007 / 10_007
    v, every = np.zeros_like(x), np.empty((BODIES, 3))
    for _ in range(STEPS):
        comm.Allgatherv(x, (every, counts))
        v += STEP_S * pull(x, every)
        x += STEP_S * v
    squares = comm.allreduce(np.array([np.sum(x**2), np.sum(v**2)]))
    if comm.rank == 0:
        print(f"{squares[0] ** 0.5:.10f} {squares[1] ** 0.5:.10f}")


if __name__ == "__main__":
    main()
