"""Jobs that size themselves: measures the program now and then, and asks for nodes, or gives some back.

What is wanted is decided in ``apgas.malleability.sizing``. A thread on place 0 brings it the measurements, carries its
wishes to the scheduler, or out where there is none, and reports what became of them. Between two looks it sleeps.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import cycle, islice
from typing import Final, TypeAlias

import msgspec

from apgas.errors import ApgasError, UsageError
from apgas.malleability.sizing import Controller, Measured, Sizing
from apgas.runtime.context import Future
from apgas.runtime.driver import keep_driver, required_driver
from apgas.runtime.program import program
from apgas.runtime.resizing import Resizing

_log = logging.getLogger("apgas.sizing")

Measure: TypeAlias = Callable[[], Measured | None]
"""Says what was measured since it was called last; None: nothing now, as between two computations."""
_LOOKS: Final = 2
"""Looks in a window."""
_RATE_OVER: Final = 8 * _LOOKS
"""Looks over which the speed is taken from which the end is foreseen."""
_MOST_KEPT: Final = 100_000


class Look(msgspec.Struct, frozen=True):
    """One look of a job at itself.

    Attributes:
        at_s: When, by ``time.monotonic``.
        nodes: How many it had.
        efficiency: The share of their time that went into work.
        wanted: By how many nodes it wanted to change.
    """

    at_s: float
    nodes: int
    efficiency: float
    wanted: int


class SelfSizing:
    """Sizes the program until it ends, or ``stop`` is called. See ``hold_efficiency``.

    Args:
        sizing: How.
        measure: Where measurements come from.

    Attributes:
        looks: What was measured and wanted so far; the last 100,000.
    """

    def __init__(self, sizing: Sizing, measure: Measure) -> None:
        self.looks: deque[Look] = deque(maxlen=_MOST_KEPT)
        self._resizing: Resizing = program().resizing
        if sizing.max_nodes is None and self._resizing.communicator is None and not sizing.hosts:
            most = len(os.sched_getaffinity(0)) // self._resizing.places_per_node
            sizing = msgspec.structs.replace(sizing, max_nodes=max(sizing.min_nodes, most))
        self._sizing = sizing
        self._controller = Controller(sizing)
        self._measure = measure
        self._hosts = cycle(sizing.hosts)
        self._answer: Future[int] | None = None
        self._ordered: int | None = None  # how many orders had ended when one was granted
        self._progress: deque[tuple[float, float]] = deque(maxlen=_RATE_OVER)
        self._over = threading.Event()
        self._driver = required_driver()
        threading.Thread(target=self._follow, name="apgas-sizing", daemon=True).start()

    @property
    def reversals(self) -> int:
        """How often the job has changed from growing to shrinking, or back."""
        return self._controller.reversals

    def looks_since(self, began_s: float) -> list[Look]:
        """Return what was measured and wanted lately.

        Args:
            began_s: Since when, by ``time.monotonic``.

        Returns:
            The looks since then, in their order, with times that are counted from then.
        """
        replace = msgspec.structs.replace
        return [replace(look, at_s=look.at_s - began_s) for look in tuple(self.looks) if look.at_s >= began_s]

    def stop(self) -> None:
        """Keep the size from now on; what was asked for already may still come."""
        self._over.set()

    def _follow(self) -> None:
        keep_driver(self._driver)
        while not self._over.wait(self._sizing.window_s / _LOOKS):
            if not self._resizing.takes_orders:
                return
            try:
                self._look()
            except ApgasError as error:  # the program gives its handler up, or ends
                _log.info("the job keeps its size: %s", error)
                return
            except Exception:  # noqa: BLE001 - whatever the measuring raises, the job goes on at its size
                _log.exception("the job keeps its size, for it cannot be measured")
                return

    def _look(self) -> None:
        """Pass answers on, measure, and ask."""
        now = time.monotonic()
        if self._answer is not None and self._answer.done():
            granted, self._answer = self._answer.result(), None
            self._controller.answered(granted, now)
            if not granted:
                self._ordered = None
        if self._ordered is not None and self._answer is None:
            ended = self._resizing.records[self._ordered :]
            if any(record.outcome != "done" for record in ended):
                self._controller.answered(0, now)
            if ended:
                self._ordered = None
        measured = self._measure()
        if measured is None:
            return
        if measured.remaining_s is None:
            measured = msgspec.structs.replace(measured, remaining_s=self._remaining_s(now))
        wanted = self._controller.measured(measured)
        self.looks.append(Look(measured.at_s, measured.nodes, measured.efficiency, wanted))
        if wanted:
            _log.info("%s: wants %+d nodes", self._controller.why, wanted)
            self._ask(wanted)

    def _ask(self, delta: int) -> None:
        self._ordered = len(self._resizing.records)
        if self._resizing.communicator is not None:
            self._answer = self._resizing.request(delta)
            return
        self._resizing.order_now(delta, tuple(islice(self._hosts, max(0, delta))))
        self._controller.answered(delta, time.monotonic())

    def _remaining_s(self, now: float) -> float | None:
        """How long the program still lasts, by the progress that it reports; None: it does not say of how much."""
        done, total = self._resizing.progressed
        if self._progress and done < self._progress[-1][1]:
            self._progress.clear()  # it begins anew
        self._progress.append((now, done))
        began_s, before = self._progress[0]
        if total is None or done <= before:
            return None
        return max(0.0, total - done) * (now - began_s) / (done - before)


def hold_efficiency(target: float | Sizing, measure: Measure) -> SelfSizing:
    """(place 0) Let the program size itself: it asks for nodes, or gives some back, to hold an efficiency.

    With a scheduler these are evolving requests like those of ``request_grow`` and ``offer_shrink``, and the policy
    decides. Without one the program gives itself orders. ``glb`` does this by itself (``Config.target_efficiency``);
    this is for programs and libraries that measure themselves.

    Args:
        target: The share of the nodes' time, from 0 to 1, that is to go into work; or all settings.
        measure: Called every ``window_s`` on a thread of its own; says what share of its time each node worked since
            it was called last, or None. It has to return soon, and best reads what the program counts anyway.

    Returns:
        What stops it, and what was measured so far.

    Raises:
        UsageError: Not on place 0, no handler is registered, or a setting is out of range.

    Example:
        >>> import time
        >>> from apgas.testing.handlers import ReleaseNewest
        >>> apgas.define_malleable_handler(ReleaseNewest())
        >>> def measure():  # one of two nodes works
        ...     return apgas.Measured(time.monotonic(), 0.01, [1.0, 0.0][: len(apgas.nodes())])
        >>> sizing = apgas.hold_efficiency(apgas.Sizing(target=0.9, window_s=0.01, max_nodes=2), measure)
        >>> apgas.schedule_orders("0:+1")
        >>> while len(apgas.resizes()) < 2:
        ...     time.sleep(0.01)
        >>> sizing.stop()
        >>> [(record.kind, record.n, record.outcome) for record in apgas.resizes()]
        [('grow', 1, 'done'), ('shrink', 1, 'done')]
    """
    sizing = Sizing.of(target)
    if not program().resizing.takes_orders:
        raise UsageError("only a program with a malleable handler can size itself")
    return SelfSizing(sizing, measure)
