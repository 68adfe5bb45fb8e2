"""Runs programs one after another in one interpreter, as the cells of a notebook do; prints "fine" if each is whole.

Argument: whether an asyncio loop runs meanwhile, as in the kernel of a notebook.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import apgas
from apgas import at, places
from apgas.runtime.driver import Driver
from apgas.testing.handlers import ReleaseNewest

ROUNDS = 3
left: list[apgas.PlaceLocal[list[int]]] = []
outlives: list[threading.Event] = []


def grow() -> None:
    apgas.define_malleable_handler(ReleaseNewest())
    apgas.schedule_orders("0:+1")
    while not apgas.resizes():
        time.sleep(0.005)
    assert apgas.resizes()[0].outcome == "done", apgas.resizes()


def works() -> list[int]:
    grow()
    assert [place.id for place in places()] == [0, 1]
    mine = apgas.PlaceLocal[list[int]](list)
    other = apgas.GlobalRef("of this program")
    for earlier in left:
        assert earlier.get() == [], "an object of an earlier program"
    mine.get().append(7)
    left.append(mine)
    assert other.get() == "of this program"
    return [at(place, os.getpid) for place in places()]


def fails() -> None:
    grow()
    raise LookupError("of the program")


def is_interrupted() -> None:
    grow()
    outlives.append(threading.Event())
    apgas.async_(outlive, outlives[-1])
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    at(places()[1], time.sleep, 3600)


def outlive(may_end: threading.Event) -> None:
    """Be still there when the next program runs, and have no part in it."""
    may_end.wait()
    try:
        at(places()[-1], os.getpid)
    except apgas.ApgasError:
        return
    os._exit(9)


def nested() -> None:
    assert raised_by(print) is apgas.UsageError


def not_in_the_main_thread() -> None:
    errors: list[str] = []

    def run() -> None:
        try:
            apgas.run(print)
        except apgas.UsageError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "main thread" in errors[0], errors


def raised_by(main: Callable[[], object]) -> type[BaseException]:
    try:
        apgas.run(main)
    except BaseException as error:  # noqa: BLE001 - what it is, is the question
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return type(error)
    raise AssertionError("nothing was raised")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def cells() -> None:
    files: list[int] = []
    before = signal.getsignal(signal.SIGINT), sys.getswitchinterval()
    for _ in range(ROUNDS):
        mine, *others = apgas.run(works)
        assert mine == os.getpid()
        assert len(others) == 1
        assert raised_by(fails) is LookupError
        not_in_the_main_thread()
        assert raised_by(is_interrupted) is KeyboardInterrupt
        apgas.run(nested)
        assert apgas.run(works)[0] == mine
        while outlives:
            outlives.pop().set()
        assert (signal.getsignal(signal.SIGINT), sys.getswitchinterval()) == before
        until = time.monotonic() + 60
        while threading.active_count() > 1 and time.monotonic() < until:
            time.sleep(0.01)
        assert threading.active_count() == 1, threading.enumerate()
        gc.collect()
        assert not [one for one in gc.get_objects() if isinstance(one, Driver)]
        files.append(open_files())
    assert files[1:] == files[:-1], files


async def kernel() -> None:
    cells()


if __name__ == "__main__":
    sys.ps1 = ">>> "  # somebody types
    if sys.argv[1] == "asyncio":
        asyncio.run(kernel())
    else:
        cells()
    print("fine", flush=True)
