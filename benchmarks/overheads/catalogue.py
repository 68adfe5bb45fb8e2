"""The measures: what is asked of whom, with which goals; and how the contenders are started."""

from __future__ import annotations

import compileall
import importlib.util
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from ..compare import child
from ..compare.contender import EXECUTORS, Config
from ..compare.engine import OURS, Goal, Quantity

Kind: TypeAlias = Literal["ask", "start", "idle"]

SOCKET: Final = "socket"
MPI: Final = "mpi"
TREE: Final = "tree"
POOL: Final = "pool"
FUTURES: Final = "futures"
RAY: Final = "ray"
DASK: Final = "dask"
LOKY: Final = "loky"
PEERS: Final = (POOL, FUTURES, RAY, DASK)
FLOORS: Final = (SOCKET, MPI, TREE)
LABELS: Final = {
    OURS: "ours",
    SOCKET: "raw socket",
    MPI: "bare MPI",
    TREE: "bare tree",
    POOL: "ProcessPool",
    FUTURES: "mpi4py.futures",
    RAY: "Ray",
    DASK: "Dask",
    LOKY: "loky",
}


@dataclass(frozen=True)
class Case:
    """What every contender, ours and the floor first, is asked once a round; after ``limit_s`` it has failed."""

    command: Mapping[str, object]
    contenders: tuple[str, ...]
    quantities: tuple[Quantity, ...]
    limit_s: float = 60.0


@dataclass(frozen=True)
class Measure:
    """A group of cases for which the contenders are started together.

    Attributes:
        name: What ``--measures`` calls it.
        cases: What is asked, in turn.
        kind: "ask": commands; "start": the contenders' start itself; "idle": they are watched doing nothing.
        places: Places, or processes of a peer (the submitter is one).
        pinned: Whether the first two are pinned to different cores.
        rounds: The most rounds; None: as many as asked for.
        note: What the reader of the table should know.
        environment: What the contenders find in their environment beside everything else.
        launched: Whether our places start under apgas.launch; else under mpiexec.
        asked_for: Whether it is measured only where it is named.
    """

    name: str
    cases: tuple[Case, ...]
    kind: Kind = "ask"
    places: int = 2
    pinned: bool = False
    rounds: int | None = None
    note: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    launched: bool = False
    asked_for: bool = False

    @property
    def contenders(self) -> tuple[str, ...]:
        """Everyone who takes part, in the order of first appearance."""
        return tuple(dict.fromkeys(name for case in self.cases for name in case.contenders))


def of_one_case(
    name: str,
    command: Mapping[str, object],
    contenders: tuple[str, ...],
    *quantities: Quantity,
    limit_s: float = 60.0,
    **others: Any,
) -> Measure:
    """Return a measure with one case, whose command has the measure's name; ``others``: as for ``Measure``."""
    return Measure(name, (Case({"measure": name, **command}, contenders, quantities, limit_s),), **others)


_MANY: Final = 256
_IDLE: Final = Goal("<", 0.003)

