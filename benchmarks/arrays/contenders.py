"""The contenders, each under mpiexec: ``python -m benchmarks.arrays.contenders ours``, or rigid, bare, or dask 2."""

from __future__ import annotations

import mmap
import multiprocessing
import sys
import time
from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

import apgas

from ..compare.contender import Answer, Channel, Command, commands, dask_cluster, echo_rate, same

EXAMPLES: Final = Path(__file__).parents[2] / "docs" / "examples"
_WARM_STEPS: Final = 20
_STEPS: Final = 100
_PORTIONS: Final = 2
"""Room that two bare processes share, in portions as large as those of a move."""
_BARE_S: Final = 300.0
"""How long bare processes wait for one another at most."""
_DASK_STEPS: Final = 5
_LOOK_S: Final = 0.05
"""Ranks without a command sleep for so long."""


def ours() -> None:
    """Serve, as a program of places."""
    channel = Channel()
    apgas.run(_serve, channel)


def _serve(channel: Channel) -> None:
    other = apgas.places()[-1]
    channel.serve(
        {
            "steps": _steps,
            "move": _move,
            "steps_during": partial(_background, during=True),
            "steps_still": partial(_background, during=False),
            "echo": partial(echo_rate, lambda array: apgas.at(other, same, array)),
        }
    )


def _steps(command: Command) -> Answer:
    """Run an example that is not resized; functions are found by name on all places, and constants with them."""
    apgas.gather(_prepare, command)
    # place 0 waits for the others in each step, and needs no barrier
    return {"per_s": _steps_per_s(command, "", lambda: None, "")}


def _prepare(command: Command) -> None:
    _program(command, "")


