"""The embedded scheduler inside an allocation: its nodes are the scheduler's, and jobs reach them through srun."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from scheduler_bridge.backends.hosts import Host, Rules
from scheduler_bridge.backends.hosts.backend import NodesBackend
from scheduler_bridge.backends.hosts.watch import Watch
from scheduler_bridge.backends.slurm.allocation import Allocation
from scheduler_bridge.backends.slurm.driver import Slurm, SlurmError
from scheduler_bridge.backends.slurm.looking import Looker
from scheduler_bridge.backends.slurm.reach import Reach
from scheduler_bridge.backends.standin import address
from scheduler_bridge.daemon import Daemon, DaemonConfig

ENV_JOB: Final = "SLURM_JOB_ID"
FAREWELL_S: Final = 2.0
_LOOK_AGAIN_S: Final = 0.1


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


class SlurmBackend(NodesBackend):
    """What a daemon needs to drive the nodes of an allocation; made by ``inside``.

    Args:
        allocation: The allocation.
        slurm: Whom to ask about it.
        reach: What mpiexec reaches the nodes with.
        every_s: Time between looks at the nodes.
    """

    def __init__(self, allocation: Allocation, slurm: Slurm, reach: Reach, every_s: float) -> None:
        super().__init__(reach)
        self._allocation = allocation
        self._reach = reach
        # Slurm has looked more than once before it says that a node is down
        self._rules = Rules(every_s=every_s, failures=1, together=True)
        self._looker = Looker(slurm, allocation.holdings.job, self._names)

    def _introduce(self) -> None:
        self._reach.know_owners(self._allocation.holdings)

    def _lacks(self, node: str) -> str:
        allotted = self._allocation.holdings
        if node in allotted.nodes:  # the allocation keeps its size
            return ""
        return f"it is none of Slurm job {allotted.job}, which has {', '.join(allotted.nodes)}"

    def _watched(self, daemon: Daemon) -> Watch:
        return Watch(daemon, lambda node: Host(node, node), self._looker, self._rules)

    def _names(self) -> Sequence[str]:
        return self._daemon.nodes if self._daemon is not None else ()

    async def _complaints(self, nodes: Iterable[str]) -> dict[str, str]:
        return await self._looker.complaints(nodes)

    def _says(self, node: str, complaint: str) -> str:
        return f"node {node}: {complaint}"


def _see_off(slurm: Slurm) -> None:
    """Let the command that asked for the end hear of it: it is a step, and Slurm kills steps with the batch script."""
    until = time.monotonic() + FAREWELL_S
    with suppress(SlurmError):
        while time.monotonic() < until and any(step.step.isdigit() for step in slurm.steps((this_job(),))):
            time.sleep(_LOOK_AGAIN_S)


@contextmanager
def inside(config: DaemonConfig, every_s: float = Rules().every_s) -> Iterator[tuple[DaemonConfig, SlurmBackend]]:
    """Let a scheduler drive the nodes of the allocation that this process runs in.

    Yields its configuration, and what the daemon is to be made with.

    Args:
        config: Its nodes are those of the allocation.
        every_s: Time between looks at the nodes.

    Raises:
        SlurmError: It runs in none, or Slurm does not answer.
    """
    reach = Reach(config.state_dir.absolute())
    slurm = Slurm()
    backend = SlurmBackend(Allocation(slurm, this_job()), slurm, reach, every_s)
    try:
        yield msgspec.structs.replace(config, host=address(config.nodes), reach=reach.options), backend
    finally:
        backend.close()
        _see_off(slurm)
