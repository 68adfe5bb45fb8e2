"""What is known of each MPI, and how it is read from what it says about itself."""

from __future__ import annotations

import pytest

from apgas.runtime import environment


@pytest.mark.parametrize(
    ("said", "mpi"),
    [
        ("MPICH Version:      5.0.2\nMPICH Release date: …", environment.MPICH),
        ("HYDRA build details:\n    Version:                                 5.0.2", environment.MPICH),
        ("Open MPI v5.0.11, package: …", environment.OPEN_MPI),
        ("mpiexec (Open MPI) 5.0.11", environment.OPEN_MPI),
        ("mpirun (Open MPI) 4.1.8", environment.OPEN_MPI),
        ("Intel(R) MPI Library 2021.17 for Linux* OS", environment.INTEL_MPI),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.17 Build 20250826 (made of MPICH)", environment.INTEL_MPI),
        ("MVAPICH Version 4.0", None),
        ("", None),
    ],
)
def test_an_mpi_is_known_by_what_it_says(said: str, mpi: environment.Mpi | None) -> None:
    assert environment.named_in(said) is mpi


@pytest.mark.parametrize(
    ("mpi", "words"),
    [
        (environment.MPICH, "rigid and malleable jobs, growing on any host by name"),
        (environment.OPEN_MPI, "rigid and malleable jobs, growing on the host of place 0"),
        (environment.INTEL_MPI, "rigid jobs only"),
    ],
)
def test_abilities_are_said_in_a_line(mpi: environment.Mpi, words: str) -> None:
    assert mpi.abilities().startswith(words)
    assert f"data plane {' or '.join(mpi.planes)}" in mpi.abilities()
