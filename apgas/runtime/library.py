"""Loads MPI. With ``lifetime`` and the mpi transport this is where mpi4py is imported; a newcomer loads it first."""

from __future__ import annotations

import functools
from typing import Any

from apgas.runtime import environment, mpis


@functools.cache
def load() -> Any:
    """Return ``mpi4py.MPI``, initialised in an environment that suits us.

    Raises:
        UsageError: The process was started by a foreign mpiexec.
    """
    launch = environment.prepare()
    import mpi4py

    mpi4py.rc.finalize = False
    with environment.tidied(launch):
        from mpi4py import MPI

    environment.check_world(launch, MPI.COMM_WORLD.size, MPI.Get_library_version().split("\n", 1)[0].split(",", 1)[0])
    return MPI


def kind() -> mpis.Mpi:
    """Which MPI is loaded; one that is not known is treated as MPICH, which most are made of."""
    return mpis.named_in(load().Get_library_version()) or mpis.MPICH
