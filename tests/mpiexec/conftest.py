"""What the tests with real MPI jobs share."""

from __future__ import annotations

import pytest
from support.mpi import MPICH, OPEN_MPI, Mpi, need_openmpi


@pytest.fixture(params=[MPICH, OPEN_MPI], ids=lambda mpi: str(mpi.name))
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Runs the test under both MPIs."""
    chosen: Mpi = request.param
    if chosen is OPEN_MPI:
        need_openmpi()
    return chosen
