"""Asks its scheduler for a node, for more than there are, and gives one back."""

from __future__ import annotations

import time

import apgas
from apgas.testing.handlers import ReleaseNewest


def until_on(hosts: list[str]) -> None:
    while sorted(place.node for place in apgas.places()) != hosts:
        time.sleep(0.02)


def main() -> None:
    apgas.define_malleable_handler(ReleaseNewest())
    print("granted", apgas.request_grow(1).result(600.0), flush=True)
    until_on(["host1", "host2"])
    # the session is done with an order shortly after the program is
    while (refused := apgas.request_grow(9).result(600.0)) != 0:
        time.sleep(0.02)
    while (granted := apgas.offer_shrink(1).result(600.0)) == 0:
        time.sleep(0.02)
    print("then", refused, granted, flush=True)
    until_on(["host1"])
    print("over", flush=True)


if __name__ == "__main__":
    apgas.run(main)
