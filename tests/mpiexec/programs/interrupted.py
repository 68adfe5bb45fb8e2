"""Is interrupted, in its program or afterwards, and does about it what the command line says."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import apgas
from apgas.runtime import driver, process, watchdog


def wait() -> None:
    """Longer than anybody has patience."""
    print("waiting", flush=True)
    threading.Event().wait()


def ends() -> None:
    """Ends well, before the interrupt."""


def cleans_up_and_exits() -> None:
    """Ends in good order, with a code of its own."""
    try:
        wait()
    except KeyboardInterrupt:
        sys.exit(3)


def goes_on_and_fails() -> None:
    """Takes the interrupt for a reason to go on, and has a defect in what follows."""
    try:
        wait()
    except KeyboardInterrupt:
        print("goes on")
    raise LookupError("afterwards, on purpose")


def fails_to_clean_up() -> None:
    """Has a defect in what it does because of the interrupt."""
    try:
        wait()
    except KeyboardInterrupt:
        raise LookupError("within, on purpose")  # noqa: B904 - as a defect does


def in_the_middle() -> None:
    """Is interrupted by itself, in the middle of a change of the runtime's, which must not be left half way."""
    with driver.required_driver().lock:
        signal.raise_signal(signal.SIGTERM)
        print("changed", flush=True)
    wait()


class Last:
    """Is interrupted while it is destroyed, where Python drops what is raised."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def in_a_destructor() -> None:
    """Is interrupted by the destructor of an object."""
    Last()
    wait()


def wakes_nobody() -> None:
    """Is interrupted on another thread, which wakes the main thread as little as a signal just before its wait does."""
    threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)).start()
    wait()


def hears_by_itself() -> None:
    """Has a handler of its own, which is called once for each signal."""
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    print("waiting", flush=True)
    until = time.monotonic() + 30
    while not heard and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(5 * watchdog.REMIND_S)
    print("heard", len(heard), flush=True)
    os._exit(0)


def is_ahead() -> None:
    """Is interrupted while no other place has begun."""
    wait()


def begin_late(start: process.Start) -> driver.Driver:
    """Meet the others, and be slow with the rest."""
    time.sleep(60)
    return build(start)


MAINS = (
    ends,
    cleans_up_and_exits,
    goes_on_and_fails,
    fails_to_clean_up,
    in_the_middle,
    in_a_destructor,
    wakes_nobody,
    hears_by_itself,
    is_ahead,
)

if __name__ == "__main__":
    if sys.argv[1] == is_ahead.__name__ and os.environ["PMI_RANK"] != "0":
        build, process.build = process.build, begin_late
    apgas.run({main.__name__: main for main in MAINS}[sys.argv[1]])
    wait()
