"""Place 0's part in resizes: carries out the effects of ``core.order`` with handler, newcomers and scheduler.

The machine of orders is touched under the driver's lock, so that the members and the order that changes them always
agree. Its effects are carried out under the same lock, in their order, and so none of them may wait:

- a method of the handler, which may take as long as it likes, runs on a thread for these alone, one after another
  (``Driver.serial_executor``). Its end is an event of its own, with the token of the call, for the order may have been
  given up meanwhile;
- a spawn runs on a thread of the driver's chores, because MPI_Comm_spawn blocks. It cannot be stopped: an order whose
  time is over ends without it, and its newcomers are dismissed when they come;
- messages to the scheduler are queued by the communicator.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, TypeVarTuple, assert_never

import msgspec
from msgspec.structs import replace

from apgas.core import resize as r
from apgas.core.effects import Effect
from apgas.core.identity import Place
from apgas.core.messages import PlaceInfo, Release, encode
from apgas.core.order import Nodes, OrderMachine, Step
from apgas.core.resize import CallHandler, RecordKind, ResizeRecord
from apgas.errors import CancelledError, UsageError
from apgas.malleability import core_ids
from apgas.malleability import orders as o
from apgas.malleability.core_ids import CoreIds
from apgas.malleability.handler import Companion, Leader, MalleableHandler
from apgas.malleability.orders import Workers
from apgas.runtime import context, logs, serialization
from apgas.runtime.calibration import Calibration
from apgas.runtime.context import Future, Scope, entered
from apgas.runtime.driver import Driver
from apgas.runtime.spawning import Spawner
from apgas.runtime.validation import checked
from apgas.transport.base import Transport, TransportClosedError, UnknownPeerError
from apgas.transport.loop import Timer

if TYPE_CHECKING:
    from apgas.malleability.communicator import Communicator
    from apgas.runtime.trace import Timeline


_log = logging.getLogger("apgas.resize")
_handler_log = logging.getLogger("apgas.handler")


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PROGRESS_EVERY_S = 0.25
"""The scheduler hears of progress no more often."""


class Resizing:
    """Everything about orders on place 0; the times of records begin at ``began_s``, or now.

    Attributes:
        over: Whether the program has ended: then no method of the handler is called.
    """

    def __init__(
        self, driver: Driver, spawner: Spawner, communicator: Communicator | None = None, began_s: float | None = None
    ) -> None:
        self.driver = driver
        self.communicator = communicator
        self.records: list[r.ResizeRecord] = []
        self.records_zero_ns: list[int] = []
        """The clock when the time of each record began."""
        self.tracing: Timeline | None = None
        self.calibration: Calibration | None = None
        self.idle = threading.Condition(driver.lock)
        self.over = False
        self._spawner = spawner
        self._epoch_of_newcomers = 0
        self._machine = checked(OrderMachine)(driver.core.membership.members)
        self._handler: MalleableHandler | None = None
        self._was_registered = False
        self._running: r.CallHandler | None = None
        self._wish: tuple[r.CallHandler | None, Callable[[], object], Future[Any]] | None = None
        self._given_up = ""
        self._calls = driver.serial_executor("handler")
        self._method_thread = 0
        """The thread that runs a method of the handler; 0: none."""
        self._workers_orders: dict[int, tuple[int, float]] = {}
        """The orders for another number of workers that have not ended, each with that number and when it came."""
        self._core_ids: CoreIds | None = None
        self._core_ids_offered: CoreIds | None = None
        self._offers_core_ids = False
        self._knows_core_ids = False
        self._scheduled: dict[int, tuple[ScheduledOrder, Timer]] = {}
        self._scheduled_numbers = itertools.count(_FIRST)
        self._requests: dict[int, Future[int]] = {}
        self._request_numbers = itertools.count()
        self.progress_every_s = PROGRESS_EVERY_S
        self._progress_s = -math.inf
        self.progressed: tuple[float, float | None] = (0.0, None)
        """What the program has done, and of how much, as it last reported."""
        self._zero_s = time.monotonic() if began_s is None else began_s
        self._origin_s = 0.0
        self._lost_nodes: list[str] = []
        self._losses = itertools.count()
        driver.on_leaver_drained = lambda order, place: self._event(self._machine.drained, order, place)
        driver.on_place_died.append(self._died)

    # the program's side ----------------------------------------------------------------------------------------------

    def share_nodes(self, places_per_node: int) -> None:
        """Let ``places_per_node`` places make up a node, before the first order.

        Raises:
            UsageError: The present places do not fill their nodes.
        """
        with self.driver.lock:
            self._machine.nodes = Nodes(self.driver.core.membership.members, places_per_node)

    @property
    def places_per_node(self) -> int:
        """How many places share a node."""
        return self._machine.nodes.places_per_node

    def nodes(self) -> list[list[Place]]:
        """The places of each node, without those that are about to leave."""
        with self.driver.lock:
            staying = {place.id: place for place in self.driver.places()}
            held = [[staying[i] for i in places if i in staying] for places in self._machine.nodes.held()]
        return [places for places in held if places]

    def define(
        self,
        handler: MalleableHandler,
        deadlines: r.Deadlines,
        bounds: r.Bounds,
        places_per_node: int | None = None,
    ) -> None:
        """Register the program's handler and report to the scheduler that the job takes orders.

        Raises:
            UsageError: A handler is, or was, registered already, or the places do not fill their nodes.
        """
        if self._was_registered:
            raise UsageError(
                "a malleable handler can be registered once per program, and not again after it was given up"
            )
        if places_per_node is not None:
            self.share_nodes(places_per_node)
        self._was_registered = True
        with self.driver.lock:
            self._handler = handler
            self._machine.deadlines = deadlines
            self._machine.bounds = bounds
            self._machine.enable()
            nodes = self._machine.nodes.names_of(self.driver.core.membership.members)
        self._send(o.Ready(nodes))

    def accompany(self, companion: Companion) -> bool:
        """Let the handler of a library accompany the program's; False if that takes no companions, or there is none."""
        with self.driver.lock:
            if not isinstance(self._handler, Leader):
                return False
            self._handler.companions.append(companion)
            return True

    @property
    def takes_orders(self) -> bool:
        """Whether the program has a handler, and has not ended."""
        return self._handler is not None and not self.over

    def disable(self) -> None:
        """Give the handler up, and wait until an order that is being carried out, and its last call, have ended.

        Raises:
            UsageError: Called by a method of the handler, for whose order it would wait.
        """
        if self._handler is None:
            return
        if threading.get_ident() == self._method_thread:
            raise UsageError("a method of the malleable handler cannot give it up: its order has to end before")
        self._give_up(self._machine.disable, "the program gave its handler up", None, calls=True)

    def end(self, timeout_s: float | None = None) -> None:
        """The program has ended: its handler is not called any more, nor waited for; MPI and leavers are.

        Args:
            timeout_s: How long at most; by default as long as the deadlines of an order's steps allow.
        """
        if self._handler is None:
            return
        with self.driver.lock:
            self.over = True
        self._give_up(self._machine.end, "the program has ended", timeout_s, calls=False)

    def _give_up(
        self, act: Callable[[float], list[r.OrderEffect]], why: str, timeout_s: float | None, *, calls: bool
    ) -> None:
        self.drain_scheduled()
        with self.driver.lock:
            self._given_up = why
        self._event(act)
        self._forget_wish()
        if timeout_s is None:
            timeout_s = self._machine.deadlines.after_pre_s
        until_s = time.monotonic() + min(timeout_s, threading.TIMEOUT_MAX)
        with self.idle:
            self.idle.wait_for(lambda: self._machine.step is Step.IDLE, until_s - time.monotonic())
        if calls:
            ended = threading.Event()
            with suppress(RuntimeError):  # no thread can be started, and there was none for any call
                self._calls.submit(ended.set)
                ended.wait(max(0.0, until_s - time.monotonic()))
        with self.driver.lock:
            self._handler = None
            if self.over:  # also an order whose method runs
                for order in list(self._workers_orders):
                    self._finish_workers(order, "refused", "the program has ended")
        self._send(o.Disable())
        for request in list(self._requests):  # nothing more will be answered
            self._grant(request, 0)

    def at_safe_point(self, act: Callable[[], T]) -> T:
        """(method of the handler) Have the program call ``act`` between two of its steps; returns its value.

        Raises:
            UsageError: This is no method of the handler.
            CancelledError: The order was given up, or the program gave its handler up or has ended, before.
            BaseException: What ``act`` raised.
        """
        if threading.get_ident() != self._method_thread:
            raise UsageError("at_safe_point works in methods of the malleable handler only, on their own thread")
        future: Future[T] = Future()
        with self.driver.lock:
            self._wish = self._running, act, future
        self._forget_wish()
        return future.result()

    def safe_point(self) -> None:
        """Do what a method of the handler waits for."""
        if self._wish is not None:  # in most steps there is none, and the lock need not be waited for
            self._grant_wish()

    def _grant_wish(self) -> None:
        with self.driver.lock:
            wish, self._wish = self._wish, None
        if wish is None:
            return
        _, act, future = wish
        try:
            value = act()
        except BaseException as error:
            future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            future.set_result(value)

    def _forget_wish(self) -> None:
        """Let the method that waits for a safe point know if none will come, or its call is awaited no more."""
        with self.driver.lock:
            if self._wish is None:
                return
            call, _, future = self._wish
            awaited = call is None or call.token == r.NO_TOKEN or self._machine.expects(call.token)
            if awaited and not self._given_up:
                return
            self._wish = None
        future.set_exception(CancelledError(self._given_up or "its order was given up"))

    @property
    def core_ids(self) -> CoreIds | None:
        """The cores that the job may use, as far as its scheduler has said; those of an order for its ``setWorkers``.

        Raises:
            UsageError: What it has said in the environment makes no sense.
        """
        if self._offers_core_ids and threading.get_ident() == self._method_thread:
            return self._core_ids_offered
        if not self._knows_core_ids:
            try:
                self._core_ids = core_ids.from_environment()
            except ValueError as error:
                raise UsageError(f"{core_ids.ENV_CORE_IDS}: {error}") from None
            self._knows_core_ids = True
        return self._core_ids

    @property
    def awaits_handler(self) -> bool:
        """Whether no order was given up for which ``preGrow`` or ``preShrink`` runs."""
        with self.driver.lock:
            return self._running is None or self._machine.expects(self._running.token)

    def shrink_wish(self) -> list[Place]:
        """The places on the nodes that the scheduler would like back in the current shrink, while that awaits them."""
        with self.driver.lock:
            wish = self._running.wish if self._running is not None and self.awaits_handler else ()
        _, *others = self.nodes()
        return [place for places in others for place in places if place.node in wish]

    def request(self, delta: int) -> Future[int]:
        """Ask the scheduler for ``delta`` nodes more, or offer nodes back; the future is what it grants, 0 without one.

        Raises:
            UsageError: There is no handler, without which no order can follow.
        """
        if self._handler is None:
            raise UsageError("only a program with a malleable handler may ask for nodes or offer them")
        future: Future[int] = Future()
        if self.communicator is None:
            future.set_result(0)
            return future
        number = next(self._request_numbers)
        self._requests[number] = future
        self._send(o.Evolving(number, delta))
        return future

    def _grant(self, request: int, nodes: int) -> None:
        future = self._requests.pop(request, None)
        if future is not None:
            future.set_result(nodes)

    def schedule(self, due: Iterable[ScheduledOrder]) -> None:
        """Give ourselves orders at their times, counted from now, as are the times of records from here on."""
        with self.driver.lock:
            # a timer of 0 s may fire before this has returned: it waits for the lock
            self._origin_s = time.monotonic() - self._zero_s
            for item in due:
                number = next(self._scheduled_numbers)
                timer = self.driver.transport.loop.call_later(item.at_s, partial(self._due, number))
                self._scheduled[number] = item, timer

    def order_now(self, delta: int, hosts: tuple[str, ...] = ()) -> None:
        """Give ourselves an order at once; the times of records go on, unlike with ``schedule``."""
        with self.driver.lock:
            number = next(self._scheduled_numbers)
            order = r.ResizeOrder(number, "grow" if delta > 0 else "shrink", abs(delta), hosts)
            self._event(self._machine.ordered, order)

    def drain_scheduled(self) -> None:
        """Withdraw the scheduled orders that are not due yet."""
        with self.driver.lock:
            for number, (item, timer) in sorted(self._scheduled.items()):
                timer.cancel()
                reason = f"the computation ended before {item.at_s:g} s"
                record = ResizeRecord(number, item.kind, item.count, item.at_s, 0.0, {}, "not_due", reason, ())
                self._keep(record)
            self._scheduled.clear()

    def _due(self, number: int) -> None:
        with self.driver.lock:
            item, _ = self._scheduled.pop(number, (None, None))
            if item is None:  # withdrawn meanwhile
                return
            if item.kind == "workers":
                self._order_workers(number, item.count)
                return
            order = r.ResizeOrder(number, item.kind, item.count, item.nodes)
            self._event(self._machine.ordered, order)

    # the scheduler's side (OrderListener) ----------------------------------------------------------------------------

    def order(self, order: o.Order) -> None:
        """Take an order of the scheduler."""
        if isinstance(order, o.Workers):
            self._order_workers(order.order, order.count, order)
            return
        kind: r.Kind = "grow" if isinstance(order, o.Grow) else "shrink"
        taken = r.ResizeOrder(order.order, kind, order.count, order.nodes)
        self._event(self._machine.ordered, taken)

    def withdraw(self, order: o.Withdraw) -> None:
        """Take an order back."""
        self._event(self._machine.withdrawn, order.order)

    def answer(self, answer: o.Answer) -> None:
        """Take the answer to an evolving request."""
        _log.info("the scheduler answered request %d: %+d nodes %s", answer.request, answer.granted, answer.reason)
        self._grant(answer.request, answer.granted)

    def scheduler_lost(self, reason: str) -> None:
        """End the job, for its scheduler is gone."""
        self.driver.on_place_lost(0, f"the scheduler is lost: {reason}")

    def progress(self, done: float, total: float | None, unit: str) -> None:
        """Report the program's progress to the scheduler; not too often."""
        self.progressed = done, total
        now = time.monotonic()
        if now - self._progress_s >= self.progress_every_s:
            self._progress_s = now
            self._send(o.Progress(done, total, unit))

    def _send(self, message: o.Message) -> None:
        if self.communicator is not None:
            self.communicator.send(message)

    # effects ---------------------------------------------------------------------------------------------------------

    def _event(self, act: Callable[[*Ts, float], Iterable[r.OrderEffect]], *about: *Ts) -> None:
        """Let the machine take an event."""
        with self.driver.lock:
            for effect in act(*about, time.monotonic() - self._zero_s):
                self._interpret(effect)
            self.idle.notify_all()

    def _interpret(self, effect: r.OrderEffect) -> None:
        core = self.driver.core
        match effect:
            case r.CallHandler():
                self._take_call(effect)
            case r.StartSpawn():
                self.driver.chores.submit(lambda: self._spawn(effect))
            case r.CommitGrow(added):
                self._commit(lambda: core.commit_grow(added))
                logs.distribute(self.driver, added)
            case r.PrepareShrink(order, leavers):
                self.driver.carry_out(core.prepare_shrink(order, leavers))
            case r.AbortShrink(order):
                self.driver.carry_out(core.abort_shrink(order))
            case r.CommitShrink(order, leavers):
                self._commit(lambda: core.commit_shrink(order))
                for place in leavers:
                    self.driver.transport.on_gone(place, partial(self._event, self._machine.gone, place))
            case r.SetTimer(token, delay_s):
                self.driver.transport.loop.call_later(delay_s, partial(self._event, self._machine.timeout, token))
            case r.TellDeferred(order):
                if not is_own(order):
                    self._send(o.Deferred(order, "waiting for a suitable phase of the program"))
            case r.Finished(record):
                self._forget_wish()
                self._finished(record)
            case _:
                assert_never(effect)

    def _take_call(self, call: r.CallHandler) -> None:
        if self.over:
            self._event(self._machine.failed, call.token, "the program has ended")
            return
        # what a late preShrink took from places that stay is undone before the next order begins
        self._calls.submit(lambda: self._call(call), first=call.token == r.NO_TOKEN)

    def _died(self, place: Place) -> None:
        """A place died, and the members go on: if that was the last one of a node, the scheduler loses a node."""
        with self.driver.lock:
            if self._machine.nodes.is_gone(place.id):
                self._lost_nodes.append(place.node)
            if not self._machine.answers_for(place.id):
                self._report_losses()
            self._event(self._machine.died, place.id)

    def _report_losses(self) -> None:
        if self._lost_nodes:
            nodes, self._lost_nodes = tuple(self._lost_nodes), []
            self._send(o.Lost(next(self._losses), nodes, "its place died"))

    def _commit(self, act: Callable[[], list[Effect]]) -> None:
        began = time.monotonic()
        self.driver.carry_out(act())
        self._machine.note_phase("commit", time.monotonic() - began)

    def _keep(self, record: r.ResizeRecord) -> None:
        self.records.append(record)
        self.records_zero_ns.append(round((self._zero_s + self._origin_s) * 1e9))

    def _finished(self, record: r.ResizeRecord) -> None:
        self._keep(replace(record, at_s=record.at_s - self._origin_s))
        # an order that moves no node leaves the losses to another one
        if record.outcome != "refused" and record.kind != "workers":
            if record.kind == "shrink" and record.outcome != "done":
                self._report_losses()
            # else the outcome says which nodes were released or gained
            self._lost_nodes.clear()
        _log.info("%s %d: %s %s", record.kind, record.n, record.outcome, record.reason)
        self._notify_handler(self.records[-1])
        if not is_own(record.order):
            self._send(
                o.Outcome(
                    order=record.order,
                    kind=record.kind,
                    outcome=record.outcome,
                    reason=record.reason[:4000].encode(errors="replace").decode(),
                    nodes=record.nodes,
                    seconds=record.seconds,
                    phases=record.phases,
                )
            )

    def _notify_handler(self, record: r.ResizeRecord) -> None:
        """Let the handler know how an order has ended, if it wants to."""
        handler = self._handler
        if handler is None or self.over or type(handler).orderEnded is MalleableHandler.orderEnded:
            return

        def notify() -> None:
            error = self._run_method(lambda: handler.orderEnded(record))
            if error is not None:
                _log.warning("orderEnded raised", exc_info=error)

        self._calls.submit(notify)

    def _run_method(self, method: Callable[[], object]) -> BaseException | None:
        """Run ``method`` and all that it spawns, with a finish of its own; returns what it raised, or else that did."""
        error: BaseException | None = None
        self._method_thread = threading.get_ident()
        finish = self.driver.open_finish()
        with entered(Scope(finish)):
            try:
                method()
            except BaseException as raised:  # noqa: BLE001 - the program's error becomes the outcome's reason
                error = raised
            failures = self.driver.close_finish(finish)
        self._method_thread = 0
        return error or (failures[0] if failures else None)

    def _call(self, call: r.CallHandler) -> None:
        """Have the handler do its part in an order."""
        handler = self._handler
        if handler is None:
            self._event(self._machine.failed, call.token, "the program gave its handler up")
            return
        if call.method in ("preGrow", "preShrink") and not self._machine.expects(call.token):
            # its order was given up while another call ran
            self._event(self._machine.failed, call.token, "")
            return
        chosen: Sequence[int] | None = None

        def carry_out() -> None:
            nonlocal chosen
            if self.tracing is not None and call.method == "postGrow":
                self.tracing.join(map(self.driver.place, call.second))
            chosen = call_handler(handler, call, self.driver.place)
            if self.tracing is not None and chosen:
                self.tracing.collect(map(self.driver.place, chosen))

        self._running = call
        error = self._run_method(carry_out)
        self._running = None
        if error is None:
            self._event(self._machine.returned, call.token, chosen)
        elif not self.over:
            _log.warning("%s raised", call.method, exc_info=error)
            text = f"{call.method} raised {serialization.summary(error)}"
            self._event(partial(self._machine.failed, chosen=chosen), call.token, text)

    # orders for another number of workers: the handler alone carries them out ---------------------------------------

    def _order_workers(self, order: int, count: int, message: Workers | None = None) -> None:
        """Take an order, with what a scheduler has said of it; never blocks."""
        with self.driver.lock:
            self._workers_orders[order] = count, time.monotonic() - self._zero_s
            if self._handler is None:
                # the handler's calls may be stuck in one that is not waited for
                self._finish_workers(order, "refused", "no malleable handler is registered")
                return

        def carry_out() -> None:
            if order in self._workers_orders:
                outcome, reason = self._set_workers(count, message)
                with self.driver.lock:
                    self._finish_workers(order, outcome, reason)

        self._calls.submit(carry_out)

    def _finish_workers(self, order: int, outcome: Literal["done", "refused"], reason: str) -> None:
        if order in self._workers_orders:
            count, at_s = self._workers_orders.pop(order)
            seconds = time.monotonic() - self._zero_s - at_s
            self._finished(ResizeRecord(order, "workers", count, at_s, seconds, {}, outcome, reason, ()))

    def _set_workers(self, count: int, message: Workers | None) -> tuple[Literal["done", "refused"], str]:
        """Call the handler; return the outcome and why."""
        handler = self._handler
        if handler is None:
            return "refused", "no malleable handler is registered"
        try:
            if message is None:
                offered = self.core_ids
            else:
                offered = core_ids.read(message.core_ids, message.core_ids_of, bind=core_ids.binds())
        except (UsageError, ValueError) as wrong:
            return "refused", str(wrong)
        self._core_ids_offered, self._offers_core_ids = offered, True
        error = self._run_method(lambda: handler.setWorkers(count))
        self._offers_core_ids = False
        if error is None:
            self._core_ids, self._knows_core_ids = offered, True
            return "done", ""
        if isinstance(error, NotImplementedError):
            return "refused", str(error)
        _handler_log.warning("setWorkers raised", exc_info=error)
        return "refused", f"setWorkers raised {serialization.summary(error)}"

    # newcomers, until they are members or dismissed -----------------------------------------------------------------

    def _spawn(self, effect: r.StartSpawn) -> None:
        began_s = time.monotonic()
        try:
            added, up_s = self._spawner.spawn(effect.nodes, self._assign_ids)
        except Exception as error:  # noqa: BLE001 - whatever kept us from growing, the order is aborted and the job goes on
            self._event(self._machine.failed, effect.token, str(error))
            return
        phases = {"spawn": up_s - began_s, "join": time.monotonic() - up_s}
        wanted = False

        def joined(now: float) -> Iterable[r.OrderEffect]:
            nonlocal wanted
            # Newcomers begin in the epoch after the one in which they were numbered, with its members. If a member has
            # died since, that epoch is another one; they are dismissed, which is simpler than to correct them.
            if self._epoch_of_newcomers != self.driver.core.epoch + 1:
                return self._machine.failed(effect.token, "a place died while the newcomers joined", now)
            effects = self._machine.spawned(effect.token, added, phases, now)
            wanted = effects is not None
            return effects or ()

        self._event(joined)
        if not wanted:
            dismiss(added, self.driver.transport)

    def _assign_ids(self, newcomers: list[PlaceInfo]) -> tuple[tuple[PlaceInfo, ...], int]:
        """Number the newcomers; if they come too late to be members, their ids are not used again either."""
        with self.driver.lock:
            membership = self.driver.core.membership
            ids = membership.new_ids(len(newcomers))
            epoch = self._epoch_of_newcomers = membership.epoch + 1
            added = [PlaceInfo(i, n.host, n.port, n.node, n.pid) for i, n in zip(ids, newcomers, strict=True)]
            return (*membership.members.values(), *added), epoch


