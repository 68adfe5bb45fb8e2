"""Helpers of the tests: running real MPI jobs, and finding what they left behind."""

from apgas.testing.leftovers import Leftovers
from support.mpi import ROOT, Completed, Mpi, Running, mpirun, python_run, start_job

__all__ = ["ROOT", "Completed", "Leftovers", "Mpi", "Running", "mpirun", "python_run", "start_job"]
