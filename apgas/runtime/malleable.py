"""The functions that malleable programs call on place 0: handlers, orders, requests, estimates, lost places."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from apgas.core.identity import Place
from apgas.core.resize import Bounds, Deadlines, Estimate, Kind, ResizeRecord, samples_of
from apgas.core.resize import estimate as estimate_from
from apgas.errors import UsageError
from apgas.malleability.handler import Companion, MalleableHandler
from apgas.runtime.context import Future, Scope, entered
from apgas.runtime.driver import Driver, PlaceState, required_driver
from apgas.runtime.program import program
from apgas.runtime.resizing import parse_orders

if TYPE_CHECKING:
    from apgas.malleability.core_ids import CoreIds


P = ParamSpec("P")
T = TypeVar("T")


def nodes() -> list[list[Place]]:
    """(place 0) Return which places share a node: orders count nodes, and a node leaves as a whole.

    Returns:
        The places of each node, by id, the node of place 0 first; without those that are about to leave. With one place
        per node (the default, see ``APGAS_PLACES_PER_NODE``) each is a list of one.

    Raises:
        UsageError: Not on place 0.

    Example:
        >>> [len(places) for places in apgas.nodes()] == [1] * len(apgas.places())
        True
    """
    return program().resizing.nodes()


def define_malleable_handler(
    handler: MalleableHandler,
    *,
    deadlines: Deadlines | None = None,
    min_nodes: int = 1,
    max_nodes: int | None = None,
    places_per_node: int | None = None,
) -> None:
    """(place 0) Register the program's handler: from now on it may grow and shrink. Once per program.

    Args:
        handler: What is called around every resize.
        deadlines: How long each step of an order may take; ``Deadlines()`` by default.
        min_nodes: Orders that would leave fewer nodes are refused.
        max_nodes: Orders that would lead to more nodes are refused; None: any number is fine.
        places_per_node: How many places share a node; None: what ``APGAS_PLACES_PER_NODE`` says, 1 by default.

    Raises:
        UsageError: Not on place 0, or a handler is or was registered, or the bounds are none, or the places do not fill
            their nodes.

    Example:
        >>> from apgas.testing.handlers import ReleaseNewest
        >>> apgas.define_malleable_handler(ReleaseNewest(), deadlines=apgas.Deadlines(pre_s=600), max_nodes=8)
    """
    if not isinstance(handler, MalleableHandler):
        raise UsageError(f"a MalleableHandler is needed, not {_kind(handler)}")
    bounds = Bounds(min_nodes, max_nodes)
    program().resizing.define(handler, deadlines or Deadlines(), bounds, places_per_node)


def _kind(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}: pass an object, {value.__name__}()"
    return type(value).__name__


def register_companion(companion: Companion, *, deadlines: Deadlines | None = None) -> bool:
    """(place 0, library) Register the handler of a library, or let it accompany that of another one.

    Args:
        companion: The handler.
        deadlines: As for ``define_malleable_handler``.

    Returns:
        Whether it accompanies another one.

    Raises:
        UsageError: As for ``define_malleable_handler``, where the program's handler takes no companions.
    """
    if program().resizing.accompany(companion):
        return True
    define_malleable_handler(companion, deadlines=deadlines)
    return False


def choose_nodes(
    nb_places: int, candidates: Sequence[list[Place]], cost: Callable[[list[Place]], Any] = lambda _: 0
) -> list[Place]:
    """(preShrink of a library) Choose the nodes that leave: those that the scheduler wishes for, then the cheapest.

    Args:
        nb_places: As ``preShrink`` gets it.
        candidates: The places of each node that may leave.
        cost: What it costs if a node leaves, in any order; of equals the newest leaves.

    Returns:
        All places of these nodes, by id.

    Raises:
        ValueError: There are not enough candidates.
    """
    count = nb_places // program().resizing.places_per_node
    if count > len(candidates):
        raise ValueError(f"{count} nodes are to leave, but only {len(candidates)} can")
    wished = set(shrink_wish())
    ranked = sorted(candidates, key=lambda node: (wished.isdisjoint(node), cost(node), -node[0].id))
    return sorted(chain.from_iterable(ranked[:count]))


def disable_malleable_handler() -> None:
    """(place 0) Give the handler up: the program keeps its size from now on.

    Waits until an order that is being carried out has ended, or its deadlines are over; a method that waits
    ``at_safe_point`` does so in vain from now on. Scheduled orders get the outcome ``not_due``, waiting ones are
    refused, requests for nodes are answered with 0. The end of the program does the same, and waits for no method.

    Raises:
        UsageError: Not on place 0, or in a method of the handler.

    Example:
        >>> from apgas.testing.handlers import ReleaseNewest
        >>> apgas.define_malleable_handler(ReleaseNewest())
        >>> apgas.disable_malleable_handler()
    """
    program().resizing.disable()


def at_safe_point(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """(method of the handler) Have the program call ``fn`` at its next ``safe_point``, and wait for that.

    So data are moved between two steps of the program, while no step needs them where they are. The wait ends by
    itself when there will be no such point, or it is not needed any more.

    Args:
        fn: What to call, on the thread of the program.
        *args: Its arguments.
        **kwargs: Its keyword arguments.

    Returns:
        What ``fn`` returned.

    Raises:
        UsageError: Not in a method of the handler.
        CancelledError: Before ``fn`` was called the order was withdrawn, or given up at its deadline, or the program
            gave its handler up, or ended.
        BaseException: What ``fn`` raised.

    Example:
        >>> apgas.at_safe_point(print, "moved")
        Traceback (most recent call last):
        apgas.errors.UsageError: at_safe_point works in methods of the malleable handler only, on their own thread
    """
    return program().resizing.at_safe_point(lambda: fn(*args, **kwargs))


def safe_point() -> None:
    """(place 0) Between two steps of the program: do what a method of its handler waits for; see ``at_safe_point``.

    What that raises is raised in the method of the handler. Costs nothing where nothing is waited for.

    Raises:
        UsageError: Not on place 0.

    Example:
        >>> apgas.safe_point()  # nothing to be done
    """
    resizing = program().resizing_if_any
    if resizing is not None:
        resizing.safe_point()


def request_grow(nodes: int) -> Future[int]:
    """(place 0) Ask the scheduler for more nodes; an order follows for what it grants.

    Args:
        nodes: How many, at least 1.

    Returns:
        A future of the number of nodes granted: 0 without a scheduler, and if it has none to give.

    Raises:
        UsageError: Not on place 0, no handler is registered, or ``nodes`` is less than 1.

    Example:
        >>> from apgas.testing.handlers import ReleaseNewest
        >>> apgas.define_malleable_handler(ReleaseNewest())
        >>> apgas.request_grow(2).result()  # without a scheduler
        0
    """
    return program().resizing.request(_at_least_one(nodes))


def offer_shrink(nodes: int) -> Future[int]:
    """(place 0) Offer nodes back to the scheduler; an order follows for those that it takes.

    Args:
        nodes: How many, at least 1.

    Returns:
        A future of the change granted: negative, or 0.

    Raises:
        UsageError: Not on place 0, no handler is registered, or ``nodes`` is less than 1.

    Example:
        >>> from apgas.testing.handlers import ReleaseNewest
        >>> apgas.define_malleable_handler(ReleaseNewest())
        >>> apgas.offer_shrink(1).result() in (-1, 0)
        True
    """
    return program().resizing.request(-_at_least_one(nodes))


def _at_least_one(nodes: int) -> int:
    if nodes < 1:
        raise UsageError(f"nodes must be at least 1, not {nodes}")
    return nodes


def shrink_wish() -> list[Place]:
    """(place 0, in preShrink) Return which places the scheduler would like to be released.

    Returns:
        Those on the nodes that it named, never the node of place 0; none outside of ``preShrink``, and none any more
        when its order was given up meanwhile.

    Raises:
        UsageError: Not on place 0.

    Example:
        >>> apgas.shrink_wish()  # not in preShrink
        []
    """
    return program().resizing.shrink_wish()


def core_ids() -> CoreIds | None:
    """(place 0) Return which cores of its nodes the job may use, where its scheduler lets jobs share nodes.

    The scheduler says so when it starts the job, and with each order for another number of workers: within
    ``setWorkers`` they are those of the order. With ``bind`` the program is to compute on no others, which the balancer
    does.

    Returns:
        The ids of each node's cores; None if the scheduler has not said, or there is none.

    Raises:
        UsageError: Not on place 0, or the scheduler has said what makes no sense.

    Example:
        >>> apgas.core_ids() is None  # without a scheduler
        True
    """
    return program().resizing.core_ids


def schedule_orders(orders: str, hosts: Sequence[str] = ()) -> None:
    """(place 0) Order resizes without a scheduler: ``"1.5:+2,3:-1"``, seconds from now.

    They are carried out one after another; an order that falls due during a resize waits. An impossible order is
    refused, and the program goes on; ``resizes`` lists how each ended.

    Args:
        orders: The schedule: ``SECONDS:+NODES`` or ``SECONDS:-NODES``, separated by commas; a node is one place unless
            ``APGAS_PLACES_PER_NODE`` says otherwise. ``SECONDS:workers=N`` calls the handler's ``setWorkers``.
        hosts: The nodes that newcomers are placed on in turn; this host by default.

    Raises:
        UsageError: Not on place 0, or the text is not a schedule.

    Example:
        >>> import time
        >>> from apgas.testing.handlers import ReleaseNewest
        >>> apgas.define_malleable_handler(ReleaseNewest())
        >>> apgas.schedule_orders("0:+2,0:-1")
        >>> while len(apgas.resizes()) < 2:
        ...     time.sleep(0.01)
        >>> [(record.kind, record.n, record.outcome) for record in apgas.resizes()]
        [('grow', 2, 'done'), ('shrink', 1, 'done')]
    """
    program().resizing.schedule(parse_orders(orders, tuple(hosts)))


def drain_orders() -> None:
    """(place 0) Withdraw the scheduled orders that are not due yet (outcome ``not_due``).

    Raises:
        UsageError: Not on place 0.

    Example:
        >>> from apgas.testing.handlers import ReleaseNewest
        >>> apgas.define_malleable_handler(ReleaseNewest())
        >>> apgas.schedule_orders("600:+1")
        >>> apgas.drain_orders()
        >>> [record.outcome for record in apgas.resizes()]
        ['not_due']
    """
    program().resizing.drain_scheduled()


def resizes() -> list[ResizeRecord]:
    """(place 0) Return how the orders so far have ended.

    Returns:
        A record per order, in the order of their ends; an order that is being carried out has none yet.

    Raises:
        UsageError: Not on place 0.

    Example:
        >>> apgas.resizes()  # there was none yet
        []
    """
    return list(program().resizing.records)


def progress(done: float, total: float | None = None, unit: str = "tasks") -> None:
    """(place 0) Report the program's progress to the scheduler; at most four messages a second are sent.

    Args:
        done: What is done, in ``unit``.
        total: What there is to do in all, in ``unit``, if that is known.
        unit: What is counted; at most 40 characters are sent.

    Raises:
        UsageError: Not on place 0, or a number is not finite.

    Example:
        >>> apgas.progress(300, 1000, "rows")
    """
    # numbers of other libraries know no JSON
    plain_done, plain_total = float(done), None if total is None else float(total)
    if not math.isfinite(plain_done) or not math.isfinite(plain_total or 0.0):
        raise UsageError(f"progress is reported in finite numbers, not {done} of {total}")
    program().resizing.progress(plain_done, plain_total, unit[:40])


# Estimates -----------------------------------------------------------------------------------------------------------


def estimate(*, grow: int = 0, shrink: int = 0) -> Estimate | None:
    """(place 0) Estimate how long an order would take, from the resizes of this run and a calibration.

    Each phase is taken to last ``a + b n`` seconds for ``n`` places, fitted so that outliers do not matter. As long as
    this run has seen less than three resizes of that kind, those of earlier runs count as well, if
    ``APGAS_CALIBRATION`` names a file to keep them in.

    Args:
        grow: By how many nodes; or
        shrink: by how many.

    Returns:
        The estimate; None if no resize of that kind is known.

    Raises:
        UsageError: Not on place 0, or not exactly one of the numbers is given and at least 1.

    Example:
        >>> import time
        >>> from apgas.testing.handlers import ReleaseNewest
        >>> apgas.define_malleable_handler(ReleaseNewest())
        >>> apgas.estimate(grow=4) is None  # nothing is known before the first one
        True
        >>> apgas.schedule_orders("0:+1")
        >>> while not apgas.resizes():
        ...     time.sleep(0.01)
        >>> expected = apgas.estimate(grow=4)
        >>> expected.nodes, expected.samples, expected.seconds > 0
        (4, 1, True)
    """
    if min(grow, shrink) != 0 or max(grow, shrink) < 1:
        raise UsageError(f"estimate(grow=N) or estimate(shrink=N) with N of at least 1, not {grow} and {shrink}")
    resizing = program().resizing
    kind: Kind = "grow" if grow else "shrink"
    nodes = grow or shrink
    earlier = resizing.calibration.samples if resizing.calibration is not None else []
    places = nodes * resizing.places_per_node
    return estimate_from(kind, nodes, places, samples_of(resizing.records), earlier)


# Lost places ---------------------------------------------------------------------------------------------------------

_log = logging.getLogger("apgas.failures")


class PlaceFailures:
    """The handler of one place; called for one dead place after another."""

    def __init__(self, driver: Driver) -> None:
        self.handler: Callable[[Place], Any] | None = None
        self._driver = driver
        self._calls = driver.serial_executor("failures")
        self._put_off: list[Place] = []
        driver.on_place_died.append(self._died)
        driver.on_stay.append(self._stays)

    def _died(self, place: Place) -> None:
        self._calls.submit(lambda: self._call(place))

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
        with entered(Scope(finish)):
            try:
                handler(place)
            except BaseException:  # noqa: BLE001 - the program's error is logged, and the job goes on
                _log.exception("the place failure handler failed for %s", place)
            for error in self._driver.close_finish(finish):
                _log.error("an activity of the place failure handler failed", exc_info=error)


_failures = PlaceState(lambda: PlaceFailures(required_driver()))


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


def resilient() -> bool:
    """Return whether the job is resilient.

    Returns:
        Whether it goes on when a place other than 0 dies.

    Raises:
        UsageError: Called outside of ``apgas.run``.

    Example:
        >>> apgas.resilient()
        False
    """
    return required_driver().core.survives
