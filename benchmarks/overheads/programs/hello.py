"""The programs of the measure of starts: as little as a person would write, and the time at which main is reached."""

from __future__ import annotations

from typing import Final

_SAY: Final = "print('at', time.monotonic(), flush=True)"

TEXTS: Final = {
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
