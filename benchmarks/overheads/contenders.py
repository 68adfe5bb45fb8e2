"""Who takes part: whether it is installed, and how its processes are started."""

from __future__ import annotations

import compileall
import importlib.util
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ..compare import child
from ..compare.contender import Config
from ..compare.engine import OURS
from .catalogue import DASK, FUTURES, MPI, POOL, RAY, SOCKET, Measure

_NEEDS: Final = {OURS: "mpi4py", MPI: "mpi4py", FUTURES: "mpi4py.futures", RAY: "ray", DASK: "distributed"}
_PROGRAMS: Final = {
    OURS: "ours.main",
    SOCKET: "floors.sockets",
    MPI: "floors.mpi",
    POOL: "peers.pool",
    FUTURES: "peers.futures",
    RAY: "peers.ray",
    DASK: "peers.dask",
}
_UNDER_MPIEXEC: Final = (OURS, MPI)
_OUR_PACKAGES: Final = ("apgas", __package__.rpartition(".")[0])


def missing(name: str) -> str:
    """Return why a contender cannot take part; empty if it can."""
    module = _NEEDS.get(name)
    try:
        found = module is None or importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        found = False
    return "" if found else 'not installed (pip install -e ".[peers]")'


def command(name: str, measure: Measure, cpus: tuple[int, ...]) -> list[str]:
    """Return the command line that starts a contender for a measure; ``cpus``: the cores that may be pinned to."""
    config = Config(measure.places, cpus if measure.pinned else ())
    program = ["-m", f"{__package__}.programs", _PROGRAMS[name], config.written()]
    return _launched(name, _processes(name, measure), program)


def hello(name: str, measure: Measure) -> list[str]:
    """Return the command line whose start is measured."""
    return _launched(name, measure.places, ["-c", _HELLO[name]])


def keep_bytecode(packages: Iterable[str] = _OUR_PACKAGES) -> None:
    """Compile our packages, as pip has done with those of the others: a checkout may be without bytecode."""
    for package in packages:
        found = importlib.util.find_spec(package)
        for folder in (found and found.submodule_search_locations) or ():
            compileall.compile_dir(folder, quiet=2)


def _processes(name: str, measure: Measure) -> int:
    """Bare MPI spawns alone: a second process would wait for it in vain, or spin."""
    return 1 if name == MPI and measure.name != "memory" else measure.places


def _launched(name: str, processes: int, program: list[str]) -> list[str]:
    launcher = ["mpiexec", "-n", str(processes)] if name in _UNDER_MPIEXEC else []
    return [*launcher, sys.executable, *program]


def environment(folder: Path) -> Mapping[str, str]:
    """Return the environment of all contenders; temporary files go to ``folder``."""
    return {
        **child.environment(folder),
        # a program started without mpiexec that spawns, as mpi4py.futures does, would look for ssh
        "HYDRA_LAUNCHER": "fork",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


# The programs of the measure of starts: as little as a person would write, and the time at which main is reached -----

_SAY: Final = "print('at', time.monotonic(), flush=True)"

_HELLO: Final = {
    "ours": f"""
import time
import apgas

def main():
    {_SAY}

apgas.run(main)
""",
    "mpi": f"""
import time
from mpi4py import MPI

MPI.COMM_WORLD.Barrier()
if MPI.COMM_WORLD.rank == 0:
    {_SAY}
""",
    "pool": f"""
import os, time
from concurrent.futures import ProcessPoolExecutor

with ProcessPoolExecutor(1) as executor:
    executor.submit(os.getpid).result()
    {_SAY}
""",
    "futures": f"""
import os, time
from mpi4py.futures import MPIPoolExecutor

with MPIPoolExecutor(max_workers=1) as executor:
    executor.submit(os.getpid).result()
    {_SAY}
""",
    "ray": f"""
import os, time
import ray

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=40)
ray.get(ray.remote(lambda: os.getpid()).remote())
{_SAY}
""",
    "dask": f"""
import os, time
from distributed import Client, LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        client.submit(os.getpid).result()
        {_SAY}
""",
}
"""Programs by contender; each prints "at" and the machine's monotonic clock in s."""
