"""Orders for another number of workers: no place comes or goes, so the program's handler alone carries them out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Literal

from apgas.core.resize import ResizeRecord
from apgas.malleability.handler import MalleableHandler
from apgas.runtime import codec
from apgas.runtime.context import Scope, entered, pooled
from apgas.runtime.driver import Driver
from apgas.runtime.handlers import SerialCalls

_log = logging.getLogger("apgas.handler")


class WorkersOrders:
    """Hands such orders to the handler, behind its other calls.

    Args:
        driver: The place's.
        calls: The handler's calls, one after another.
        handler: Returns the program's handler.
        finished: Told how an order has ended, under the driver's lock.

    Attributes:
        zero_s: The clock when the times of the records began.
        calling: The thread that carries one out; 0: none.
    """

    def __init__(
        self,
        driver: Driver,
        calls: SerialCalls,
        handler: Callable[[], MalleableHandler | None],
        finished: Callable[[ResizeRecord], None],
    ) -> None:
        self._driver = driver
        self._calls = calls
        self._handler = handler
        self._finished = finished
        self.zero_s = 0.0
        self.calling = 0

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
        self.calling = threading.get_ident()
        error: BaseException | None = None
        finish = self._driver.open_finish()
        with entered(Scope(finish)), pooled(self._driver.chores.waiting):
            try:
                handler.setWorkers(count)
            except BaseException as raised:  # noqa: BLE001 - the program's error becomes the outcome's reason
                error = raised
            failures = self._driver.close_finish(finish)
        self.calling = 0
        error = error or (failures[0] if failures else None)
        if error is None:
            return "done", ""
        if isinstance(error, NotImplementedError):
            return "refused", str(error)
        _log.warning("setWorkers raised", exc_info=error)
        return "refused", f"setWorkers raised {codec.summary(error)}"
