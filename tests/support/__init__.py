"""Helpers of the tests: running real MPI jobs, and finding what they left behind."""

from support.leftovers import Leftovers
from support.mpi import PATIENCE_S, ROOT, SOON_S, Completed, Mpi, Running, mpirun, python_run, start_job

__all__ = [
    "PATIENCE_S",
    "ROOT",
    "SOON_S",
    "Completed",
    "Leftovers",
    "Mpi",
    "Running",
    "mpirun",
    "python_run",
    "start_job",
]
