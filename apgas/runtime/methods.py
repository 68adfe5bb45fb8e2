"""Runs methods of the program's malleable handler as what they are: activities that may spawn, wait and fail."""

from __future__ import annotations

import threading
from collections.abc import Callable

from apgas.runtime.context import Scope, entered, pooled
from apgas.runtime.driver import Driver


class Methods:
    """Runs one method at a time, each under a finish of its own.

    Args:
        driver: Of place 0; its chores are the threads that this is called on.

    Attributes:
        thread: The thread that runs one; 0: none.
    """

    def __init__(self, driver: Driver) -> None:
        self.thread = 0
        self._driver = driver

    def run(self, method: Callable[[], object]) -> BaseException | None:
        """Run ``method`` and all that it spawns; returns what it raised, or else what it had spawned."""
        error: BaseException | None = None
        self.thread = threading.get_ident()
        finish = self._driver.open_finish()
        with entered(Scope(finish)), pooled(self._driver.chores.waiting):
            try:
                method()
            except BaseException as raised:  # noqa: BLE001 - the program's error becomes the outcome's reason
                error = raised
            failures = self._driver.close_finish(finish)
        self.thread = 0
        return error or (failures[0] if failures else None)