def dismiss(newcomers: Sequence[PlaceInfo], transport: Transport) -> None:
    """Release newcomers that came too late, before they ever were members."""
    transport.learn({info.place: (info.host, info.port) for info in newcomers})
    for info in newcomers:
        with suppress(UnknownPeerError, TransportClosedError):  # it has died, or the program is over
            transport.send(info.place, encode(Release(0, 0)))
        transport.forget(info.place)


# Calls of the handler ------------------------------------------------------------------------------------------------


@context.runs("method")
def call_handler(
    handler: MalleableHandler, call: CallHandler, to_place: Callable[[int], Place]
) -> Sequence[int] | None:
    """Carry out one call; the ids that preShrink chose, None for the other methods.

    Raises:
        TypeError: preShrink returned something that is not a list of places.
    """
    first, method = [to_place(place) for place in call.first], call.method
    match method:
        case "preShrink":
            chosen: object = handler.preShrink(call.count)
            try:
                if not isinstance(chosen, Sequence):
                    raise TypeError
                return [Place.number(place) for place in chosen]
            except TypeError:
                text = f"preShrink must return a list of places, or of their ids, not {chosen!r:.200}"
                raise TypeError(text) from None
        case "postShrink":
            handler.postShrink(call.count, first)
        case "preGrow":
            handler.preGrow(call.count)
        case "postGrow":
            handler.postGrow(call.count, first, [to_place(place) for place in call.second])
        case "shrinkAborted":
            handler.shrinkAborted(first)
        case _:
            assert_never(method)
    return None


