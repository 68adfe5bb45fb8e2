"""Freezes a place (SIGSTOP) around resizes and thaws it; prints "fine" if the job lived through it.

Argument: shrink, grow, forever or end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import apgas
from apgas import at, finish, here, places
from apgas.testing.handlers import ReleaseNewest

DEADLINES = apgas.Deadlines(pre_s=20, spawn_s=60, drain_s=5, release_s=20, post_s=20)
"""Orders after the thaw have to meet them, too, on a busy machine."""


class Handler(ReleaseNewest):
    """Releases the highest ids and remembers what was undone."""

    def __init__(self) -> None:
        self.undone: list[int] = []

    def shrinkAborted(self, places: Sequence[apgas.Place]) -> None:
        self.undone += [place.id for place in places]


def order(change: str) -> apgas.ResizeRecord:
    before = len(apgas.resizes())
    apgas.schedule_orders(f"0:{change}")
    until = time.monotonic() + 600
    while len(apgas.resizes()) == before and time.monotonic() < until:
        time.sleep(0.005)
    return apgas.resizes()[-1]


def check(condition: object, what: object) -> None:
    if not condition:
        raise AssertionError(what)


def roll_call() -> list[int]:
    """Every place calls every place."""
    with finish():
        answers = [apgas.async_at(place, lambda: [at(other, here).id for other in places()]) for place in places()]
    everybody = [place.id for place in places()]
    check(all(answer.result() == everybody for answer in answers), everybody)
    return everybody


def freeze(pid: int) -> None:
    """Stop a process, and wait until all its threads stand still."""
    os.kill(pid, signal.SIGSTOP)
    while any(_state(thread) != "T" for thread in Path(f"/proc/{pid}/task").iterdir()):
        time.sleep(0.001)


def _state(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


def main() -> None:
    how = sys.argv[1]
    handler = Handler()
    apgas.define_malleable_handler(handler, deadlines=DEADLINES)
    check(roll_call() == [0, 1, 2], "at the start")
    last = places()[-1]
    frozen = at(last, os.getpid)
    freeze(frozen)
    print("frozen", flush=True)
    if how == "forever":
        threading.Event().wait()
    if how == "end":
        return
    change = {"shrink": "-1", "grow": "+1"}[how]
    record = order(change) if how == "shrink" else grow_meanwhile(frozen)
    os.kill(frozen, signal.SIGCONT)
    if how == "shrink":
        check(record.outcome == "aborted" and "did not drain" in record.reason, record)
        check(handler.undone == [last.id], handler.undone)
        check(roll_call() == [0, 1, 2], "after the thaw")
    check(order("+1").outcome == "done", apgas.resizes())
    check(len(roll_call()) == 4 + (record.outcome == "done"), record)
    check(order("-2").outcome == "done", apgas.resizes())
    roll_call()
    print("fine", record.outcome, flush=True)


def grow_meanwhile(frozen: int) -> apgas.ResizeRecord:
    """Grow while a member is frozen; where that member is needed for it, the deadline or the thaw ends the order."""
    thaw = threading.Timer(4.0, os.kill, (frozen, signal.SIGCONT))
    thaw.start()
    record = order("+1")
    thaw.cancel()
    return record


if __name__ == "__main__":
    apgas.run(main)
