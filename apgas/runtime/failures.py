"""What a program does when a place of a resilient job has died: ``on_place_failure``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from apgas.core.identity import Place
from apgas.runtime import current
from apgas.runtime.context import Scope, entered, pooled
from apgas.runtime.driver import Driver
from apgas.runtime.handlers import SerialCalls
from apgas.runtime.place_state import PlaceState

_log = logging.getLogger("apgas.failures")


class PlaceFailures:
    """The handler of one place; called for one dead place after another."""

    def __init__(self, driver: Driver) -> None:
        self.handler: Callable[[Place], Any] | None = None
        self._driver = driver
        self._calls = SerialCalls(driver.chores.submit)
        self._put_off: list[Place] = []
        driver.on_place_died.append(self._died)
        driver.on_stay.append(self._stays)

    def _died(self, place: Place) -> None:
        self._calls.add(lambda: self._call(place))

    def _stays(self) -> None:
        with self._driver.lock:
            missed, self._put_off = self._put_off, []
        for place in missed:
            self._died(place)

    def _call(self, place: Place) -> None:
        """Run the handler as an activity under a finish of its own."""
        handler = self.handler
        if handler is None:
            return
        with self._driver.lock:
            if self._driver.core.drained:
                # this place is about to be released; should it stay after all, it hears of the death then
                self._put_off.append(place)
                return
            finish = self._driver.open_finish()
        with current.working_for(self._driver), entered(Scope(finish)), pooled(self._driver.chores.waiting):
            try:
                handler(place)
            except BaseException:  # noqa: BLE001 - the program's error is told, and the job goes on
                _log.exception("the place failure handler failed for %s", place)
            for error in self._driver.close_finish(finish):
                _log.error("an activity of the place failure handler failed", exc_info=error)


_failures = PlaceState(lambda: PlaceFailures(current.required()))


def on_place_failure(handler: Callable[[Place], Any] | None) -> None:
    """Have ``handler`` called on this place whenever a place of a resilient job has died.

    It is called with the dead place, as an activity of its own, once the members are without that place: ``places()``
    does not list it any more. Finishes hear of what was lost by themselves (``DeadPlaceError``). Each place has its own
    handler; in a job that is not resilient it is never called, for there the loss of a place ends the job.

    Args:
        handler: What to call; it replaces the one before. None: nothing. What it raises is logged.

    Raises:
        UsageError: Called outside of ``apgas.run``.

    Example:
        >>> import apgas
        >>> def main():
        ...     apgas.on_place_failure(lambda place: print(place, "is lost"))
        >>> apgas.run(main)  # doctest: +SKIP
    """
    _failures.get().handler = handler
