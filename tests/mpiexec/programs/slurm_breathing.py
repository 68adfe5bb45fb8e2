"""Asks its scheduler for a node and offers it back, again and again."""

from __future__ import annotations

import sys
import time

import apgas
from apgas.testing.handlers import ReleaseNewest


def main(rounds: int) -> None:
    apgas.define_malleable_handler(ReleaseNewest())
    for _ in range(rounds):
        for ask, places in ((apgas.request_grow, 2), (apgas.offer_shrink, 1)):
            # the session is done with an order shortly after the program is, and refuses the next one until then
            while ask(1).result(600.0) == 0:
                time.sleep(0.02)
            while len(apgas.places()) != places:
                time.sleep(0.02)
    print("over", flush=True)


if __name__ == "__main__":
    apgas.run(main, int(sys.argv[1]))
