"""A program that grows and shrinks while it runs. `mpiexec -n 2 python elastic.py`."""

import os
import queue
from collections.abc import Sequence

import apgas


class Handler(apgas.MalleableHandler):
    """Called before and after every resize; every method runs on place 0."""

    def __init__(self) -> None:
        self.resized: queue.Queue[str] = queue.Queue()

    def preShrink(self, nb_places: int) -> list[apgas.Place]:
        """Chooses who leaves; this is the moment to move their data elsewhere."""
        return apgas.places()[-nb_places:]

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:
        """The processes have ended."""
        self.resized.put(f"gone: {[place.id for place in removed_places]}")

    def preGrow(self, nb_places: int) -> None:
        """New places are about to be started."""

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        """New places are there; this is the moment to give them work."""
        self.resized.put(f"new: {[place.id for place in new_places]}")


def main() -> None:
    """Grows by two after half a second and shrinks by one after a whole one."""
    handler = Handler()
    apgas.define_malleable_handler(handler)
    apgas.schedule_orders("0.5:+2,1:-1")  # a batch scheduler would send these
    for _ in range(2):
        print(handler.resized.get(), flush=True)
    pids = [apgas.at(place, os.getpid) for place in apgas.places()]
    print(f"{len(set(pids))} processes now, on places {[place.id for place in apgas.places()]}", flush=True)
    apgas.disable_malleable_handler()


if __name__ == "__main__":
    apgas.run(main)
