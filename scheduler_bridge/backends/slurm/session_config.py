"""How a session is set up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scheduler_bridge.backends.slurm.allocation import GrowBy
from scheduler_bridge.daemon.requests import JobRequest


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """Settings of a session.

    Attributes:
        job: The number of the Slurm job that we run in.
        request: The program; its bounds are those of resizes.
        state_dir: Folder of the control socket and the history; every session has its own.
        grow_by: How the allocation grows.
        wait_s: How long Slurm may look for each further node.
        resize_deadline_s: How long the program may take to carry an order out.
        withdraw_s: How long to answer when an order is taken back.
        grace_s: Time between TERM and KILL when it is ended.
        mpiexec: The launcher; None: the one beside the running Python.
    """

    job: int
    request: JobRequest
    state_dir: Path
    grow_by: GrowBy = "companion"
    wait_s: float = 10.0
    resize_deadline_s: float = 60.0
    withdraw_s: float = 5.0
    grace_s: float = 1.0
    mpiexec: Path | None = None
