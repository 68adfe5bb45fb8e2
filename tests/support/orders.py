"""A handler that does what a test wants, and a program that waits for orders."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import apgas
from apgas import Deadlines, at, here, places
from apgas.testing.job import Job
from support.mpi import PATIENCE_S

SHORT_S = 0.05
"""A deadline for a step that is to miss it. The other steps keep theirs, which a busy machine does not reach."""


def last(count: int) -> list[apgas.Place]:
    return places()[-count:]


class Handler(apgas.MalleableHandler):
    """Does what a test wants in one of its methods, and what is right in the others."""

    def __init__(self, method: str = "", act: Callable[[], Any] = lambda: None) -> None:
        self.method = method
        self.act = act
        self.calls: list[str] = []

    def _called(self, method: str, otherwise: Any = None) -> Any:
        self.calls.append(method)
        if method == self.method:
            self.method = ""
            return self.act()
        return otherwise

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        chosen: Sequence[apgas.Place] = self._called("preShrink", last(nb_places))
        return chosen

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:
        self._called("postShrink")

    def preGrow(self, nb_places: int) -> None:
        self._called("preGrow")

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        self._called("postGrow")

    def shrinkAborted(self, places: Sequence[apgas.Place]) -> None:
        self._called("shrinkAborted")


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


def program(handler: Handler, orders: int, deadlines: Deadlines | None = None) -> list[int]:
    """Waits for that many orders; returns the ids of the places, each of which still works."""
    apgas.define_malleable_handler(handler, deadlines=deadlines)
    wait_for(lambda: len(apgas.resizes()) == orders)
    return [at(where, here).id for where in places()]


def reasons(job: Job[Any]) -> list[tuple[str, str]]:
    return [(record.outcome, record.reason) for record in job.resizes]


def fail() -> None:
    raise LookupError("no")
