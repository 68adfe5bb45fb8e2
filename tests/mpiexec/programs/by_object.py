"""Collective operations of mpi4py as the first thing that a job does with its communicator, and one that never ends.

``by_object.py example``: the example of ``apgas.comm``. ``by_object.py objects``: every other operation on objects.
``by_object.py keeping``: what keeps the interpreter's lock while it waits for others.

``by_object.py taking``: takes TERM itself.

``by_object.py losing``: is about to end by TERM when other code keeps the lock.

``by_object.py WHERE HOW``: an operation that the others never join, on the thread of ``main``, of an ``activity`` of
place 0, or ``elsewhere``, which keeps the lock (``keeping``) or lets go of it (``letting_go``).
"""

from __future__ import annotations

import ctypes
import operator
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import apgas
from apgas import Place, async_at, comm, finish, gather, here, places
from apgas.runtime import process
from apgas.runtime.watchdog import FORCE_S, HEED_S

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


def objects() -> tuple[object, ...]:
    """Operations on objects, and on a communicator that is made of ours."""
    world = comm()
    part = world.Split(world.rank % 2)
    answers = (
        world.scan(1, op=operator.add) == world.rank + 1,
        world.exscan(1, op=operator.add) == (world.rank or None),
        world.reduce([world.rank], op=operator.add) == ([*range(world.size)] if not world.rank else None),
        world.allreduce([world.rank], op=operator.add) == [*range(world.size)],
        world.bcast(world.rank) == 0,
        world.scatter(list(range(world.size)) if not world.rank else None) == world.rank,
        world.alltoall([world.rank] * world.size) == [*range(world.size)],
        part.allreduce(1) == part.size,
    )
    part.Free()
    return answers


def barrier(world: Intracomm) -> None:
    """A barrier as a library would call it that does not let go of the interpreter."""
    from mpi4py import MPI

    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    library = next(line.split()[-1] for line in maps if "libmpi.so" in line)
    ctypes.PyDLL(library).MPI_Barrier(ctypes.c_int(MPI._handleof(world)))


def keeping() -> tuple[object, ...]:
    """Operations that keep the lock, also some of mpi4py."""
    from mpi4py.util import pkl5

    world = comm()
    barrier(world)
    received = bytearray(1)
    world.Reduce_scatter(bytearray([1] * world.size), received)
    return received == bytearray([world.size]), pkl5.Intracomm(world).allreduce(1) == world.size


def alone(how: str, now: list[Place]) -> None:
    """Waits for ever."""
    world = comm(now)
    print("waits", flush=True)
    if how == "keeping":
        barrier(world)
    else:
        world.Barrier()


def taking() -> None:
    """Goes on for longer than a place may wait within MPI after a signal."""
    taken: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: taken.append(number))
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(HEED_S + FORCE_S + 1.0)
    assert taken == [signal.SIGTERM]


def losing() -> None:
    """What would end the job does not get to it."""
    process.abort = lambda _: ctypes.PyDLL(None).sleep(3600)  # type: ignore[assignment]  # it does not return either
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(3600)


def main() -> None:
    what = sys.argv[1]
    if what == "example":
        assert set(gather(lambda: comm().allreduce(1)).values()) == {len(places())}
    elif what in ("objects", "keeping"):
        answers = gather(objects if what == "objects" else keeping)
        assert all(all(values) for values in answers.values()), answers
    elif what == "taking":
        taking()
    elif what == "losing":
        losing()
    elif what == "main":
        alone(sys.argv[2], places())
    else:
        with finish():
            async_at(places()[-1] if what == "elsewhere" else here(), alone, sys.argv[2], places())
    print("fine")


if __name__ == "__main__":
    apgas.run(main)
