"""Orders for another number of workers: no place comes or goes, so the program's handler alone carries them out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Literal

from apgas.core.resize import ResizeRecord
from apgas.malleability.handler import MalleableHandler
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

    def ordered(self, order: int, count: int) -> None:
        """Take an order; never blocks."""
        at_s = time.monotonic() - self.zero_s

        def carry_out() -> None:
            outcome, reason = self._change(count)
            seconds = time.monotonic() - self.zero_s - at_s
            with self._driver.lock:
                self._finished(ResizeRecord(order, "workers", count, at_s, seconds, {}, outcome, reason, ()))

        self._calls.add(carry_out)

    def _change(self, count: int) -> tuple[Literal["done", "refused"], str]:
        """Call the handler in an activity with a finish of its own; return the outcome and why."""
        handler = self._handler()
        if handler is None:
            return "refused", "no malleable handler is registered"
        error = self._methods.run(lambda: handler.setWorkers(count))
        if error is None:
            return "done", ""
        if isinstance(error, NotImplementedError):
            return "refused", str(error)
        _log.warning("setWorkers raised", exc_info=error)
        return "refused", f"setWorkers raised {codec.summary(error)}"
