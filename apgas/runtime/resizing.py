"""Place 0's part in resizes: interprets the effects of ``core.reshape`` with handler, MPI and scheduler."""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from msgspec.structs import replace

from apgas.core import resize as r
from apgas.core.effects import Effect
from apgas.core.identity import Place
from apgas.core.nodes import Nodes
from apgas.core.reshape import Reshape, Step
from apgas.errors import CancelledError, UsageError
from apgas.malleability import orders as o
from apgas.malleability.communicator import Communicator
from apgas.malleability.handler import MalleableHandler
from apgas.runtime import codec, logs
from apgas.runtime.admission import Newcomers
from apgas.runtime.calibration import Calibration
from apgas.runtime.context import Future
from apgas.runtime.driver import Driver
from apgas.runtime.evolving import Requests
from apgas.runtime.growth import Spawner
from apgas.runtime.handlers import SerialCalls, call_handler
from apgas.runtime.methods import Methods
from apgas.runtime.schedule import OwnOrders, ScheduledOrder, is_own
from apgas.runtime.validation import checked
from apgas.runtime.workers import WorkersOrders

if TYPE_CHECKING:
    from apgas.malleability.core_ids import CoreIds
    from apgas.runtime.tracing import Tracing

_log = logging.getLogger("apgas.resize")
T = TypeVar("T")

PROGRESS_EVERY_S = 0.25
"""The scheduler hears of progress no more often."""


