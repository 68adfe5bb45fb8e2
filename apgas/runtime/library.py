"""Loads MPI. With ``lifetime`` and the mpi transport this is where mpi4py is imported; a newcomer loads it first."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from apgas.errors import UsageError
from apgas.runtime import environment, mpis
from apgas.runtime.loading import at_once

_too_early = False


@functools.cache
def load() -> Any:
    """Return ``mpi4py.MPI``, initialised in an environment that suits us.

    Raises:
        UsageError: There is no MPI, or the process was started by a foreign mpiexec.
    """
    global _too_early  # noqa: PLW0603 - MPI is loaded once
    before = sys.modules.get("mpi4py.MPI")
    if before is not None:
        needed = (mpis.named_in(before.Get_library_version()) or mpis.MPICH).variables
        _too_early = not needed.keys() <= os.environ.keys()
    launch = environment.prepare()
    import mpi4py

    mpi4py.rc.finalize = False
    if environment.transport() == "mpi":
        # The fast ones begin, on each communicator, with an MPI_Comm_dup that keeps the interpreter's lock. Others join
        # that only when they have what this process still has to send, and nothing can send it.
        mpi4py.rc.fast_reduce = False
    with environment.tidied(launch), at_once():
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py of PyPI looks for a library by itself
            raise UsageError(
                f"mpi4py finds no MPI library that it can use: {str(error).partition(chr(10))[0]}\n"
                f'install one beside it: {sys.executable} -m pip install "malleable-apgas[mpi]"\n'
                "or name that of this machine: MPI4PY_LIBMPI=/path/to/libmpi.so"
            ) from None

    environment.check_world(launch, MPI.COMM_WORLD.size, MPI.Get_library_version().split("\n", 1)[0].split(",", 1)[0])
    return MPI


def loaded_too_early() -> bool:
    """Whether MPI had been loaded before, without what it needs to be told."""
    return _too_early


def kind() -> mpis.Mpi:
    """Which MPI is loaded; one that is not known is treated as MPICH, which most are made of."""
    return mpis.named_in(load().Get_library_version()) or mpis.MPICH
