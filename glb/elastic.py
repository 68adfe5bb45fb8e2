"""The balancer's malleable handler: what happens to a computation when the job grows or shrinks."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import apgas
from glb import affinity
from glb.coordinator import Computation
from glb.errors import GlbError

LOOK_EVERY_S: Final = 0.1
"""How often an order that waits for a computation looks whether it is still wanted."""


class Elastic(apgas.MalleableHandler):
    """Registered once per program, by the first computation.

    Every change of a computation's members, its beginning and its end exclude each other (``changing``), so a resize
    that overlaps the end finds either a running computation or none. Between computations ``pre*`` waits.

    Attributes:
        changing: Held while members change; notified when ``current`` does.
        current: The computation that runs.
        user: The program's own handler, called in addition.
        bound: The cores on which the job is to compute only, if it was asked to.
    """

    def __init__(self) -> None:
        self.changing = threading.Condition()
        self.current: Computation[Any] | None = None
        self.user: apgas.MalleableHandler | None = None
        self.bound: apgas.CoreIds | None = None
        self._leaving: set[apgas.Place] = set()

    def members(self) -> list[apgas.Place]:
        """Return the places that a computation which begins now may use."""
        return [place for place in apgas.places() if place not in self._leaving]

    @contextmanager
    def _running(self, known: int) -> Iterator[Computation[Any] | None]:
        """Wait for a running computation and keep it from ending.

        Yields None if nobody waits for the order any more: it was withdrawn meanwhile, or took too long.

        Args:
            known: Number of resizes that had ended when the order was taken up.
        """
        with self.changing:
            while self.current is None and not _given_up(known):
                self.changing.wait(LOOK_EVERY_S)
            yield None if _given_up(known) else self.current

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        """Evacuate the places with the least work, or those that the program's handler chooses."""
        known = len(apgas.resizes())
        with self._running(known) as computation:
            if computation is None:
                return []
        named = self.user.preShrink(nb_places) if self.user is not None else ()
        chosen = [place if isinstance(place, apgas.Place) else apgas.place(place) for place in named]
        with self._running(known) as computation:
            if computation is None:
                return []
            leavers = chosen or computation.choose(nb_places)
            if any(place.id == 0 or place not in computation.members for place in leavers):
                raise GlbError(f"{nb_places} places are to leave, never place 0; chosen were {leavers}")
            computation.release(leavers)
            if _given_up(known):
                computation.readmit(leavers)
                return []
            self._leaving.update(leavers)
        return leavers

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:
        """The leavers are gone; everything was moved before."""
        with self.changing:
            self._leaving.difference_update(removed_places)
        if self.user is not None:
            self.user.postShrink(nb_places, removed_places)

    def preGrow(self, nb_places: int) -> None:
        """Wait for a computation that newcomers can join."""
        with self._running(len(apgas.resizes())) as computation:
            if computation is not None:
                computation.give_back_cores()
        if self.user is not None and computation is not None:
            self.user.preGrow(nb_places)

    def postGrow(
        self, nb_places: int, continued_places: Sequence[apgas.Place], new_places: Sequence[apgas.Place]
    ) -> None:
        """Let the newcomers join the running computation; the next one uses them anyway."""
        with self.changing:
            if self.current is not None:
                self.current.admit(new_places)
        if self.user is not None:
            self.user.postGrow(nb_places, continued_places, new_places)

    def setWorkers(self, nb_workers: int) -> None:
        """Change the workers of the computation that runs, and the cores on which they are.

        Raises:
            GlbError: None runs, or a place may not use such cores.
        """
        with self.changing:
            if self.current is None:
                raise GlbError("no computation runs whose workers could change")
            bound = affinity.told()
            self.current.bind(bound)
            self.current.set_workers(nb_workers, None)
            self.bound = bound

    def shrinkAborted(self, places: Sequence[apgas.Place]) -> None:
        """Take evacuated places back."""
        with self.changing:
            self._leaving.difference_update(places)
            if self.current is not None:
                self.current.readmit(places)
        if self.user is not None:
            self.user.shrinkAborted(places)

    def orderEnded(self, record: apgas.ResizeRecord) -> None:
        """Take place 0's share of the cores again if nobody came to whom it had given way."""
        with self.changing:
            if record.kind == "grow" and record.outcome != "done" and self.current is not None:
                self.current.share_cores()
        if self.user is not None:
            self.user.orderEnded(record)


def _given_up(known: int) -> bool:
    """Return whether the order that is being prepared was aborted; those that wait in line can only be refused."""
    return any(record.outcome == "aborted" for record in apgas.resizes()[known:])
