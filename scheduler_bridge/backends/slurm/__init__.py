"""Slurm: a malleable program, or the whole embedded scheduler, inside an allocation.

``Session`` runs one program and resizes it together with its allocation; ``inside`` lets the scheduler drive one.
``Allocation`` takes nodes from Slurm and gives them back: by companion jobs, each of which lends one node while its
``lease`` holds, or by the expansion of the job where the site permits it. ``Harvester`` has either scheduler use nodes
that Slurm takes back. ``Slurm`` calls the commands, with deadlines;
``reading`` and ``holdings`` are pure. ``Reach`` lets launchers start processes on nodes through ``srun``.
"""

from scheduler_bridge.backends.slurm.allocation import Allocation, GrowBy, read_loans
from scheduler_bridge.backends.slurm.backend import SlurmBackend, allocated_nodes, inside, this_job
from scheduler_bridge.backends.slurm.driver import Reach, Slurm
from scheduler_bridge.backends.slurm.harvest import Harvest, Loan
from scheduler_bridge.backends.slurm.holdings import Limits
from scheduler_bridge.backends.slurm.reading import JobInfo, ReadingError, SlurmError
from scheduler_bridge.backends.slurm.session import Session, SessionConfig

__all__ = [
    "Allocation",
    "GrowBy",
    "Harvest",
    "JobInfo",
    "Limits",
    "Loan",
    "Reach",
    "ReadingError",
    "Session",
    "SessionConfig",
    "Slurm",
    "SlurmBackend",
    "SlurmError",
    "allocated_nodes",
    "inside",
    "read_loans",
    "this_job",
]