class Resizing:
    """Everything about orders on place 0.

    Args:
        driver: Its place.
        spawner: Starts newcomers.
        communicator: The way to the scheduler, if there is one.
        began_s: When the times of the records begin; None: now.

    Attributes:
        over: Whether the program has ended: then no method of the handler is called.
    """

    def __init__(
        self, driver: Driver, spawner: Spawner, communicator: Communicator | None = None, began_s: float | None = None
    ) -> None:
        self.driver = driver
        self.communicator = communicator
        self.records: list[r.ResizeRecord] = []
        self.tracing: Tracing | None = None
        self.calibration: Calibration | None = None
        self.idle = threading.Condition(driver.lock)
        self.over = False
        self._newcomers = Newcomers(driver, spawner)
        self._reshape = checked(Reshape)(driver.core.membership.members)
        self._handler: MalleableHandler | None = None
        self._was_registered = False
        self._running: r.CallHandler | None = None
        self._wish: tuple[r.CallHandler | None, Callable[[], object], Future[Any]] | None = None
        self._given_up = ""
        self._calls = SerialCalls(driver.chores.submit, self._now_idle)
        self._methods = Methods(driver)
        self._workers = WorkersOrders(driver, self._calls, self._methods, lambda: self._handler, self._finished)
        self._own = OwnOrders(driver.transport.call_later, self._due)
        self._requests = Requests(self._tell)
        self.progress_every_s = PROGRESS_EVERY_S
        self._progress_s = -math.inf
        self._zero_s = self._workers.zero_s = time.monotonic() if began_s is None else began_s
        self._origin_s = 0.0
        self._lost_nodes: list[str] = []
        self._losses = itertools.count()
        driver.on_leaver_drained = self._leaver_drained
        driver.on_place_died.append(self._died)

    # the program's side ----------------------------------------------------------------------------------------------

    def share_nodes(self, places_per_node: int) -> None:
        """Let so many places make up a node, before the first order.

        Raises:
            UsageError: The present places do not fill their nodes.
        """
        with self.driver.lock:
            self._reshape.nodes = Nodes(self.driver.core.membership.members, places_per_node)

    @property
    def places_per_node(self) -> int:
        """How many places share a node."""
        return self._reshape.nodes.places_per_node

    def nodes(self) -> list[list[Place]]:
        """The places of each node, without those that are about to leave."""
        with self.driver.lock:
            staying = {place.id: place for place in self.driver.places()}
            held = [[staying[i] for i in places if i in staying] for places in self._reshape.nodes.held()]
        return [places for places in held if places]

    def define(
        self,
        handler: MalleableHandler,
        deadlines: r.Deadlines,
        bounds: r.Bounds,
        places_per_node: int | None = None,
    ) -> None:
        """Register the program's handler and tell the scheduler that orders are welcome.

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
            self._reshape.deadlines = deadlines
            self._reshape.bounds = bounds
            self._reshape.enable()
            nodes = self._reshape.nodes.names()
        self._tell(o.Ready(nodes))

    def disable(self) -> None:
        """Give the handler up, and wait until an order that is being carried out, and its last call, have ended.

        Raises:
            UsageError: Called by a method of the handler, for whose order it would wait.
        """
        if self._handler is None:
            return
        if threading.get_ident() == self._methods.thread:
            raise UsageError("a method of the malleable handler cannot give it up: its order has to end before")
        self._give_up(self._reshape.disable, "the program gave its handler up", None, calls=True)

    def end(self, timeout_s: float | None = None) -> None:
        """The program has ended: its handler is not called any more, nor waited for; MPI and leavers are.

        Args:
            timeout_s: How long at most; by default as long as the deadlines of an order's steps allow.
        """
        if self._handler is None:
            return
        with self.driver.lock:
            self.over = True
        self._give_up(self._reshape.end, "the program has ended", timeout_s, calls=False)

    def _give_up(
        self, act: Callable[[float], list[r.ReshapeEffect]], why: str, timeout_s: float | None, *, calls: bool
    ) -> None:
        self.drain_scheduled()
        with self.driver.lock:
            self._given_up = why
        self._event(act)
        self._forget_wish(lambda _: True)
        if timeout_s is None:
            timeout_s = self._reshape.deadlines.after_pre_s
        with self.idle:
            self.idle.wait_for(lambda: self._settled(calls=calls), min(timeout_s, threading.TIMEOUT_MAX))
            self._handler = None
            if self.over:
                self._workers.end("the program has ended")
        self._tell(o.Disable())
        self._requests.give_up()

    def _settled(self, *, calls: bool) -> bool:
        return self._reshape.step is Step.IDLE and not (calls and self._calls.busy)

    def at_safe_point(self, act: Callable[[], T]) -> T:
        """(method of the handler) Have the program call ``act`` between two of its steps; returns its value.

        Raises:
            UsageError: This is no method of the handler.
            CancelledError: The order was given up, or the program gave its handler up or has ended, before.
            BaseException: What ``act`` raised.
        """
        if threading.get_ident() != self._methods.thread:
            raise UsageError("at_safe_point works in methods of the malleable handler only, on their own thread")
        future: Future[T] = Future()
        with self.driver.lock:
            self._wish = self._running, act, future
        self._forget_wish(lambda call: bool(self._given_up) or self._is_vain(call))
        return future.result()

    def safe_point(self) -> None:
        """Do what a method of the handler waits for."""
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

    def _is_vain(self, call: r.CallHandler | None) -> bool:
        """Whether ``call`` is awaited no more."""
        return call is not None and call.token != r.NO_TOKEN and not self._reshape.expects(call.token)

    def _forget_wish(self, condition: Callable[[r.CallHandler | None], bool]) -> None:
        """Let the method that waits for a safe point, if ``condition`` holds for its call, know that none will come."""
        with self.driver.lock:
            if self._wish is None or not condition(self._wish[0]):
                return
            _, _, future = self._wish
            self._wish = None
        future.set_exception(CancelledError(self._given_up or "its order was given up"))

    @property
    def records_began_ns(self) -> int:
        """The clock when the times of the records began."""
        return round((self._zero_s + self._origin_s) * 1e9)

    @property
    def core_ids(self) -> CoreIds | None:
        """The cores that the job may use; None where nothing was said of them."""
        return self._workers.core_ids

    def shrink_wish(self) -> list[Place]:
        """The places on the nodes that the scheduler would like back in the current shrink, while that awaits them."""
        with self.driver.lock:
            call = self._running
            wish = call.wish if call is not None and self._reshape.awaits(call.token) else ()
        _, *others = self.nodes()
        return [place for places in others for place in places if place.node in wish]

    def request(self, delta: int) -> Future[int]:
        """Ask the scheduler for ``delta`` nodes more, or offer nodes back; the future is what it grants.

        Raises:
            UsageError: There is no handler, without which no order can follow.
        """
        if self._handler is None:
            raise UsageError("only a program with a malleable handler may ask for nodes or offer them")
        return self._requests.ask(delta, anybody=self.communicator is not None)

    def schedule(self, due: Iterable[ScheduledOrder]) -> None:
        """Give ourselves orders at their times, counted from now, as are the times of records from here on."""
        with self.driver.lock:
            # a timer of 0 s may fire before this has returned: it waits for the lock
            self._origin_s = time.monotonic() - self._zero_s
            self._own.add(due)

    def drain_scheduled(self) -> None:
        """Withdraw the scheduled orders that are not due yet."""
        with self.driver.lock:
            self.records += self._own.withdraw()

    def _due(self, number: int) -> None:
        with self.driver.lock:
            item = self._own.take(number)
            if item is None:
                return
            if item.kind == "workers":
                self._workers.ordered(number, item.count)
                return
            order = r.ResizeOrder(number, item.kind, item.count, item.nodes)
            self._event(lambda now: self._reshape.ordered(order, now))

    # the scheduler's side (OrderListener) ----------------------------------------------------------------------------

    def order(self, order: o.Order) -> None:
        """Take an order of the scheduler."""
        if isinstance(order, o.Workers):
            self._workers.ordered(order.order, order.count, order)
            return
        kind: r.Kind = "grow" if isinstance(order, o.Grow) else "shrink"
        taken = r.ResizeOrder(order.order, kind, order.count, order.nodes)
        self._event(lambda now: self._reshape.ordered(taken, now))

    def withdraw(self, order: o.Withdraw) -> None:
        """Take an order back."""
        self._event(lambda now: self._reshape.withdrawn(order.order, now))

    def answer(self, answer: o.Answer) -> None:
        """Take the answer to an evolving request."""
        self._requests.answered(answer)

    def scheduler_lost(self, reason: str) -> None:
        """End the job, for its scheduler is gone."""
        self.driver.on_place_lost(0, f"the scheduler is lost: {reason}")

    def progress(self, done: float, total: float | None, unit: str) -> None:
        """Tell the scheduler how far the program is; not too often."""
        now = time.monotonic()
        if now - self._progress_s >= self.progress_every_s:
            self._progress_s = now
            self._tell(o.Progress(done, total, unit))

    def _tell(self, message: o.Message) -> None:
        if self.communicator is not None:
            self.communicator.send(message)

    # effects ---------------------------------------------------------------------------------------------------------

    def _event(self, act: Callable[[float], list[r.ReshapeEffect] | None]) -> bool:
        """Let the machine take an event; False if it had no use for it (None)."""
        with self.driver.lock:
            effects = act(time.monotonic() - self._zero_s)
            for effect in effects or ():
                self._interpret(effect)
            self.idle.notify_all()
        return effects is not None

    def _interpret(self, effect: r.ReshapeEffect) -> None:
        core = self.driver.core
        match effect:
            case r.CallHandler():
                self._take_call(effect)
            case r.StartSpawn():
                self.driver.chores.submit(lambda: self._spawn(effect))
            case r.CommitGrow(added):
                self._commit(lambda: core.commit_grow(added))
                logs.tell(self.driver, added)
            case r.PrepareShrink(order, leavers):
                self.driver.carry_out(core.prepare_shrink(order, leavers))
            case r.AbortShrink(order):
                self.driver.carry_out(core.abort_shrink(order))
            case r.CommitShrink(order, leavers):
                self._commit(lambda: core.commit_shrink(order))
                for place in leavers:
                    self.driver.transport.on_gone(place, partial(self._gone, place))
            case r.SetTimer(token, delay_s):
                self.driver.transport.call_later(delay_s, partial(self._timeout, token))
            case r.TellDeferred(order):
                if not is_own(order):
                    self._tell(o.Deferred(order, "waiting for a suitable phase of the program"))
            case r.Finished(record):
                self._forget_wish(self._is_vain)
                self._finished(record)
            case _:
                assert_never(effect)

    def _take_call(self, call: r.CallHandler) -> None:
        if self.over:
            self._event(lambda now: self._reshape.failed(call.token, "the program has ended", now))
            return
        # what a late preShrink took from places that stay is undone before the next order begins
        self._calls.add(lambda: self._call(call), next_=call.token == r.NO_TOKEN)

    def _now_idle(self) -> None:
        with self.idle:
            self.idle.notify_all()

    def _leaver_drained(self, order: int, place: int) -> None:
        self._event(lambda now: self._reshape.drained(order, place, now))

    def _died(self, place: Place) -> None:
        """A place died, and the members go on: if that was the last one of a node, the scheduler loses a node."""
        with self.driver.lock:
            if self._reshape.nodes.is_gone(place.id):
                self._lost_nodes.append(place.node)
            if not self._reshape.answers_for(place.id):
                self._tell_losses()
            self._event(lambda now: self._reshape.died(place.id, now))

    def _tell_losses(self) -> None:
        if self._lost_nodes:
            nodes, self._lost_nodes = tuple(self._lost_nodes), []
            self._tell(o.Lost(next(self._losses), nodes, "its place died"))

    def _timeout(self, token: int) -> None:
        self._event(lambda now: self._reshape.timeout(token, now))

    def _gone(self, place: int) -> None:
        self._event(lambda now: self._reshape.gone(place, now))

    def _commit(self, act: Callable[[], list[Effect]]) -> None:
        began = time.monotonic()
        self.driver.carry_out(act())
        self._reshape.note_phase("commit", time.monotonic() - began)

    def _finished(self, record: r.ResizeRecord) -> None:
        self.records.append(replace(record, at_s=record.at_s - self._origin_s))
        # an order that moves no node leaves the losses to another one
        if record.outcome != "refused" and record.kind != "workers":
            if record.kind == "shrink" and record.outcome != "done":
                self._tell_losses()
            # else the outcome says which nodes were released or gained
            self._lost_nodes.clear()
        _log.info("%s %d: %s %s", record.kind, record.n, record.outcome, record.reason)
        self._tell_handler(self.records[-1])
        if not is_own(record.order):
            self._tell(
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

    def _tell_handler(self, record: r.ResizeRecord) -> None:
        """Let the handler know how an order has ended, if it wants to."""
        handler = self._handler
        if handler is None or self.over or type(handler).orderEnded is MalleableHandler.orderEnded:
            return

        def tell() -> None:
            error = self._methods.run(lambda: handler.orderEnded(record))
            if error is not None:
                _log.warning("orderEnded raised", exc_info=error)

        self._calls.add(tell)

    def _call(self, call: r.CallHandler) -> None:
        """Run a handler method as an activity under a finish of its own."""
        handler = self._handler
        if handler is None:
            self._event(lambda now: self._reshape.failed(call.token, "the program gave its handler up", now))
            return
        if call.method in ("preGrow", "preShrink") and not self._reshape.awaits(call.token):
            # its order was given up while another call ran
            self._event(lambda now: self._reshape.failed(call.token, "", now))
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
        error = self._methods.run(carry_out)
        self._running = None
        if error is None:
            self._event(lambda now: self._reshape.returned(call.token, chosen, now))
        elif not self.over:
            _log.warning("%s raised", call.method, exc_info=error)
            text = f"{call.method} raised {codec.summary(error)}"
            self._event(lambda now: self._reshape.failed(call.token, text, now, chosen))

    def _spawn(self, effect: r.StartSpawn) -> None:
        try:
            added, phases = self._newcomers.start(effect.nodes)
        except Exception as error:  # noqa: BLE001 - whatever kept us from growing, the order is aborted and the job goes on
            text = str(error)
            self._event(lambda now: self._reshape.failed(effect.token, text, now))
            return
        with self.driver.lock:
            if self._newcomers.current:
                wanted = self._event(lambda now: self._reshape.spawned(effect.token, added, phases, now))
            else:
                why = "a place died while the newcomers joined"
                wanted = self._event(lambda now: self._reshape.failed(effect.token, why, now)) and False
        if not wanted:
            self._newcomers.send_home(added)
