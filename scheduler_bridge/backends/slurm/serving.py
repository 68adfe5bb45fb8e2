"""The embedded scheduler inside an allocation: its nodes are the scheduler's, and jobs reach them through srun."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from scheduler_bridge.backends.slurm.allocation import Allocation
from scheduler_bridge.backends.slurm.driver import Slurm, SlurmError
from scheduler_bridge.backends.slurm.reach import Reach
from scheduler_bridge.backends.standin import address
from scheduler_bridge.live import DaemonConfig

ENV_JOB: Final = "SLURM_JOB_ID"


def this_job(environ: Mapping[str, str] | None = None) -> int:
    """Return the number of the Slurm job that this process runs in.

    Raises:
        SlurmError: It runs in none.
    """
    text = (os.environ if environ is None else environ).get(ENV_JOB, "")
    if not text.isdecimal():
        raise SlurmError(f"this is no allocation of Slurm: {ENV_JOB} is not set", "call it in a script for sbatch")
    return int(text)


def allocated_nodes() -> tuple[str, ...]:
    """Return the nodes of the allocation that this process runs in, the one of the batch script first.

    Raises:
        SlurmError: It runs in none, or Slurm does not answer.
    """
    return Allocation(Slurm(), this_job()).holdings.nodes


@contextmanager
def inside(config: DaemonConfig) -> Iterator[DaemonConfig]:
    """Let a scheduler drive the nodes of the allocation that this process runs in; yields its configuration.

    Raises:
        SlurmError: It runs in none, or Slurm does not answer.
    """
    config.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    reach = Reach(config.state_dir.absolute())
    try:
        Allocation(Slurm(), this_job(), changed=reach.know_owners)
        yield replace(config, host=address(config.nodes), reach=reach.options)
    finally:
        reach.forget()
