"""Says where its places are, and that they have summed up something over MPI."""

from __future__ import annotations

import os

import apgas


def main() -> None:
    from mpi4py import MPI

    print("hello from", *sorted(apgas.gather(lambda: os.uname().nodename).values()), flush=True)
    print("world of", MPI.COMM_WORLD.size, flush=True)


if __name__ == "__main__":
    apgas.run(main)
