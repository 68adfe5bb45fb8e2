"""Logs and prints on every place, one that joined included; says on standard error who logged what."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Sequence

import apgas
from apgas import at, finish, here, immediate, place, places, uncounted


class Handler(apgas.MalleableHandler):
    """Has newcomers log as soon as they are there."""

    def __init__(self) -> None:
        self.grown = threading.Event()

    def preGrow(self, nb_places: int) -> None:
        logging.getLogger("program").info("grows")

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        for newcomer in new_places:
            at(newcomer, speak)
        self.grown.set()

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        return []

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:
        """Nothing shrinks here."""


def speak() -> None:
    logging.getLogger("program").info("at work")
    print("printed", end=" ")
    print("by", here())


def pass_by() -> None:
    logging.getLogger("program").info("passes by")


def main() -> None:
    apgas.configure_logging("INFO", format="%(levelname)s|%(place)s|%(activity)s|%(name)s|%(message)s")
    handler = Handler()
    apgas.define_malleable_handler(handler)
    logging.getLogger("program").info("begins")
    logging.getLogger("program").debug("hidden")
    with finish():
        for each in places():
            at(each, speak)
    immediate(place(0), pass_by)
    uncounted(place(0), pass_by)
    apgas.schedule_orders("0:+1")
    if not handler.grown.wait(600):
        raise AssertionError("nothing has grown")
    apgas.disable_malleable_handler()
    sys.stdout.write("unfinished")


if __name__ == "__main__":
    apgas.run(main)
