"""Grows by a place, prints all process ids, and loses one of its places in a way of one's choice."""

from __future__ import annotations

import os
import signal
import sys
import time

import apgas
from apgas.testing.handlers import ReleaseNewest


def die(how: str) -> None:
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "abort":
        os.abort()
    os._exit(int(how.removeprefix("exit")))


def main() -> None:
    apgas.define_malleable_handler(ReleaseNewest())
    apgas.schedule_orders("0:+1", hosts=[])
    while not apgas.resizes():
        time.sleep(0.01)
    print("pids", *(apgas.at(place, os.getpid) for place in apgas.places()), flush=True)
    victim = apgas.places()[int(sys.argv[2])]
    if victim == apgas.here():
        die(sys.argv[1])
    apgas.async_at(victim, die, sys.argv[1])
    time.sleep(600)


apgas.run(main)
