"""A malleable program in one process: simulated places, and orders at the moments that a test chooses."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final, Generic, TypeVar

from apgas.core.resize import OutcomeKind, RecordKind, ResizeRecord
from apgas.errors import ApgasError, UsageError
from apgas.malleability.orders import Lost
from apgas.runtime import current, process
from apgas.runtime.driver import Driver
from apgas.runtime.program import Program, all_gone, end_places, known, run_main
from apgas.runtime.resizing import Resizing
from apgas.testing import threads
from apgas.testing.inprocess import InProcessPlaces, InProcessSpawner
from apgas.testing.orders import Order, TestScheduler

T = TypeVar("T")

PARTING_S: Final = 2.0
"""How long places may take to end once the program is over."""


class JobHangsError(AssertionError):
    """The program did not end in time; the text shows where its places are."""


class JobFailedError(AssertionError):
    """What would end a real job: a broken message, an error in an immediate, a lost place."""


class Job(Generic[T]):
    """One run of a program on simulated places.

    Each place has its own threads, messages, references and ``PlaceLocal`` objects; what travels between places is
    pickled, as between processes. Global variables are shared, for it is one process.

    Args:
        main: The program, as for ``apgas.run``.
        *args: Its arguments.
        places: How many places there are at the start; a multiple of ``places_per_node``.
        places_per_node: How many places share a node; orders count nodes.
        deadline_s: The program has to end within so many seconds.
        resilient: Whether it goes on when places die, as with ``APGAS_RESILIENT=1``.
        setup: What every place runs before anything else, as for ``apgas.run``.

    Attributes:
        resizes: How the orders ended, in the order of their ends; the same as ``apgas.resizes()`` in the program.
        spare_nodes: How many nodes ``apgas.request_grow`` is granted in all; an order follows. Offers are all taken.

    Raises:
        UsageError: The numbers do not fit together.

    Example:
        ``job = Job(main, places=2)``, ``job.grow(2)``, ``assert job.run() == 42``, ``assert job.outcomes == ["done"]``.
    """

    def __init__(
        self,
        main: Callable[..., T],
        *args: object,
        places: int = 3,
        places_per_node: int = 1,
        deadline_s: float = 30.0,
        resilient: bool = False,
        setup: Callable[[], object] | None = None,
    ) -> None:
        if places_per_node < 1 or places < 1 or places % places_per_node:
            raise UsageError(f"a job cannot have {places} places with {places_per_node} on each node")
        self.resizes: list[ResizeRecord] = []
        self._main = main
        self._args = args
        self._deadline_s = deadline_s
        self._places_per_node = places_per_node
        self._nodes = places // places_per_node
        self._resilient = resilient
        self._places = InProcessPlaces(resilient=resilient, setup=setup)
        self._names = self._places.node_names(self._nodes)
        self._spawner = InProcessSpawner(self._places, places_per_node)
        self._scheduler = TestScheduler(self._places.node_names)
        self._over = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None
        self._failure = ""
        self._began = False

    # orders ----------------------------------------------------------------------------------------------------------

    def grow(
        self, nodes: int = 1, *, on: Sequence[str] = (), at_progress: float | None = None, fails: str = ""
    ) -> Order:
        """Order the program to grow: from anywhere, before it runs or while it does.

        Args:
            nodes: By how many nodes.
            on: Their names, one for each; new ones by default.
            at_progress: Give the order when the program calls ``apgas.progress`` with at least this; else it is given
                as soon as there is a handler.
            fails: The nodes cannot be started, for this reason.

        Returns:
            The order: wait for it, or withdraw it.
        """
        names = tuple(on) or self._places.node_names(nodes)
        if fails:
            self._spawner.failures.update(dict.fromkeys(names, fails))
        return self._order("grow", nodes, names, at_progress)

    def shrink(self, nodes: int = 1, *, wish: Sequence[str] = (), at_progress: float | None = None) -> Order:
        """Order the program to shrink: from anywhere, before it runs or while it does.

        Args:
            nodes: By how many nodes.
            wish: The names of nodes that should go preferably: what ``apgas.shrink_wish`` tells the handler.
            at_progress: Give the order when the program calls ``apgas.progress`` with at least this; else it is given
                as soon as there is a handler.

        Returns:
            The order: wait for it, or withdraw it.
        """
        return self._order("shrink", nodes, tuple(wish), at_progress)

    def workers(self, count: int, *, at_progress: float | None = None, core_ids: str = "") -> Order:
        """Order the program to compute with so many threads in each place.

        Args:
            count: How many.
            core_ids: The cores of each node that it may use, as ``0-3,8``: what ``apgas.core_ids`` tells it.
            at_progress: Give the order when the program calls ``apgas.progress`` with at least this; else it is given
                as soon as there is a handler.

        Returns:
            The order: wait for it, or withdraw it.
        """
        return self._order("workers", count, (), at_progress, core_ids)

    def _order(
        self, kind: RecordKind, count: int, names: tuple[str, ...], at_progress: float | None, core_ids: str = ""
    ) -> Order:
        if count < 1:
            what = "is for at least 1 worker" if kind == "workers" else "changes the number of nodes by at least 1"
            raise UsageError(f"an order {what}, not {count if kind == 'workers' else f'by {count}'}")
        return self._scheduler.give(kind, count, names, at_progress, core_ids)

    @property
    def spare_nodes(self) -> int:
        """How many nodes the simulated scheduler has left to grant."""
        return self._scheduler.spare_nodes

    @spare_nodes.setter
    def spare_nodes(self, nodes: int) -> None:
        self._scheduler.spare_nodes = nodes

    @property
    def orders(self) -> list[Order]:
        """The orders, in the order in which they were asked for."""
        return list(self._scheduler.orders)

    @property
    def outcomes(self) -> list[OutcomeKind]:
        """How the orders ended: ``done``, ``refused``, ``aborted`` or ``not_due``, in the order of their ends."""
        return [record.outcome for record in self.resizes]

    def kill(self, place: int) -> None:
        """Let a place die suddenly, as by ``kill -9``: from anywhere while the program runs.

        What it ran is cut off from the others at once, but cannot be stopped: its threads run to their end.

        Args:
            place: Its id.

        Raises:
            UsageError: It is place 0, with which a job ends, or there is no such place (any more).
        """
        self._places.kill(place, PARTING_S)

    @property
    def lost_nodes(self) -> list[str]:
        """The nodes that the scheduler was told are lost, because their places died."""
        return [node for message in self._scheduler.messages if isinstance(message, Lost) for node in message.nodes]

    # the run ---------------------------------------------------------------------------------------------------------

    def run(self) -> T:
        """Run the program to its end.

        Returns:
            What ``main`` returned.

        Raises:
            UsageError: The job has run already.
            JobHangsError: It did not end within its deadline.
            JobFailedError: Something happened that would end a real job.
            BaseException: What ``main`` raised.
        """
        __tracebackhide__ = True
        if self._began:
            raise UsageError("a job runs once: make another")
        self._began = True
        before_s = sys.getswitchinterval()
        with ExitStack() as stack:
            stack.callback(sys.setswitchinterval, before_s)
            sys.setswitchinterval(process.SWITCH_S)
            stack.enter_context(threads.inherited())
            self._run()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # it is the program's once the program has ended

    def _run(self) -> None:
        __tracebackhide__ = True
        driver = self._places.start(tuple(name for name in self._names for _ in range(self._places_per_node)))
        driver.on_place_lost = self._lost
        with current.working_for(driver):
            this = Program(driver, lambda: Resizing(driver, self._spawner, self._scheduler))
            self.resizes = this.resizing.records
            this.resizing.progress_every_s = 0.0
            this.resizing.share_nodes(self._places_per_node)
            self._scheduler.start(this.resizing)
            main = threading.Thread(target=self._be_main, args=(this,), name="apgas-main", daemon=True)
            with known(this):
                main.start()
                try:
                    self._await_end(driver)
                finally:
                    self._part(this)

    def _be_main(self, this: Program) -> None:
        try:
            self._value = run_main(this, self._main, *self._args)
        except BaseException as error:  # noqa: BLE001 - it is raised again by ``run``
            self._error = error
        self._over.set()

    def _lost(self, place: int, reason: str) -> None:
        if place != 0 and self._resilient:
            return
        self._failure = self._failure or f"place {place}: {reason}"
        self._over.set()

    def _await_end(self, driver: Driver) -> None:
        __tracebackhide__ = True
        if not self._over.wait(self._deadline_s):
            where = threads.stacks({driver, *self._places.drivers.values()})
            raise JobHangsError(f"the program did not end within {self._deadline_s:g} s{self._open_orders()}\n{where}")
        if self._failure:
            raise JobFailedError(f"this would end a real job: {self._failure}")

    def _open_orders(self) -> str:
        pending = [order for order in self._scheduler.orders if order.outcome is None]
        return "".join(f"\nwithout an outcome: {order}" for order in pending)

    def _part(self, this: Program) -> None:
        """End the places; what hangs is left to itself, for threads cannot be killed."""
        broken = sys.exc_info()[1] is not None or self._error is not None
        parting = threading.Thread(target=self._end, args=(this, broken), name="apgas-parting", daemon=True)
        parting.start()
        parting.join(4 * PARTING_S)

    def _end(self, this: Program, broken: bool) -> None:
        driver = this.driver
        others = end_places(this, "the program failed" if broken else "")
        all_gone(driver, others, PARTING_S)
        self._scheduler.close()
        if broken:
            for left in [driver, *self._places.drivers.values()]:
                left.give_up(ApgasError("the job is over"))
        process.close(driver)
        self._places.close(PARTING_S)
