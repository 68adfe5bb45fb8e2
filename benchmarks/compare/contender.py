"""A contender's own process: the conversation with who measures it, its configuration, and loops that time calls.

Nothing heavy is imported here: the start and the memory of the floors are measured with it.
"""

from __future__ import annotations

import json
import math
import os
import select
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

# The conversation: commands in, answers out --------------------------------------------------------------------------

Command: TypeAlias = dict[str, Any]
Answer: TypeAlias = Mapping[str, object]
Handlers: TypeAlias = Mapping[str, Callable[[Command], Answer]]


class Channel:
    """Standard input and output, kept for the conversation: what else the process prints goes to standard error."""

    def __init__(self) -> None:
        self._commands = os.fdopen(os.dup(0), encoding="utf-8")
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)

    def serve(self, handlers: Handlers) -> None:
        """Say that we are ready, then answer commands until there are no more."""
        self._answer({"ready": True})
        for line in self._commands:
            command = json.loads(line)
            try:
                answer = handlers[command["measure"]](command)
            except Exception as error:  # noqa: BLE001 - whatever failed, the parent gets the reason
                traceback.print_exc()
                answer = {"error": f"{type(error).__name__}: {error}"}
            self._answer(answer)

    def _answer(self, answer: Answer) -> None:
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()


# Configuration, pinning, memory --------------------------------------------------------------------------------------

WARM_UP: Final = 20
"""Calls before those that are timed."""


class Config(NamedTuple):
    """How a contender is to set itself up; travels as JSON.

    Attributes:
        places: Processes, the caller among them.
        cpus: The cores to pin the caller and the other to; empty: no pinning.
    """

    places: int
    cpus: Sequence[int]


def pin(cpu: int) -> None:
    """Pin every thread of this process, and those that they start, to one core."""
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - names are what is wanted
        with suppress(ProcessLookupError):  # it has just ended
            os.sched_setaffinity(int(thread), {cpu})


def memory_with_numpy() -> dict[str, float]:
    """Return what this process takes once it has loaded NumPy, as a place does that computes."""
    __import__("numpy")
    return memory()


def memory() -> dict[str, float]:
    """Return the memory of this process: ``rss_bytes`` and ``pss_bytes`` (shared pages divided by their users)."""
    found = {}
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name in ("Rss", "Pss"):
            found[f"{name.lower()}_bytes"] = 1024.0 * int(rest.split()[0])
    return found


def commands(world: Any, look_s: float) -> Iterator[Any]:
    """Yield what rank 0 of a communicator sends, until that is None.

    Looks every ``look_s``, and sleeps: a receive that blocks would take a core from the other contenders.
    """
    while True:
        while not world.iprobe(source=0):
            time.sleep(look_s)
        if (command := world.recv(source=0)) is None:
            return
        yield command


@contextmanager
def dask_cluster(workers: int) -> Iterator[tuple[Any, Any]]:
    """Worker processes of Dask on this machine, a thread each, and a client of theirs."""
    distributed = import_module("distributed")
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield cluster, client


EXECUTORS: Final = {
    "ours": ("apgas.futures", "MalleableExecutor", "places"),
    "pool": ("concurrent.futures", "ProcessPoolExecutor", "max_workers"),
    "futures": ("mpi4py.futures", "MPIPoolExecutor", "max_workers"),
    "loky": ("joblib.externals.loky", "ProcessPoolExecutor", "max_workers"),
}
"""By contender: the module, the class, and by what name that takes the number of workers."""


def executor_of(name: str, workers: int) -> Any:
    """Return the executor of a contender, a context manager."""
    module, kind, argument = EXECUTORS[name]
    return getattr(import_module(module), kind)(**{argument: workers})


# Timing, alike for all contenders ------------------------------------------------------------------------------------


def timed(call: Callable[[], object], n: int, limit_s: float) -> list[float]:
    """Return the seconds of up to ``n`` calls, fewer if ``limit_s`` is over, after some that are not timed."""
    clock = time.perf_counter
    began_s = clock()
    for _ in range(WARM_UP):
        call()
        if clock() - began_s > limit_s:
            break
    until_s = clock() + limit_s
    samples: list[float] = []
    while len(samples) < n and (not samples or clock() < until_s):
        before_s = clock()
        call()
        samples.append(clock() - before_s)
    return samples


def per_second(batch: Callable[[int], object], n: int, limit_s: float) -> float:
    """Return how many items a second ``batch(items)`` does: ``n`` at once, or as many as ``limit_s`` seems to allow.

    The small batch is the warm-up, too.
    """
    small = max(1, min(n, 100))
    batch(small)
    items = max(small, min(n, int(small / seconds_of(batch, small) * limit_s)))
    return items / seconds_of(batch, items)


def seconds_of(batch: Callable[[int], object], items: int) -> float:
    """Return the seconds that one batch takes."""
    before_s = time.perf_counter()
    batch(items)
    return time.perf_counter() - before_s


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that at least ``share`` of all samples do not exceed (nearest rank).

    Raises:
        ValueError: There is no sample, or ``share`` is not in (0, 1].
    """
    if not samples or not 0 < share <= 1:
        raise ValueError(f"no percentile {share} of {len(samples)} samples")
    return sorted(samples)[math.ceil(share * len(samples)) - 1]


def of_samples(samples: Sequence[float]) -> dict[str, float]:
    """Return the figures of one round of times in seconds: ``median_s``, ``p99_s``, ``samples``."""
    from statistics import median  # loads decimal and fractions, which the memory of a floor must not pay for

    return {"median_s": median(samples), "p99_s": percentile(samples, 0.99), "samples": len(samples)}


# Measures in the terms of those who are measured ---------------------------------------------------------------------


def noop() -> None:
    """Do nothing."""


def same(value: Any) -> Any:
    """Return what came."""
    return value


def call_times(call: Callable[[], object], command: Command) -> dict[str, float]:
    """Return the figures of ``n`` calls."""
    return of_samples(timed(call, command["n"], command["limit_s"]))


def call_rate(batch: Callable[[int], object], command: Command) -> Answer:
    """Return how many calls a second a batch of them does."""
    return {"per_s": per_second(batch, command["n"], command["limit_s"])}


def echo_rate(echo: Callable[[Any], Any], command: Command) -> Answer:
    """Return the bytes a second, there and back, of an array that ``echo`` returns.

    Raises:
        ValueError: It returns something else.
    """
    import numpy as np

    array = np.arange(command["bytes"] // 8, dtype=np.float64)
    figures = call_times(lambda: echo(array), command)
    if not np.array_equal(echo(array), array):
        raise ValueError("the echo is not what was sent")
    return {"bytes_per_s": 2 * array.nbytes / figures["median_s"]}


# Waiting for processes to end ----------------------------------------------------------------------------------------


class Ends(ExitStack):
    """Handles on processes, opened while they live: their end is noticed at once, also of those with another parent."""

    def __init__(self, pids: Iterable[int]) -> None:
        super().__init__()
        self._handles = [os.pidfd_open(pid) for pid in pids]
        for handle in self._handles:
            self.callback(os.close, handle)

    def over(self, limit_s: float) -> bool:
        """Wait until all have ended; return whether they have."""
        until_s = time.monotonic() + limit_s
        for handle in self._handles:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            if not poll.poll(max(0.0, until_s - time.monotonic()) * 1000):
                return False
        return True

    def wait(self, limit_s: float) -> None:
        """Wait until all have ended.

        Raises:
            TimeoutError: Some live on.
        """
        if not self.over(limit_s):
            raise TimeoutError(f"processes live on after {limit_s:g} s")
