"""Grows, says where its places listen, and waits: by itself, for a line; under a scheduler, for the file named."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import apgas
from apgas.runtime.driver import required_driver
from apgas.testing.handlers import ReleaseNewest

FILE = "".join(sys.argv[1:])


def main() -> None:
    apgas.define_malleable_handler(ReleaseNewest())
    if not FILE:
        apgas.schedule_orders("0:+1", hosts=[])
    print("up", flush=True)
    while not apgas.resizes():
        time.sleep(0.01)
    members = required_driver().core.membership.members.values()
    print("ports", *(info.port for info in members), flush=True)
    print("doors", *(f"{info.host}:{info.port}" for info in members), flush=True)
    print("pids", *(info.pid for info in members), flush=True)
    while FILE and not Path(FILE).exists():
        time.sleep(0.02)
    if not FILE:
        sys.stdin.readline()
    print("alive", *(apgas.at(place, os.getpid) for place in apgas.places()), flush=True)


apgas.run(main)
