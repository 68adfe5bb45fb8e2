"""Under a scheduler: never finds the phase in which it could grow or shrink; goes on without a node that it loses."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import apgas
from apgas.testing.handlers import ReleaseNewest


class Hesitant(ReleaseNewest):
    def preGrow(self, nb_places: int) -> None:
        print(f"asked to grow by {nb_places}", flush=True)
        time.sleep(600)

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        print(f"asked to shrink by {nb_places}", flush=True)
        time.sleep(600)
        return super().preShrink(nb_places)


class Waiting(ReleaseNewest):
    def postGrow(self, nb_places: int, continued_places: object, new_places: object) -> None:
        print(f"on {' '.join(sorted(place.node for place in apgas.places()))}", flush=True)


def main(mood: str) -> None:
    apgas.define_malleable_handler(Hesitant() if mood == "hesitant" else Waiting())
    print("up on", *sorted(place.node for place in apgas.places()), flush=True)
    before = len(apgas.places())
    while len(apgas.places()) >= before:
        before = max(before, len(apgas.places()))
        time.sleep(0.05)
    print("went on without a node", flush=True)


if __name__ == "__main__":
    apgas.run(main, sys.argv[1])
