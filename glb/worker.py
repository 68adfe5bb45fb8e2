"""A worker: processes a bag, and attends to its place between two calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from glb.bag import Bag, Result
from glb.core.effects import Effect
from glb.core.place import PlaceCore
from glb.errors import BagError
from glb.statistics import size_of

if TYPE_CHECKING:
    from threading import Condition

    from glb.slots import Slot

R = TypeVar("R", bound=Result)


class Worker(Generic[R]):
    """One worker, from its bag to the end of its activity.

    Args:
        slot: Where it works.
        core: The state machine of its place.
        changed: The place's lock; notified when a worker that pauses should look.
        carry_out: Carries out what a look leads to; True: the worker is to end.
        report: Told after each call of ``process`` what time it is.
    """

    def __init__(
        self,
        slot: Slot,
        core: PlaceCore[R],
        changed: Condition,
        carry_out: Callable[[list[Effect[R]], Slot, Bag[R]], bool],
        report: Callable[[Slot, Bag[R], float], None],
    ) -> None:
        self._slot = slot
        self._core = core
        self._changed = changed
        self._carry_out = carry_out
        self._report = report

    def process(self, bag: Bag[R]) -> None:
        """Process ``bag`` until there is nothing left to do."""
        core, own, clock = self._core, self._slot, time.monotonic
        granularity, pacer = own.granularity, own.pacer
        own.held = size_of(bag)
        if pacer is not None:
            pacer.resume(clock())
        # having looked before a long call, a worker looks after it, too
        while not ((core.attention or granularity.long or own.away) and self._look(bag)):
            before = bag.work
            start = clock()
            more = bag.process(granularity.n)
            now = clock()
            done = bag.work - before
            own.tasks += done
            own.busy_s += now - start
            granularity.observe(done, now - start)
            self._report(own, bag, now)
            if pacer is not None and self._pause(bag, pacer.done(done, now)):
                return
            if not more and _is_empty(bag, done) and self._dry(bag):
                return

    def _look(self, bag: Bag[R]) -> bool:
        own = self._slot
        own.away = own.granularity.long
        return self._turn(self._core.look, bag)

    def _dry(self, bag: Bag[R]) -> bool:
        return self._turn(self._core.dry, bag)

    def _turn(self, turn: Callable[[int, Bag[R], int], list[Effect[R]]], bag: Bag[R]) -> bool:
        core, own = self._core, self._slot
        with self._changed:
            before = core.calls
            effects = turn(own.number, bag, own.granularity.n if own.granularity.long else 0)
            own.seen = core.calls
            own.held = size_of(bag)
            if core.calls != before:
                self._changed.notify_all()
        return self._carry_out(effects, own, bag)

    def _pause(self, bag: Bag[R], until: float) -> bool:
        """Wait until the worker is on schedule, but attend to thieves and evacuation at once; True ends the worker."""
        own, core = self._slot, self._core
        start = now = time.monotonic()
        ended = False
        while now < until and not ended:
            with self._changed:
                woken = self._changed.wait_for(lambda: core.calls != own.seen, until - now)
            if woken:
                ended = self._look(bag)
            now = time.monotonic()
        own.busy_s += now - start
        return ended


def _is_empty(bag: Bag[R], done: int) -> bool:
    """Return whether ``bag``, which says that nothing remains, is empty.

    Raises:
        BagError: It holds tasks and processes none.
    """
    if bag.is_empty():
        return True
    if done == 0:
        raise BagError(f"{type(bag).__name__}.process returned False and did nothing, but the bag is not empty")
    return False
