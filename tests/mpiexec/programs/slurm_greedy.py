"""Asks its scheduler for a further node again and again, until a file is there."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import apgas
from apgas.testing.handlers import ReleaseNewest


class Talking(ReleaseNewest):
    def postGrow(self, nb_places: int, continued_places: object, new_places: object) -> None:
        print(f"grown by {nb_places}", flush=True)


def main(end: str) -> None:
    apgas.define_malleable_handler(Talking())
    while not Path(end).exists():
        apgas.request_grow(1).result(600.0)
        time.sleep(0.1)
    print("over", flush=True)


if __name__ == "__main__":
    apgas.run(main, sys.argv[1])
