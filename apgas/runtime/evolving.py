"""What the program asks of the scheduler, until that answers."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable

from apgas.malleability import orders as o
from apgas.runtime.context import Future

_log = logging.getLogger("apgas.resize")


class Requests:
    """Requests for nodes, and offers of them, that are not answered yet.

    Args:
        tell: Sends a message to the scheduler, if there is one.
    """

    def __init__(self, tell: Callable[[o.Message], None]) -> None:
        self._tell = tell
        self._open: dict[int, Future[int]] = {}
        self._numbers = itertools.count()

    def ask(self, delta: int, *, anybody: bool) -> Future[int]:
        """Ask for ``delta`` nodes more, or offer nodes back; the future is what is granted, 0 if nobody is asked."""
        future: Future[int] = Future()
        if not anybody:
            future.set_result(0)
            return future
        number = next(self._numbers)
        self._open[number] = future
        self._tell(o.Evolving(number, delta))
        return future

    def answered(self, answer: o.Answer) -> None:
        """Take an answer of the scheduler."""
        _log.info("the scheduler answered request %d: %+d nodes %s", answer.request, answer.granted, answer.reason)
        self._grant(answer.request, answer.granted)

    def give_up(self) -> None:
        """Nothing more will be answered."""
        for request in list(self._open):
            self._grant(request, 0)

    def _grant(self, request: int, nodes: int) -> None:
        future = self._open.pop(request, None)
        if future is not None:
            future.set_result(nodes)