# Scheduled orders ----------------------------------------------------------------------------------------------------
#
# ``"1.5:+2,3:-1"`` grows by two after 1.5 s and shrinks by one after 3 s; ``"2:workers=4"`` lets four workers compute
# in each place after 2 s.

_FIRST: Final = 1 << 40
"""Scheduled orders get numbers that no scheduler uses."""


class ScheduledOrder(msgspec.Struct, frozen=True):
    """An order that falls due ``at_s`` seconds after the schedule was set."""

    at_s: float
    kind: RecordKind
    count: int
    nodes: tuple[str, ...] = ()


def is_own(order: int) -> bool:
    """Whether the number of an order is of this program's schedule, and not a scheduler's."""
    return order >= _FIRST


def parse_orders(text: str, hosts: tuple[str, ...] = ()) -> list[ScheduledOrder]:
    """Read a schedule; newcomers are placed on ``hosts`` in turn, on this host if there are none.

    Raises:
        UsageError: The text is not a schedule; names the part that is wrong.
    """
    orders = []
    names = cycle(hosts)
    for item in filter(None, (part.strip() for part in text.split(","))):
        at_s, kind, count = _parse_item(item)
        nodes = tuple(islice(names, count)) if hosts and kind == "grow" else ()
        orders.append(ScheduledOrder(at_s, kind, count, nodes))
    if not orders:
        raise UsageError(f"orders {text!r}: expected SECONDS:+N, SECONDS:-N or SECONDS:workers=N, separated by commas")
    return sorted(orders, key=lambda order: order.at_s)


def _parse_item(item: str) -> tuple[float, RecordKind, int]:
    when, _, change = item.partition(":")
    what, equals, number = change.partition("=")
    workers = bool(equals) and what.strip() == "workers"
    wanted = number.strip() if workers else change.strip()
    try:
        at_s, count = float(when), int(wanted)
    except ValueError:
        at_s, count = math.nan, 0
    if not math.isfinite(at_s) or (wanted[:1] in ("+", "-")) == workers:
        raise UsageError(f"order {item!r}: expected SECONDS:+N, SECONDS:-N or SECONDS:workers=N, for example 1.5:+2")
    if at_s < 0:
        raise UsageError(f"order {item!r}: the time must not be negative")
    if count == 0:
        least = "a place has at least 1 worker" if workers else "an order changes the number of places by at least 1"
        raise UsageError(f"order {item!r}: {least}")
    if abs(count) > o.MOST_COUNT:
        raise UsageError(f"order {item!r}: the number must not be above {o.MOST_COUNT}")
    return at_s, "workers" if workers else "grow" if count > 0 else "shrink", abs(count)
