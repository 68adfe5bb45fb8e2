"""Calls the program's malleable handler: on place 0, one method at a time, each as an activity of its own."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import assert_never

from apgas.core.identity import Place
from apgas.core.resize import CallHandler
from apgas.malleability.handler import MalleableHandler
from apgas.runtime import naming

_log = logging.getLogger("apgas.handler")


@naming.runs("method")
def call_handler(
    handler: MalleableHandler, call: CallHandler, to_place: Callable[[int], Place]
) -> Sequence[int] | None:
    """Carry out one call; the ids that preShrink chose, None for the other methods.

    Raises:
        TypeError: preShrink returned something that is not a list of places.
    """
    first, method = [to_place(place) for place in call.first], call.method
    match method:
        case "preShrink":
            chosen: object = handler.preShrink(call.count)
            if not isinstance(chosen, Sequence) or not all(isinstance(place, Place) for place in chosen):
                raise TypeError(f"preShrink must return a list of places, not {chosen!r:.200}")
            return [place.id for place in chosen]
        case "postShrink":
            handler.postShrink(call.count, first)
        case "preGrow":
            handler.preGrow(call.count)
        case "postGrow":
            handler.postGrow(call.count, first, [to_place(place) for place in call.second])
        case "shrinkAborted":
            handler.shrinkAborted(first)
        case _:
            assert_never(method)
    return None


class SerialCalls:
    """Runs calls one after another, each on a thread of the executor."""

    def __init__(self, submit: Callable[[Callable[[], None]], None]) -> None:
        self._submit = submit
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = False

    def add(self, call: Callable[[], None]) -> None:
        """Run ``call`` behind those added before."""
        with self._lock:
            self._waiting.append(call)
            if self._busy:
                return
            self._busy = True
        self._submit(self._drain)

    def _drain(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return
                call = self._waiting.popleft()
            try:
                call()
            except BaseException:  # noqa: BLE001 - one failed call must not stop the line
                _log.exception("a handler call could not be carried out")
