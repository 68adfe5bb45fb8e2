"""The floor of starting, spawning and memory: mpi4py and nothing else."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any, Final

from ...compare.contender import Answer, Channel, Command, Config, Ends, load_optional, memory_with_numpy

POLL_S: Final = 0.005
GONE_S: Final = 20.0

SPAWNED: Final = (
    "import os; from mpi4py import MPI; {then}parent = MPI.Comm.Get_parent(); "
    "pids = MPI.COMM_WORLD.gather(os.getpid(), root=0); pids and parent.send(pids, dest=0); parent.Disconnect()"
)
"""A spawned process; it says that it is there once all of its world are. Hydra takes arguments of one line only."""


def main(config: Config, channel: Channel) -> None:
    """Serve; ``config.places`` processes were started by mpiexec."""
    del config
    mpi = load_optional("mpi4py.MPI")
    world = mpi.COMM_WORLD
    if world.rank:
        _follow(world)
        return
    channel.serve({"resize": partial(_spawn, mpi), "memory": partial(_memory, world)})
    for rank in range(1, world.size):
        world.send(None, dest=rank)


def _spawn(mpi: Any, command: Command) -> Answer:
    """Time a spawn; it stands beside a grow as well as beside a shrink."""
    numba = bool(command.get("numba"))
    program = SPAWNED.format(then="import numba; " if numba else "")
    before_s = time.perf_counter()
    children = mpi.COMM_SELF.Spawn(sys.executable, ["-c", program], maxprocs=command["n"])
    pids = children.recv(source=0)
    spawn_s = time.perf_counter() - before_s
    with Ends(pids) as ends:
        children.Disconnect()
        ends.wait(GONE_S)
    return {"loaded_s": spawn_s} if numba else {"grow_s": spawn_s, "shrink_s": spawn_s}


def _memory(world: Any, command: Command) -> Answer:
    world.send(command, dest=1)
    answer: dict[str, float] = world.recv(source=1)
    return answer


def _follow(world: Any) -> None:
    """Do what rank 0 says; waits asleep, for a blocking receive of MPI keeps a core busy."""
    while True:
        while not world.iprobe(source=0):
            time.sleep(POLL_S)
        if world.recv(source=0) is None:
            return
        world.send(memory_with_numpy(), dest=0)