def _move(command: Command) -> Answer:
    """Spread an array over twice as many places, from the first half of them: bytes that move each second."""
    from apgas import arrays
    from apgas.arrays import layout
    from apgas.arrays.spread import spread_of_program

    spread, places = spread_of_program(), apgas.places()
    array = arrays.zeros((int(command["bytes"]) // 8192, 1024))
    spread.over(places[: len(places) // 2])
    before = array.layout
    apgas.gather(_have_memory, int(command["bytes"]) // len(places), command["rest_s"])
    began_s = time.perf_counter()
    spread.over(places)
    seconds = time.perf_counter() - began_s
    rows = sum(way.end - way.first for way in layout.ways(before, array.layout) if way.source != way.target)
    return {"bytes_per_s": 8192 * rows / seconds}


def _have_memory(size: int, rest_s: float) -> None:
    """Let the system have so much memory to give, and rest: a virtual machine's host may take it back meanwhile."""
    np.empty(size, np.uint8)[:: mmap.PAGESIZE] = 1
    time.sleep(rest_s)


def bare() -> None:
    """Serve without the runtime: pairs of processes copy rows as a move does, through memory that they share."""
    Channel().serve({"move": _bare_move})


def _bare_move(command: Command) -> Answer:
    from apgas.arrays.spread import AT_ONCE

    context = multiprocessing.get_context("fork")
    pairs, portion = int(command["pairs"]), AT_ONCE.portion_bytes
    count = max(1, int(command["bytes"]) // (2 * pairs * portion))
    begin, end = (context.Barrier(2 * pairs + 1, timeout=_BARE_S) for _ in range(2))

    def send(shared: mmap.mmap, full: Any, free: Any) -> None:
        rows, room = np.ones(count * portion, np.uint8), np.frombuffer(shared, np.uint8)
        begin.wait()
        for i in range(count):
            assert free.acquire(timeout=_BARE_S)
            at = i % _PORTIONS * portion
            room[at : at + portion] = rows[i * portion : (i + 1) * portion]
            full.release()
        end.wait()

    def take(shared: mmap.mmap, full: Any, free: Any) -> None:
        _have_memory(count * portion, command["rest_s"])
        room = np.frombuffer(shared, np.uint8)
        begin.wait()
        rows = np.zeros(count * portion, np.uint8)
        for i in range(count):
            assert full.acquire(timeout=_BARE_S)
            at = i % _PORTIONS * portion
            rows[i * portion : (i + 1) * portion] = room[at : at + portion]
            free.release()
        end.wait()

    processes = []
    for _ in range(pairs):
        between = mmap.mmap(-1, _PORTIONS * portion), context.Semaphore(0), context.Semaphore(_PORTIONS)
        processes += [context.Process(target=work, args=between, daemon=True) for work in (send, take)]
    for process in processes:
        process.start()
    begin.wait()
    began_s = time.perf_counter()
    end.wait()
    seconds = time.perf_counter() - began_s
    for process in processes:
        process.join(_BARE_S)
    return {"bytes_per_s": pairs * count * portion / seconds}


def _background(command: Command, *, during: bool) -> Answer:
    """Time steps on the first half of the places, while a constant array is copied to all of them, or is not.

    The array and the steps are the same in both cases, and the mean is taken over as many steps, at least.
    """
    from apgas import arrays
    from apgas.arrays.spread import spread_of_program

    spread, places = spread_of_program(), apgas.places()
    matrix = arrays.from_function(lambda i, j: i + j, (int(command["bytes"]) // 8192, 1024)).freeze()
    vector = arrays.from_function(lambda i: i, 200_000)
    spread.over(places[: len(places) // 2])
    times_s: list[float] = []

    def step() -> None:
        began_s = time.perf_counter()
        arrays.map_blocks(_average, vector, vector.halo(1))
        times_s.append(time.perf_counter() - began_s)

    for _ in range(_WARM_STEPS):
        step()
    times_s.clear()
    while len(times_s) < _STEPS:
        if not during:
            step()
            continue
        ahead = spread.begin(places)
        assert ahead is not None, "the array is constant"
        with apgas.finish():
            copied = apgas.async_(spread.copy, ahead)
            while not copied.done():
                step()
        spread.give_up(ahead)
    del matrix
    spread.over(places)
    return {"step_s": sum(times_s) / len(times_s)}


def _average(own: Any, near: Any) -> None:
    for _ in range(10):
        own.local = (near.padded[:-2] + near.padded[2:]) / 2


def rigid() -> None:
    """Serve, as ranks that stay."""
    comm: Any = import_module("mpi4py.MPI").COMM_WORLD
    if comm.rank == 0:

        def steps(command: Command) -> Answer:
            for rank in range(1, comm.size):
                comm.send(command, rank)
            return {"per_s": _steps_per_s(command, "_rigid", comm.Barrier)}

        Channel().serve({"steps": steps})
        for rank in range(1, comm.size):
            comm.send(None, rank)
        return
    for command in commands(comm, _LOOK_S):
        _steps_per_s(command, "_rigid", comm.Barrier)


def dask() -> None:
    """Serve as Dask: an array in as many chunks as workers, a process each."""
    workers = int(sys.argv[2])
    with dask_cluster(workers) as (_, client):
        client.run(sys.path.insert, 0, str(EXAMPLES))
        Channel().serve({"steps": partial(_dask_steps, workers)})


def _dask_steps(workers: int, command: Command) -> Answer:
    """Run Jacobi as Dask's users write it: a function of blocks with the rows of their neighbours, in each step."""
    arrays, distributed = import_module("dask.array"), import_module("distributed")
    constants = command["constants"]
    height, width, steps = (int(constants[name]) for name in ("HEIGHT", "WIDTH", "STEPS"))
    began_s = time.perf_counter()
    plate = arrays.zeros((height, width), chunks=(-(-height // workers), width))
    for step in range(steps):
        plate = plate.map_overlap(
            _relaxed, depth={0: 1, 1: 0}, boundary="none", dtype=plate.dtype, meta=np.empty((0, 0))
        )
        if step % _DASK_STEPS == _DASK_STEPS - 1:
            plate = plate.persist()  # else the scheduler would have one graph of all steps
            distributed.wait(plate)
    found = plate.compute()
    seconds = time.perf_counter() - began_s
    if not np.array_equal(found, _plate(height, width, steps)):
        raise AssertionError("Dask has computed another plate")
    return {"per_s": steps / seconds}


@lru_cache(maxsize=1)
def _plate(height: int, width: int, steps: int) -> Any:
    """What all are to compute."""
    old, new = (np.zeros((height + 2, width)) for _ in range(2))
    old[0] = new[0] = 1.0
    for _ in range(steps):
        new[1:-1, 1:-1] = (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]) / 4
        old, new = new, old
    return old[1:-1]


def _relaxed(rows: Any, block_info: Any) -> Any:
    """One step of a chunk that comes with the rows of its neighbours, as far as there are any."""
    at, chunks = block_info[0]["chunk-location"][0], block_info[0]["num-chunks"][0]
    above = np.ones((int(at == 0), rows.shape[1]))
    below = np.zeros((int(at == chunks - 1), rows.shape[1]))
    padded = np.vstack([above, rows, below])
    relaxed = np.zeros_like(rows)
    inner = slice(1 - len(above), len(relaxed) - 1 + len(below))
    relaxed[inner, 1:-1] = (padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]) / 4
    return relaxed


def _steps_per_s(command: Command, kind: str, barrier: Callable[[], None], *args: str) -> float:
    """Run an example, all of it; what it prints goes to standard error."""
    program = _program(command, kind)
    barrier()
    began_s = time.perf_counter()
    program.main(*args)
    barrier()
    return int(command["constants"]["STEPS"]) / (time.perf_counter() - began_s)


def _program(command: Command, kind: str) -> Any:
    """An example with the constants of the command."""
    program = import_module(f"{command['program']}{kind}")
    vars(program).update(command["constants"])
    return program


if __name__ == "__main__":
    sys.path.insert(0, str(EXAMPLES))
    {"ours": ours, "rigid": rigid, "bare": bare, "dask": dask}[sys.argv[1]]()
