"""Programs that plain Python starts; the argument says which. Each prints "fine" if it ends as it should."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import apgas
from apgas import DeadPlaceError, at, places
from apgas.futures import MalleableExecutor
from apgas.testing.handlers import ReleaseNewest


def order(text: str, hosts: list[str] | None = None) -> None:
    """Carry out an order and wait for its end."""
    before = len(apgas.resizes())
    apgas.schedule_orders(text, hosts=hosts or [])
    while len(apgas.resizes()) == before:
        time.sleep(0.005)
    assert apgas.resizes()[-1].outcome == "done", apgas.resizes()[-1]


def shrinks_to_one() -> None:
    for _ in range(3):
        order("0:+2")
        pids = {at(place, os.getpid) for place in places()}
        assert len(pids) == 3
        order("0:-2")
        assert [place.id for place in places()] == [0]
    assert "mpi4py" not in sys.modules


def on_names() -> None:
    order("0:+3", ["nodeA", "nodeB", "nodeA"])
    assert [at(place, apgas.here).node for place in places()[1:]] == ["nodeA", "nodeA", "nodeB"]


def goes_on() -> None:
    order("0:+2")
    died = threading.Event()
    apgas.on_place_failure(lambda _: died.set())
    try:
        at(places()[1], os.kill, at(places()[1], os.getpid), signal.SIGKILL)
    except DeadPlaceError:
        died.wait()
    order("0:+1")
    assert [place.id for place in places()] == [0, 2, 3]


def needless() -> list[str]:
    """What a place has loaded that it does not need."""
    return [name for name in ("apgas.futures.executor", "apgas.runtime.resizing", "mpi4py") if name in sys.modules]


def executors() -> None:
    for count in range(5):
        with MalleableExecutor(places=1 + count % 2) as executor:
            assert list(executor.map(abs, range(-3, 3))) == [3, 2, 1, 0, 1, 2]
            assert executor.submit(needless).result() == []


def hold_on() -> int:
    """Do not even let other threads run."""
    return sum(range(10**11))


def start_sleep() -> int:
    return subprocess.Popen(["sleep", "600"]).pid


def busy() -> None:
    """Is to be killed: one place has started a process, and holds on to its interpreter; place 0 has forked."""
    order("0:+1")
    started = at(places()[1], start_sleep)
    apgas.async_at(places()[1], hold_on)
    forked = os.fork()
    if forked == 0:
        time.sleep(600)
        os._exit(0)
    time.sleep(0.2)
    print("forked", forked, started, flush=True)
    threading.Event().wait()


def main(what: Callable[[], None]) -> None:
    apgas.define_malleable_handler(ReleaseNewest())
    what()


if __name__ == "__main__":
    if sys.argv[1] == "executors":
        executors()
    else:
        apgas.run(main, globals()[sys.argv[1]], **dict.fromkeys(sys.argv[2:], True))
    print("fine", flush=True)
