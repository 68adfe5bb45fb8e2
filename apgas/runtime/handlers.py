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
            try:
                if not isinstance(chosen, Sequence):
                    raise TypeError
                return [Place.number(place) for place in chosen]
            except TypeError:
                text = f"preShrink must return a list of places, or of their ids, not {chosen!r:.200}"
                raise TypeError(text) from None
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
    """Runs calls one after another, each on a thread of the executor.

    Args:
        submit: The executor's.
        on_idle: Called when none is left.
    """

    def __init__(
        self, submit: Callable[[Callable[[], None]], None], on_idle: Callable[[], None] = lambda: None
    ) -> None:
        self._submit = submit
        self._on_idle = on_idle
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = False

    @property
    def busy(self) -> bool:
        """Whether a call runs or waits."""
        return self._busy

    def add(self, call: Callable[[], None], *, next_: bool = False) -> None:
        """Run ``call`` behind those added before, or, if it is to be the next one, before those that wait.

        Raises:
            RuntimeError: There is no thread for it; it will not run.
        """
        with self._lock:
            if next_:
                self._waiting.appendleft(call)
            else:
                self._waiting.append(call)
            if self._busy:
                return
            self._busy = True
        try:
            self._submit(self._drain)
        except RuntimeError:  # there is no thread for it
            with self._lock:
                self._busy = False
                self._waiting.remove(call)
            raise

    def _drain(self) -> None:
        while True:
            with self._lock:
                call = self._waiting.popleft() if self._waiting else None
                self._busy = call is not None
            if call is None:
                self._on_idle()
                return
            try:
                call()
            except BaseException:  # noqa: BLE001 - one failed call must not stop the line
                _log.exception("a handler call could not be carried out")
