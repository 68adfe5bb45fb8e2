"""Grows onto host3, where newcomers die before they have joined, and onto host2; says how that went."""

from __future__ import annotations

import os
import signal
import time

import apgas
from apgas.testing.handlers import ReleaseNewest


def setup() -> None:
    if os.uname().nodename == "host3":
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    apgas.define_malleable_handler(ReleaseNewest())
    for done, host in enumerate(["host3", "host2"]):
        apgas.schedule_orders("0:+1", hosts=[host])
        while len(apgas.resizes()) <= done:
            time.sleep(0.01)
    print(*(record.outcome for record in apgas.resizes()), len(apgas.places()), flush=True)


if __name__ == "__main__":
    apgas.run(main, setup=setup)
