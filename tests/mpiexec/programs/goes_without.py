"""Waits until a file is there, whatever places are lost meanwhile, and says how many there are then."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import apgas
from apgas.testing.handlers import ReleaseNewest


def main() -> None:
    apgas.define_malleable_handler(ReleaseNewest())
    print("up", flush=True)
    while not Path(sys.argv[1]).exists():
        time.sleep(0.02)
    print(len(apgas.places()), "places", flush=True)


if __name__ == "__main__":
    apgas.run(main)
