"""Sends what the state machine of a place wants sent, and starts its workers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import cloudpickle

import apgas
from glb import messages
from glb.bag import Bag, Result
from glb.core.effects import Give, Message, Refuse, Request

R = TypeVar("R", bound=Result)


class Sender(Generic[R]):
    """The ways out of one place in one computation.

    Args:
        number: The computation.
        places: All places of it.
        undo: Tells the state machine that a bag could not be given, under the place's lock.
    """

    def __init__(self, number: int, places: Iterable[apgas.Place], undo: Callable[[Give[R]], None]) -> None:
        self._number = number
        self._here = apgas.here()
        self._places = {place.id: place for place in places}
        self._undo = undo

    def know(self, places: Iterable[apgas.Place]) -> None:
        """Learn of more places."""
        self._places.update((place.id, place) for place in places)

    def start(self, slot: int, bag: Bag[R]) -> None:
        """Start a worker, in an activity of the computation's finish."""
        apgas.async_(messages.work, self._number, slot, bag)

    def say(self, message: Message) -> None:
        """Ask a place for work, or refuse it some."""
        to = self._places[message.to]
        match message:
            case Request():
                apgas.trace_instant("asks", "glb", place=message.to)
                apgas.immediate(to, messages.requested, self._number, self._here, message.nonce)
            case Refuse():
                apgas.immediate(to, messages.refused, self._number, message.nonce)

    def attend(self) -> None:
        """Start the attendant, in an activity of the computation's finish."""
        apgas.async_(messages.attend, self._number)

    def give(self, give: Give[R], own: Bag[R] | None) -> int:
        """Give a bag away; if its taker is gone it goes back into ``own``, or to place 0 (evacuation, or no ``own``).

        Returns:
            Its bytes, if it was given to whom it was meant for.
        """
        size_bytes = _size_bytes(give.bag)
        try:
            apgas.async_at(self._places[give.to], messages.receive, self._number, give.bag, give.nonce)
        except apgas.PlaceGoneError:
            if own is None or give.why == "evacuation":
                self.forward(0, give.bag)
            else:
                self._undo(give)
                own.merge(give.bag)
            return 0
        apgas.trace_instant(f"gives ({give.why})", "glb", place=give.to, bytes=size_bytes)
        return size_bytes

    def forward(self, to: int, bag: Bag[R]) -> None:
        """Pass a bag on; to place 0 if ``to`` is gone."""
        try:
            apgas.async_at(self._places[to], messages.receive, self._number, bag, None)
        except apgas.PlaceGoneError:
            apgas.async_at(apgas.place(0), messages.receive, self._number, bag, None)

    def tell_progress(self, tasks: int) -> None:
        """Tell place 0 how much was processed here so far."""
        apgas.immediate(apgas.place(0), messages.progressed, self._number, self._here.id, tasks)

    def fail(self, reason: str) -> None:
        """Tell place 0 that the computation has failed here."""
        apgas.immediate(apgas.place(0), messages.failed, self._number, reason)


def _size_bytes(bag: object) -> int:
    """Return the bytes that ``bag`` takes on the way; classes of the main program count with their code."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        body = pickle.dumps(bag, protocol=5, buffer_callback=buffers.append)
    except (pickle.PicklingError, AttributeError, TypeError):
        buffers.clear()
        body = cloudpickle.dumps(bag, protocol=5, buffer_callback=buffers.append)
    return len(body) + sum(buffer.raw().nbytes for buffer in buffers)
