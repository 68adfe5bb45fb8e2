"""The scheduler of a simulated job: gives the orders that a test wants, and hears of their outcomes."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from apgas.core.resize import RecordKind
from apgas.malleability import orders as wire
from apgas.malleability.communicator import OrderListener


@dataclass(eq=False)
class Order:
    """An order that a test gives.

    Attributes:
        number: Of the order; the record of its end has the same.
        kind: ``grow`` or ``shrink``.
        count: Of nodes.
        nodes: Where to grow, or whom to release preferably.
        at_progress: It is given when the program has told so much progress; None: as soon as it may be.
        core_ids: Workers: the cores of each node that the program may use; empty: nothing is said of them.
        deferred: Whether the program waited in ``pre*`` for so long that the scheduler was told.
        outcome: How it ended; None: not yet.
    """

    number: int
    kind: RecordKind
    count: int
    nodes: tuple[str, ...]
    at_progress: float | None
    core_ids: str = ""
    deferred: bool = False
    outcome: wire.Outcome | None = None
    _scheduler: TestScheduler | None = field(default=None, repr=False)

    def wait(self, timeout_s: float = 10.0) -> wire.Outcome:
        """Wait until it has ended.

        Args:
            timeout_s: Seconds to wait.

        Returns:
            How it ended: ``outcome`` (``done``, ``refused``, ``aborted``), ``reason``, ``nodes``, ``phases``.

        Raises:
            AssertionError: It did not end in time.
        """
        assert self._scheduler is not None
        return self._scheduler.wait_for(self, timeout_s)

    def withdraw(self) -> None:
        """Take it back: this ends it while it waits, for its moment, in line, or in ``pre*``; later it is too late.

        One that the program has not heard of ends as ``refused``; the job's ``resizes`` do not have it.
        """
        assert self._scheduler is not None
        self._scheduler.withdraw(self)

    def as_message(self) -> wire.Order:
        """The order as schedulers send it."""
        if self.kind == "workers":
            return wire.Workers(order=self.number, count=self.count, core_ids=self.core_ids)
        message = wire.Grow if self.kind == "grow" else wire.Shrink
        return message(order=self.number, count=self.count, nodes=self.nodes)


class TestScheduler:
    """A communicator that holds orders back until the program is ready for them.

    Args:
        fresh: Names nodes that the job has not had yet.

    Attributes:
        orders: All that were given, or are to be given.
        spare_nodes: How many nodes there are to grant when the program asks for some.
        messages: All that the job said.
    """

    __test__ = False

    def __init__(self, fresh: Callable[[int], tuple[str, ...]]) -> None:
        self.orders: list[Order] = []
        self.messages: list[wire.Message] = []
        self.spare_nodes = 0
        self._fresh = fresh
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._held: list[Order] = []
        self._ready = False
        self._progress: float | None = None
        self._to_job: queue.SimpleQueue[wire.ToJob | None] = queue.SimpleQueue()

    def give(
        self,
        kind: RecordKind,
        count: int,
        nodes: tuple[str, ...] = (),
        at_progress: float | None = None,
        core_ids: str = "",
    ) -> Order:
        """Give an order as soon as the program has a handler, and has told so much progress."""
        if kind == "grow" and not nodes:
            nodes = self._fresh(count)
        order = Order(next(self._numbers), kind, count, nodes, at_progress, core_ids, _scheduler=self)
        with self._changed:
            self.orders.append(order)
            self._held.append(order)
            self._release()
        return order

    def withdraw(self, order: Order) -> None:
        """Take an order back."""
        with self._changed:
            if order in self._held:
                self._held.remove(order)
                order.outcome = wire.Outcome(
                    order=order.number,
                    kind=order.kind,
                    outcome="refused",
                    reason="withdrawn",
                    nodes=(),
                    seconds=0.0,
                    phases={},
                )
                self._changed.notify_all()
            else:
                self._to_job.put(wire.Withdraw(order=order.number))

    def wait_for(self, order: Order, timeout_s: float) -> wire.Outcome:
        """Wait until an order has ended.

        Raises:
            AssertionError: It did not end in time.
        """
        with self._changed:
            self._changed.wait_for(lambda: order.outcome is not None, timeout_s)
            if order.outcome is None:
                given = "was not given: the program is not ready for it" if order in self._held else "did not end"
                raise AssertionError(f"{order} {given} within {timeout_s:g} s")
            return order.outcome

    # the job's side (Communicator) -----------------------------------------------------------------------------------

    def start(self, listener: OrderListener) -> None:
        """Give orders to ``listener``: on a thread of our own, for the job may speak while it holds its locks."""
        threading.Thread(target=self._deliver, args=(listener,), name="test-scheduler", daemon=True).start()

    def send(self, message: wire.Message) -> None:
        """Hear what the job says."""
        with self._changed:
            self.messages.append(message)
            self._take(message)
            self._release()
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread."""
        self._to_job.put(None)

    def _deliver(self, listener: OrderListener) -> None:
        while (message := self._to_job.get()) is not None:
            match message:
                case wire.Grow() | wire.Shrink() | wire.Workers():
                    listener.order(message)
                case wire.Withdraw():
                    listener.withdraw(message)
                case wire.Answer():
                    listener.answer(message)
                    if message.granted:
                        self.give("grow" if message.granted > 0 else "shrink", abs(message.granted))
                case wire.Welcome() | wire.Refused():
                    raise AssertionError(f"a test sends no {message}")
                case _:
                    assert_never(message)

    def _take(self, message: wire.Message) -> None:
        match message:
            case wire.Ready():
                self._ready = True
            case wire.Disable():
                self._ready = False
            case wire.Progress(done=done):
                self._progress = done
            case wire.Deferred(order=number):
                for order in self.orders:
                    order.deferred = order.deferred or order.number == number
            case wire.Outcome(order=number):
                for order in self.orders:
                    if order.number == number:
                        order.outcome = message
            case wire.Lost():
                pass  # it is among the messages
            case wire.Evolving():
                # what it offers is taken, what it asks for is granted as long as there is some to spare
                granted = min(message.delta, self.spare_nodes)
                self.spare_nodes -= granted
                self._to_job.put(wire.Answer(request=message.request, granted=granted))
            case _:
                raise AssertionError(f"a job does not send {message}")

    def _release(self) -> None:
        """Give the held orders whose moment has come, with ``_changed`` held."""
        due = [order for order in self._held if self._is_due(order)]
        self._held = [order for order in self._held if order not in due]
        for order in due:
            self._to_job.put(order.as_message())

    def _is_due(self, order: Order) -> bool:
        if order.at_progress is None:
            return self._ready
        return self._ready and self._progress is not None and self._progress >= order.at_progress
