"""Orders for another number of workers: no place comes or goes, so the program's handler alone carries them out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Literal

from apgas.core.resize import ResizeRecord
from apgas.errors import UsageError
from apgas.malleability import core_ids
from apgas.malleability.core_ids import CoreIds
from apgas.malleability.handler import MalleableHandler
from apgas.malleability.orders import Workers
from apgas.runtime import codec
from apgas.runtime.driver import Driver
from apgas.runtime.handlers import SerialCalls
from apgas.runtime.methods import Methods

_log = logging.getLogger("apgas.handler")


class WorkersOrders:
    """Hands such orders to the handler, behind its other calls.

    Args:
        driver: The place's.
        calls: The handler's calls, one after another.
        methods: Runs the handler's methods.
        handler: Returns the program's handler.
        finished: Told how an order has ended, under the driver's lock.

    Attributes:
        zero_s: The clock when the times of the records began.
    """

    def __init__(
        self,
        driver: Driver,
        calls: SerialCalls,
        methods: Methods,
        handler: Callable[[], MalleableHandler | None],
        finished: Callable[[ResizeRecord], None],
    ) -> None:
        self._driver = driver
        self._calls = calls
        self._methods = methods
        self._handler = handler
        self._finished = finished
        self.zero_s = 0.0
        self._open: dict[int, tuple[int, float]] = {}
        self._told: CoreIds | None = None
        self._offered: CoreIds | None = None
        self._offers = False
        self._asked = False

    @property
    def core_ids(self) -> CoreIds | None:
        """The cores that the job may use, as far as its scheduler has said; those of an order for its ``setWorkers``.

        Raises:
            UsageError: What it has said in the environment makes no sense.
        """
        if self._offers and threading.get_ident() == self._methods.thread:
            return self._offered
        if not self._asked:
            try:
                self._told = core_ids.from_environment()
            except ValueError as error:
                raise UsageError(f"{core_ids.ENV_CORE_IDS}: {error}") from None
            self._asked = True
        return self._told

    def ordered(self, order: int, count: int, message: Workers | None = None) -> None:
        """Take an order, with what a scheduler has said of it; never blocks."""
        with self._driver.lock:
            self._open[order] = count, time.monotonic() - self.zero_s
            if self._handler() is None:
                # the handler's calls may be stuck in one that is not waited for
                self._finish(order, "refused", "no malleable handler is registered")
                return

        def carry_out() -> None:
            if order in self._open:
                outcome, reason = self._change(count, message)
                with self._driver.lock:
                    self._finish(order, outcome, reason)

        self._calls.add(carry_out)

    def end(self, why: str) -> None:
        """Refuse the orders that have not ended, also one whose method runs; under the driver's lock."""
        for order in list(self._open):
            self._finish(order, "refused", why)

    def _finish(self, order: int, outcome: Literal["done", "refused"], reason: str) -> None:
        if order in self._open:
            count, at_s = self._open.pop(order)
            seconds = time.monotonic() - self.zero_s - at_s
            self._finished(ResizeRecord(order, "workers", count, at_s, seconds, {}, outcome, reason, ()))

    def _change(self, count: int, message: Workers | None) -> tuple[Literal["done", "refused"], str]:
        """Call the handler in an activity with a finish of its own; return the outcome and why."""
        handler = self._handler()
        if handler is None:
            return "refused", "no malleable handler is registered"
        try:
            told = _told(message) if message is not None else self.core_ids
        except (UsageError, ValueError) as wrong:
            return "refused", str(wrong)
        self._offered, self._offers = told, True
        error = self._methods.run(lambda: handler.setWorkers(count))
        self._offers = False
        if error is None:
            self._told, self._asked = told, True
            return "done", ""
        if isinstance(error, NotImplementedError):
            return "refused", str(error)
        _log.warning("setWorkers raised", exc_info=error)
        return "refused", f"setWorkers raised {codec.summary(error)}"


def _told(message: Workers) -> CoreIds | None:
    return core_ids.read(message.core_ids, message.core_ids_of, bind=core_ids.binds())