MEASURES: Final = {
    measure.name: measure
    for measure in (
        Measure(
            "rtt",
            (
                Case(
                    {"measure": "rtt", "n": 1000, "limit_s": 0.6},
                    (OURS, SOCKET, *PEERS),
                    (
                        Quantity(
                            "median_s", "at round trip, median", "s", (Goal("<=", 4, SOCKET), Goal("<=", 0.6, POOL))
                        ),
                        Quantity("p99_s", "at round trip, p99", "s", (Goal("<=", 4, SOCKET),)),
                    ),
                ),
                Case(
                    {"measure": "immediate", "n": 1000, "limit_s": 0.6},
                    (OURS, SOCKET),
                    (
                        Quantity("median_s", "immediate round trip, median", "s", (Goal("<=", 2, SOCKET),)),
                        Quantity("p99_s", "immediate round trip, p99", "s"),
                    ),
                ),
            ),
            pinned=True,
            note="round trips: one caller and one other process, pinned to different cores; immediate: from one "
            "receiving thread to the other and back",
        ),
        of_one_case(
            "throughput",
            {"n": 4000, "limit_s": 0.6},
            (OURS, *PEERS),
            Quantity(
                "per_s",
                "no-op async_at from one place",
                "1/s",
                (Goal(">=", 2, POOL), Goal(">=", 10, RAY), Goal(">=", 30, DASK)),
            ),
            pinned=True,
        ),
        Measure(
            "finish",
            tuple(
                Case(
                    {"measure": "finish", "places": places, "n": 200, "limit_s": 0.6},
                    (OURS, *PEERS),
                    (
                        Quantity("median_s", f"async_at + finish over {places} of 8 places", "s"),
                        Quantity("messages", f"messages of a finish over {places} of 8 places", "count"),
                    ),
                )
                for places in (2, 4, 8)
            ),
            places=8,
            note="messages: of all places together; one there and one back for each place but the first",
        ),
        Measure(
            "barrier",
            tuple(
                Case(
                    {"measure": "finish", "places": places, "n": 50, "limit_s": 2.0},
                    (OURS, TREE),
                    (Quantity("median_s", f"empty finish over {places} of {_MANY} places", "s"),),
                )
                for places in (2, 8, 32, 128, _MANY)
            ),
            places=_MANY,
            asked_for=True,
            note=f"empty finish: an activity that does nothing on each place; bare tree: {_MANY} processes and socket "
            "pairs, a byte down a tree of degree 16 and up again",
        ),
        of_one_case(
            "echo",
            {"n": 10, "bytes": 8 << 20, "limit_s": 1.5},
            (OURS, SOCKET, *PEERS),
            Quantity("bytes_per_s", "8 MiB NumPy echo", "B/s", (Goal(">=", 0.7, SOCKET), Goal(">=", 3, RAY))),
            pinned=True,
            note="echo: bytes there and back over the time",
        ),
        of_one_case(
            "start",
            {},
            (OURS, MPI, *PEERS),
            Quantity("start_s", "start of 2 places to main", "s", (Goal("<=", 1.5, MPI),)),
            kind="start",
            note="start: from the command to the first line of main with all processes up; peers: to the first result",
        ),
        Measure(
            "resize",
            tuple(
                Case(
                    {"measure": "resize", "n": n},
                    (OURS, MPI, *((DASK, RAY) if n == 1 else (DASK,))),
                    (
                        Quantity("grow_s", f"grow by {n}", "s", (Goal("<=", 1.5, MPI),)),
                        Quantity("answered_s", f"grow by {n}, until newcomers have run something", "s"),
                        *([Quantity("shrink_s", f"shrink by {n}", "s", (Goal("<=", 0.5, MPI),))] if n < 8 else []),
                    ),
                )
                for n in (1, 2, 4, 8)
            ),
            note="grow: from the order to the commit; shrink: from the order to the end of the processes; both beside "
            "a bare spawn of as many",
        ),
        Measure(
            "regrow",
            tuple(
                Case(
                    {"measure": "resize", "n": n, "loads": "numpy"},
                    (OURS, MPI),
                    (
                        Quantity("grow_s", f"grow by {n} again", "s"),
                        Quantity("loaded_s", f"grow by {n} again, until NumPy is loaded", "s", (Goal("<=", 0.5, MPI),)),
                    ),
                )
                for n in (1, 2, 4, 8)
            ),
            launched=True,
            note="again: under apgas.launch, on a host on which places have started before",
        ),
        Measure(
            "numba",
            tuple(
                Case(
                    {"measure": "resize", "n": n, "loads": "numba"},
                    (OURS, MPI),
                    (Quantity("loaded_s", f"grow by {n}, until Numba is loaded", "s"),),
                )
                for n in (1, 2, 4, 8)
            ),
            rounds=3,
        ),
        of_one_case(
            "lost",
            {"cycles": 8},
            (OURS,),
            Quantity("grow_lost", "compute of others lost while growing by 1", "share", (Goal("<", 0.02),)),
            Quantity("shrink_lost", "compute of others lost while shrinking by 1", "share", (Goal("<", 0.02),)),
            Quantity("quiet_lost", "compute lost between resizes", "share"),
            note="compute lost: of what a place held to 20 % of a core has to do while others come and go, beside what "
            "it loses between resizes; what is late by at most 0.25 s it does then",
        ),
        of_one_case(
            "idle",
            {"seconds": 5.0},
            (OURS, *PEERS),
            Quantity("share", "idle, share of a core per process of 2", "share", (_IDLE,)),
            kind="idle",
            rounds=1,
            note="idle: everything that a contender runs, over 5 s, divided by 2",
        ),
        of_one_case(
            "idle-mpi",
            {"seconds": 5.0},
            (OURS,),
            Quantity("share", "idle on the mpi transport, likewise", "share", (_IDLE,)),
            kind="idle",
            rounds=1,
            environment={"APGAS_TRANSPORT": "mpi"},
        ),
        of_one_case(
            "memory",
            {},
            (OURS, MPI, *PEERS),
            Quantity("rss_bytes", "memory of a place with NumPy, RSS", "bytes", (Goal("<=", 1.5, MPI),)),
            Quantity("pss_bytes", "memory of a place with NumPy, PSS", "bytes", (Goal("<=", 1.5, MPI),)),
            rounds=1,
            note="memory: a place or worker that has loaded NumPy and not Numba",
        ),
    )
}


