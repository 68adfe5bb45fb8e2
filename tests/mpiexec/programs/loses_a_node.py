"""Under a scheduler: loses a place, with it a node, and goes on until another job has run on that node."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import apgas
from apgas.testing.handlers import ReleaseNewest


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    apgas.define_malleable_handler(ReleaseNewest())
    victim = apgas.places()[-1]
    try:
        apgas.at(victim, die)
    except apgas.DeadPlaceError as error:
        print("lost", error.node, len(apgas.places()), flush=True)
    while not Path(sys.argv[1]).exists():
        time.sleep(0.02)
    print("fine", flush=True)


if __name__ == "__main__":
    apgas.run(main)
