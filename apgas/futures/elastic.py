"""The places of an executor: orders of a scheduler, and its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from apgas.core.identity import Place
from apgas.core.resize import Deadlines, ResizeRecord
from apgas.errors import ApgasError, UsageError
from apgas.futures.pool import Pool
from apgas.malleability.handler import Companion
from apgas.runtime.driver import PlaceState, keep_driver, required_driver
from apgas.runtime.malleable import choose_nodes, nodes, register_companion, resizes, schedule_orders
from apgas.runtime.program import program

_LOOK_S: Final = 0.05
"""How often a shrink that waits for tasks looks whether it is still wanted."""
_ADAPT_S: Final = 0.5
"""How often the queue is looked at."""
_IDLE_LOOKS: Final = 6
"""How many of these in a row have to find places without work before some leave."""


class Elastic(Companion):
    """The handler of a program with executors: registered by the first one, and of use to the one that is open."""

    def __init__(self) -> None:
        self._pool: Pool | None = None
        self._own = False
        self._growing = 0  # orders of ours to grow that have not ended
        self._registered = self._accompanies = False
        self._leaving: set[int] = set()
        self._ended = threading.Condition()
        self._resizing = threading.Lock()
        self._adapting: threading.Event | None = None

    @property
    def pool(self) -> Pool | None:
        """The tasks of the executor that is open, or whose tasks have not all ended."""
        return None if self._pool is None or self._pool.ended.is_set() else self._pool

    def begin(self, pool: Pool, *, own: bool) -> None:
        """Serve an executor; if the program is its ``own``, place 0 runs no tasks, and lost places are replaced."""
        self._pool = pool
        self._own = own
        if not self._registered:
            # with a handler of the program's own, that one decides who leaves
            with suppress(UsageError):
                self._accompanies = register_companion(self, deadlines=Deadlines(pre_s=86_400.0))
            program().at_end.append(self._finish)
            self._registered = True
        pool.on_loss = partial(self._order, 1) if own else None
        pool.add(self.places())

    def _finish(self) -> None:
        """Wait for an executor that the program leaves open, or has not waited for."""
        if (pool := self.pool) is not None:
            pool.close(cancel=False)
            pool.await_end()
        self._stop_adapting()

    def end(self, pool: Pool) -> None:
        """Serve an executor no more."""
        if self._pool is pool:
            self._stop_adapting()
            self._pool = None

    def places(self) -> list[Place]:
        """The places that run tasks."""
        there = [place for place in required_driver().places() if place.id or not self._own]
        return [place for place in there if place.id not in self._leaving]

    def standing(self) -> tuple[int, int]:
        """How many places run tasks, and how many resizes there were."""
        return len(self.places()), sum(record.outcome == "done" for record in resizes())

    # our own orders --------------------------------------------------------------------------------------------------

    def resize(self, count: int) -> None:
        """Let ``count`` places run tasks.

        Raises:
            ApgasError: It could not be done.
        """
        if self._accompanies:
            raise UsageError(
                "a program with arrays is resized between its steps, for which this call would wait in vain: "
                "let the executor adapt, or give orders with apgas.schedule_orders"
            )
        self._stop_adapting()
        self._resize(count)

    def _resize(self, count: int) -> None:
        with self._resizing:
            resizing = program().resizing
            while missing := (count - (now := len(self.places()))) // resizing.places_per_node:
                known = len(resizing.records)
                if resizing.communicator is None:
                    self._order(missing)
                elif (granted := resizing.request(missing).result()) != missing:
                    raise ApgasError(f"the scheduler grants {granted:+d} nodes, not {missing:+d}")
                with self._ended:
                    self._ended.wait_for(lambda known=known: len(resizing.records) > known)  # type: ignore[misc]
                record = resizing.records[known]
                if record.outcome != "done" and len(self.places()) == now:
                    raise ApgasError(f"the executor cannot have {count} places: {record.outcome}, {record.reason}")

    def _order(self, more: int) -> None:
        with self._ended:
            self._growing += more > 0
        schedule_orders(f"0:{more:+d}")

    def adapt(self, minimum: int, maximum: int | None) -> None:
        """Have the number of places follow the queue.

        Raises:
            ValueError: The numbers are none of places.
        """
        if maximum is not None and maximum < minimum:
            raise ValueError(f"minimum <= maximum is needed, not {minimum} and {maximum}")
        if maximum is None:
            maximum = max(minimum, len(os.sched_getaffinity(0))) if self._own else 1_000_000
        self._stop_adapting()
        self._adapting = stop = threading.Event()
        driver = required_driver()

        def follow() -> None:
            keep_driver(driver)
            idle = 0
            while not stop.wait(_ADAPT_S) and (pool := self.pool) is not None:
                with suppress(ApgasError):  # it cannot be had now
                    wanted, now = pool.ask(partial(pool.core.wanted, minimum, maximum)), len(self.places())
                    idle = idle + 1 if wanted < now else 0
                    if wanted > now:
                        self._resize(min(wanted, 2 * now))
                    elif idle >= _IDLE_LOOKS:
                        idle = 0
                        self._resize(wanted)

        threading.Thread(target=follow, name="apgas-futures-adapt", daemon=True).start()

    def _stop_adapting(self) -> None:
        if self._adapting is not None:
            self._adapting.set()
            self._adapting = None

    # MalleableHandler ------------------------------------------------------------------------------------------------

    def preGrow(self, nb_places: int) -> None:
        """Newcomers may come at any time."""

    def postGrow(self, _: int, __: Sequence[Place], new_places: Sequence[Place]) -> None:
        """Let newcomers work."""
        if (pool := self.pool) is not None:
            pool.add(new_places)

    def preShrink(self, nb_places: int) -> list[Place]:
        """Choose who has the least to do, and wait until that is done or handed back."""
        pool = self.pool

        def load(node: Sequence[Place]) -> int:  # a guess: the pool goes on
            return 0 if pool is None else sum(pool.core.load(place.id) for place in node)

        leavers = choose_nodes(nb_places, nodes()[1:], load)
        self._empty(leavers)
        return leavers

    def evacuate(self, places: Sequence[Place]) -> None:
        """Wait until what places have to do is done or handed back."""
        self._leaving.update(place.id for place in places)
        self._empty(places)

    def _empty(self, leavers: Sequence[Place]) -> None:
        """Wait until they have nothing to do any more, or the order is given up: ``shrinkAborted`` follows then."""
        if (pool := self.pool) is None:
            return
        settled = pool.leave([place.id for place in leavers])
        while not pool.ended.is_set() and program().resizing.awaits_handler:
            with suppress(TimeoutError):
                settled.result(_LOOK_S)
                return

    def postShrink(self, _: int, removed_places: Sequence[Place]) -> None:
        """They have left."""
        self._leaving.difference_update(place.id for place in removed_places)
        if (pool := self.pool) is not None:
            pool.left(place.id for place in removed_places)

    def shrinkAborted(self, places: Sequence[Place]) -> None:
        """Let them work again."""
        self._leaving.difference_update(place.id for place in places)
        if (pool := self.pool) is not None:
            pool.stay(place.id for place in places)

    def orderEnded(self, record: ResizeRecord) -> None:
        """Let who waits for it see; without any place left, and none to come, the executor is broken."""
        failed = record.kind == "grow" and record.outcome != "done"
        with self._ended:
            self._growing = max(0, self._growing - (record.kind == "grow"))
            over = failed and not self._growing
            self._ended.notify_all()
        if over and (pool := self.pool) is not None and not self.places():
            pool.broke(f"all of its places were lost, and no other could be started: {record.reason}")


elastic_of_place: Final = PlaceState(Elastic)