# Who takes part: whether it is installed, and how its processes are started ------------------------------------------

_NEEDS: Final = {
    OURS: "mpi4py",
    MPI: "mpi4py",
    FUTURES: "mpi4py.futures",
    RAY: "ray",
    DASK: "distributed",
    LOKY: "joblib",
}
_PROGRAMS: Final = {
    OURS: "ours.main",
    SOCKET: "floors.sockets",
    TREE: "floors.tree",
    MPI: "floors.mpi",
    POOL: "peers.pool",
    FUTURES: "peers.futures",
    RAY: "peers.ray",
    DASK: "peers.dask",
}
_UNDER_MPIEXEC: Final = (OURS, MPI)
_OUR_PACKAGES: Final = ("apgas", __package__.rpartition(".")[0])


def why_missing(name: str) -> str:
    """Return why a contender cannot take part; empty if it can."""
    module = _NEEDS.get(name)
    try:
        found = module is None or importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        found = False
    return "" if found else 'not installed (pip install -e ".[peers]")'


def start_command(name: str, measure: Measure, cpus: tuple[int, ...]) -> list[str]:
    """Return the command line that starts a contender for a measure; ``cpus``: the cores that may be pinned to."""
    config = Config(measure.places, cpus if measure.pinned else ())
    program = ["-m", f"{__package__}.start", _PROGRAMS[name], json.dumps(config)]
    if name == OURS and measure.launched:
        return [sys.executable, "-m", "apgas.launch", "-n", str(measure.places), sys.executable, *program]
    return _launched(name, _processes(name, measure), program)


def hello_command(name: str, measure: Measure) -> list[str]:
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


def contenders_environment(folder: Path) -> Mapping[str, str]:
    """Return the environment of all contenders; temporary files go to ``folder``."""
    return {
        **child.environment(folder),
        # a program started without mpiexec that spawns, as mpi4py.futures does, would look for ssh
        "HYDRA_LAUNCHER": "fork",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


# The programs of the measure of starts: as little as a person would write, and the time at which main is reached -----

_SAY: Final = "print('at', time.monotonic(), flush=True)"


def hello_of_executor(module: str, kind: str, workers: str, count: int) -> str:
    """Return the program for an executor of ``concurrent.futures``, whose argument ``workers`` is ``count``."""
    return f"""
import os, time
from {module} import {kind}

if __name__ == "__main__":
    with {kind}({workers}={count}) as executor:
        executor.submit(os.getpid).result()
        {_SAY}
"""


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
    "pool": hello_of_executor(*EXECUTORS[POOL], 1),
    "futures": hello_of_executor(*EXECUTORS[FUTURES], 1),
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
