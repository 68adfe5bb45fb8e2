"""Resizes with handlers that misbehave; prints "fine" if every order had a clear outcome."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

import apgas
from apgas import at, places
from apgas.testing.handlers import ReleaseNewest


class Handler(ReleaseNewest):
    """Leaves by SystemExit before it grows first, and gives itself up after it has grown."""

    def __init__(self) -> None:
        self.grows = 0
        self.said = ""

    def preGrow(self, nb_places: int) -> None:
        self.grows += 1
        if self.grows == 1:
            sys.exit("not now")

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        try:
            apgas.disable_malleable_handler()
        except apgas.UsageError as error:
            self.said = str(error)


def check(condition: object, what: object) -> None:
    if not condition:
        raise AssertionError(what)


def leave_from_a_finish() -> None:
    with apgas.finish():
        sys.exit(3)


def refusal(action: Callable[..., object], *args: object) -> str:
    try:
        action(*args)
    except apgas.UsageError as error:
        return str(error)
    return ""


def wait_for(orders: int) -> None:
    until = time.monotonic() + 600
    while len(apgas.resizes()) < orders and time.monotonic() < until:
        time.sleep(0.005)
    check(len(apgas.resizes()) >= orders, apgas.resizes())


def main() -> None:
    handler = Handler()
    check("with a malleable handler" in refusal(apgas.request_grow, 1), "asked without a handler")
    check("finite" in refusal(apgas.progress, float("nan")), "progress that is no number")
    apgas.progress(np.int64(3), np.float32(4))  # type: ignore[arg-type]  # wrong on purpose
    apgas.define_malleable_handler(handler)
    apgas.schedule_orders("0:+1")
    wait_for(1)
    record = apgas.resizes()[0]
    check((record.outcome, record.reason) == ("aborted", "preGrow raised SystemExit: not now"), record)
    apgas.schedule_orders("0:+1")
    wait_for(2)
    check(apgas.resizes()[1].outcome == "done", apgas.resizes())
    check("cannot give it up" in handler.said, handler.said)
    last = places()[-1]
    ref = at(last, apgas.GlobalRef, "there")
    with suppress(SystemExit):  # what leave_from_a_finish raises
        at(last, leave_from_a_finish)
    apgas.schedule_orders("0:-1")
    wait_for(3)
    check(apgas.resizes()[2].outcome == "done", apgas.resizes())
    interpreter, sys.executable = sys.executable, "/no/python"
    apgas.schedule_orders("0:+1")
    wait_for(4)
    record = apgas.resizes()[3]
    said = "no place can start on this host: /no/python is not there any more"
    check((record.outcome, record.reason) == ("aborted", said), record)
    sys.executable = interpreter
    try:
        ref.get()
    except apgas.PlaceGoneError as error:
        check("has left" in str(error), error)
        print("fine", flush=True)


if __name__ == "__main__":
    apgas.run(main)
