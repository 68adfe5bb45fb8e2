"""Does what programs rarely do, in one place after another; prints "fine" if the job lived through it."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection

import numpy as np

import apgas
from apgas import async_, async_at, at, finish, here, place, places


class Unsendable(Exception):
    def __init__(self) -> None:
        super().__init__(threading.Lock())

    def __str__(self) -> str:
        raise RuntimeError("no text")


def check(condition: object, what: object) -> None:
    if not condition:
        raise AssertionError(what)


def fail() -> None:
    raise LookupError


def fail_awkwardly() -> None:
    raise Unsendable


def leave() -> None:
    sys.exit(5)


def leave_early(seen: apgas.GlobalRef[list[int]]) -> None:
    """Its finish waits although its body leaves."""
    with finish():
        async_(late, seen)
        sys.exit(3)


def late(seen: apgas.GlobalRef[list[int]]) -> None:
    time.sleep(0.1)
    at(seen.place, note, seen)


def note(seen: apgas.GlobalRef[list[int]]) -> None:
    seen.get().append(1)


def fail_often() -> None:
    for _ in range(5000):
        async_(fail)


def many_arrays() -> list[np.ndarray]:
    return [np.zeros(3) for _ in range(5000)]


def waits() -> bool:
    return async_(here).exception() is None


def many_waits() -> int:
    with finish():
        futures = [async_(waits) for _ in range(200)]
    return sum(future.result() for future in futures)


def raised(action: object, *args: object) -> BaseException | None:
    try:
        with finish():
            action(*args)  # type: ignore[operator]  # of any kind
    except BaseException as error:  # noqa: BLE001 - that is what is tested
        return error
    return None


def errors() -> None:
    group = raised(async_at, place(1), fail_often)
    check(isinstance(group, BaseExceptionGroup) and len(group.exceptions) == 5000, group)
    for where in places():
        for action, kind in ((fail_awkwardly, "Unsendable"), (leave, "SystemExit")):
            group = raised(async_at, where, action)
            check(isinstance(group, BaseExceptionGroup) and kind in repr(group), repr(group))
            group = raised(at, where, action)
            check(kind in repr(group), repr(group))


def free_there(ref: apgas.GlobalRef[str]) -> str:
    """Has an object with the same number as ``ref`` has at its home."""
    mine = apgas.GlobalRef("mine")
    check("use at(place(0)" in repr(raised(ref.free)), "freed from elsewhere")
    check("use at(place(0)" in repr(raised(ref.get)), "read from elsewhere")
    return mine.get()


def say_and_sleep(to: Connection) -> None:
    to.send("here")
    time.sleep(600)


def terminate_a_child() -> int:
    child = subprocess.Popen(["sleep", "600"])
    child.terminate()
    context = multiprocessing.get_context("fork")
    theirs, ours = context.Pipe()
    forked = context.Process(target=say_and_sleep, args=(theirs,))
    forked.start()
    ours.recv()
    forked.terminate()
    forked.join(600)
    return min(child.wait(600), forked.exitcode or 0, key=abs)


def references() -> None:
    ref = apgas.GlobalRef("kept")
    check(at(place(1), free_there, ref) == "mine", "an object of another place was freed")
    check(ref.get() == "kept", "freed")
    ref.free()
    check("has freed this reference" in repr(raised(ref.get)), "read after it was freed")
    inner: apgas.PlaceLocal[int] = apgas.PlaceLocal(lambda: 7)
    outer: apgas.PlaceLocal[int] = apgas.PlaceLocal(lambda: at(place(1), lambda: at(place(0), inner.get)))
    check(outer.get() == 7, "a factory that uses another place")


def main() -> None:
    references()
    check([at(where, terminate_a_child) for where in places()] == [-signal.SIGTERM] * len(places()), "a child lived")
    check(len(at(place(1), many_arrays)) == 5000, "arrays there")
    check(at(place(1), len, many_arrays()) == 5000, "arrays here")
    errors()
    with finish():
        check(not async_(time.sleep, 0.1).cancel(), "cancelled here")
        check(not async_at(place(1), time.sleep, 0.1).cancel(), "cancelled there")
    check(at(place(1), many_waits) == 200, "waits")
    seen: list[int] = []
    check("SystemExit(3)" in repr(raised(at, place(1), leave_early, apgas.GlobalRef(seen))), "left early")
    check(seen == [1], "the finish of an activity that left early did not wait")
    print("fine", flush=True)


if __name__ == "__main__":
    apgas.run(main)
