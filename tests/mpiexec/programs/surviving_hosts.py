"""Loses all places of a host, whose name is its first argument, and grows again, onto all that its arguments name."""

from __future__ import annotations

import os
import sys
import time

import apgas
from apgas.testing.handlers import ReleaseNewest


def host_name() -> str:
    return os.uname().nodename


def main() -> None:
    apgas.define_malleable_handler(ReleaseNewest())
    print("ready", flush=True)
    while len(apgas.places()) > 1:
        time.sleep(0.01)
    print("left", host_name(), flush=True)
    apgas.schedule_orders(f"0:+{len(sys.argv) - 1}", hosts=sys.argv[1:])
    while not apgas.resizes():
        time.sleep(0.01)
    print("again", *(apgas.at(place, host_name) for place in apgas.places()), flush=True)


apgas.run(main)
