"""Orders without a scheduler: ``"1.5:+2,3:-1"`` grows by two after 1.5 s and shrinks by one after 3 s.

``"2:workers=4"`` lets four workers compute in each place after 2 s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import cycle, islice
from typing import Final

import msgspec

from apgas.core.resize import RecordKind, ResizeRecord
from apgas.errors import UsageError
from apgas.transport.base import TimerHandle

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


class OwnOrders:
    """The orders that a program has scheduled for itself and that are not due yet.

    Args:
        later: Calls a function after so many seconds; see ``Transport.call_later``.
        due: Called with the number of an order when it falls due.
    """

    def __init__(self, later: Callable[[float, Callable[[], None]], TimerHandle], due: Callable[[int], None]) -> None:
        self._later = later
        self._due = due
        self._waiting: dict[int, tuple[ScheduledOrder, TimerHandle]] = {}
        self._next = _FIRST

    def add(self, orders: Iterable[ScheduledOrder]) -> None:
        """Let ``orders`` fall due at their times, counted from now."""
        for item in orders:
            number = self._next
            self._next += 1
            self._waiting[number] = item, self._later(item.at_s, partial(self._due, number))

    def take(self, number: int) -> ScheduledOrder | None:
        """The order that falls due; None if it was withdrawn meanwhile."""
        item, _ = self._waiting.pop(number, (None, None))
        return item

    def withdraw(self) -> list[ResizeRecord]:
        """Withdraw all of them; returns how each has ended."""
        records = []
        for number, (item, handle) in sorted(self._waiting.items()):
            handle.cancel()
            reason = f"the computation ended before {item.at_s:g} s"
            records.append(ResizeRecord(number, item.kind, item.count, item.at_s, 0.0, {}, "not_due", reason, ()))
        self._waiting.clear()
        return records


def parse_orders(text: str, hosts: tuple[str, ...] = ()) -> list[ScheduledOrder]:
    """Read a schedule; newcomers are placed on ``hosts`` in turn, on this host if there are none.

    Raises:
        UsageError: The text is not a schedule; names the culprit.
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
    when, colon, change = item.partition(":")
    what, equals, number = change.partition("=")
    if equals and what.strip() == "workers":
        at_s, _, workers = _parse_item(f"{when}:+{number.strip()}")
        return at_s, "workers", workers
    try:
        at_s, count = float(when), int(change)
    except ValueError:
        at_s, count = math.nan, 0
    if not colon or not math.isfinite(at_s) or change.strip()[:1] not in ("+", "-"):
        raise UsageError(f"order {item!r}: expected SECONDS:+N, SECONDS:-N or SECONDS:workers=N, for example 1.5:+2")
    if at_s < 0:
        raise UsageError(f"order {item!r}: the time must not be negative")
    if count == 0:
        raise UsageError(f"order {item!r}: an order changes the number of places by at least 1")
    return at_s, "grow" if count > 0 else "shrink", abs(count)
