"""Operations: place 0 has a function run on all blocks of some arrays, each place its part, where the blocks are.

The steps of a loop are many, small and alike, so an operation costs few messages. All but the first are immediates,
which are not answered, and a function and the arrays that it works on are sent once (``Part``), not in each step:

    place 0     Start(k) --> each place that has part in it, behind the one before, k' ("I am your next after k'")
    a place     begins k when k' is over there: sends the rows that others need of it
    a place     runs the function when all the rows that it needs have come; Done(k) --> place 0
    place 0     hears that rows will not come: Skip(k) --> all that have part in it

So places wait for their neighbours, and for place 0 only if that does. Rows may come before k has begun: they are kept
until then, for k' may still read and write the same arrays.

An operation may need a value that an earlier one, q, has returned and that is reduced over all places (``Reduction``).
If q is still open, and is of the same places, they send one another what q has returned there (``AllGather``), and k
waits for that as it does for rows. Otherwise place 0 waits for q, and sends the value with Start.

*It ends.* Every living place says Done of every operation exactly once, by induction over its operations in their
order. k begins there, for k' is over. It sends before it waits. If rows do not come, then their sender has failed
before it sent them, which it says in its Done; or it was lost; or it has never begun, for its Start could not be sent
or read, of which place 0 learns. If what q has returned does not come, then for one of these reasons, too, or because
q has failed. In each case place 0 sends Skip, and then k is over without having run. Skip may come before Start: it
names k', so that the operations after k can begin. A Start may also come before another one that brings its part: it
is kept until then. If that one cannot be sent or read, place 0 sends Skip for both.

*It is over when it has ended.* Done comes after the function and all the activities that this has started: they have
a finish of their own, which is opened when the first of them is. When all places that live have said Done, nothing of
the operation runs any more, at any place; also if it has failed.
"""

from __future__ import annotations

import concurrent.futures
import operator
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import InvalidStateError
from contextlib import nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import count, repeat
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from apgas.arrays.block import Held, Range, Rows
from apgas.arrays.turns import AllGather, Begin, Run, Share, Skip, Turns
from apgas.core.identity import Place
from apgas.core.messages import FinishId
from apgas.errors import ApgasError, CancelledError, DeadPlaceError, PlaceGoneError, UsageError
from apgas.malleability.sizing import Measured
from apgas.runtime import serialization
from apgas.runtime.api import at, capture, immediate
from apgas.runtime.context import Future, Scope, call_within, runs, this_thread
from apgas.runtime.driver import LEAD_S, Driver, PlaceState, required_driver
from apgas.runtime.malleable import nodes as nodes_of_job
from apgas.runtime.refs import PlaceLocal
from apgas.runtime.trace import span

T = TypeVar("T")
Ranges: TypeAlias = list[Range]
Parts: TypeAlias = list[tuple[int, Rows]]
"""Rows, each with its index in the whole array."""
Rowset: TypeAlias = Sequence[tuple[int, Parts]]
"""What one place sends another for an operation: of each argument, by its number, the rows."""

_MOST_PLANS: Final = 32
"""How many parts a place keeps: loops have a few, and what a part refers to may be gone."""
_MOST_UNSAID: Final = 3
_UNSAID_S: Final = 0.03
"""How many operations of a loop, and for how long, a place carries out before it says that they are over."""
_MOST_LOOKED_AT: Final = 1000
"""Of the values of a function, one by one, to find out whether they are simple."""


class Operand:
    """An array among the arguments of a function, as it travels; it keeps the array alive nowhere.

    Args:
        held: What the places hold of it.
        total: How many rows it has.
        width: How many rows of others its blocks come with, at both ends; None: the function gets all rows.
        constant: Whether its blocks are for reading only.
    """

    def __init__(self, held: PlaceLocal[Held], total: int, width: int | None, constant: bool) -> None:
        self._ref = weakref.ref(held)
        self._held = weakref.ref(held.get())
        self._total, self._width, self._constant = total, width, constant

    def __reduce__(self) -> tuple[type[Operand], tuple[Any, ...]]:
        return Operand, (self._ref(), self._total, self._width, self._constant)

    @property
    def held(self) -> Held:
        """What this place holds of it."""
        held = self._held()
        assert held is not None, "arrays live as long as operations on them"
        return held

    def take(self, parts: Parts) -> None:
        """Keep rows that have come from another place."""
        for first, rows in parts:
            if self._width is None:
                self.held.take_whole(self._total, first, rows)
            else:
                self.held.take_halo(self._width, first, rows)

    def prepare(self, ends: Any) -> None:
        """Be ready, with what is beyond the ends, before any block is handed out: rows may move in memory for it."""
        if self._width:
            self.held.reserve(self._width)
            self.held.fill_halo(self._width, self._total, *ends)

    def each(self) -> Iterable[Any]:
        """What each call of the function gets."""
        if self._width is None:
            return repeat(self.held.whole(self._total))
        return self.held.blocks(self._width, constant=self._constant)


class Reducing(NamedTuple):
    """How what is returned for all blocks becomes one value; ``owners`` are their places."""

    op: Callable[[Any, Any], Any]
    owners: Sequence[int]

    def reduce(self, values: Mapping[int, Iterable[Any]]) -> Any:
        """The value of those of each place, in the order of its blocks."""
        return reduced(self.op, in_order(self.owners, values))


class Awaited(NamedTuple):
    """An argument that is the reduced value of an operation, which may not be over."""

    operation: int


_SIMPLE: Final = (bool, int, float, complex, str, bytes, type(None), Awaited)


class Part(NamedTuple):
    """What a place has to do in operations that are alike.

    Attributes:
        operands: The arguments of the function, None for those that each operation gives anew.
        sends: For each place that needs rows the numbers of the arguments, and which of their rows.
        awaited: How many places send it rows.
        reducing: How places reduce among themselves what is returned, if they do.
        places: All that have part in them.
    """

    fn: Callable[..., Any]
    operands: Sequence[Operand | None]
    sends: Mapping[int, Sequence[tuple[int, Ranges]]]
    awaited: int
    reducing: Reducing | None
    places: Sequence[int]


class Start(NamedTuple):
    """The order to carry out an operation.

    Attributes:
        operation: Its number.
        before: That of the one before it at the same place; -1: it is the first there.
        plan: The number of its plan, by which the place keeps its part for others; -1: it does not.
        given: For each argument what is not in the plan.
        wanted: Whether place 0 wants to have what the function returns.
        oldest: The first operation whose value this one or later ones may need.
        part: What is to be done; None: the place has it.
    """

    operation: int
    before: int
    plan: int
    given: Sequence[Any]
    wanted: bool
    oldest: int
    part: Part | None = None


class Plan(NamedTuple):
    """(place 0) All parts of operations that are alike.

    Attributes:
        number: Of the plan; -1: there is one operation only.
        layouts: Of the arrays when it was made.
        parts: That of each place.
        known: The places that have theirs.
    """

    number: int
    layouts: Sequence[object]
    parts: Mapping[int, Part]
    known: set[int]


# the operations of one place -----------------------------------------------------------------------------------------


class _Reply(NamedTuple):
    """What a place says of an operation that is over there.

    Attributes:
        worked_s: How long functions have worked.
        values: What they returned, if that is wanted, and not None for each block.
        error: What went wrong.
        unsent: Whether others may wait for rows in vain.
    """

    worked_s: float = 0.0
    values: list[Any] | None = None
    error: bytes | None = None
    unsent: bool = False


class _OwnScope:
    """The scope of a function: a finish that is opened when the function spawns something."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._finish: FinishId | None = None

    @property
    def finish(self) -> FinishId:
        with self._driver.lock:  # which some hold when they ask
            if self._finish is None:
                self._finish = self._driver.open_finish()
            return self._finish

    def close(self) -> None:
        if self._finish is not None and (errors := self._driver.close_finish(self._finish)):
            raise BaseExceptionGroup(f"{len(errors)} error(s) of what a function on blocks has spawned", errors)


_Order: TypeAlias = tuple[Start, Part]
_Step: TypeAlias = Begin[_Order] | Run[_Order, Rowset] | Skip


class _Worker:
    """(each place) Carries its operations out, on one thread at a time, ``thread`` while that runs a function."""

    def __init__(self) -> None:
        self.turns: Turns[_Order, Rowset] = Turns()
        self.parts: dict[int, Part] = {}
        self.thread = 0
        self._early: dict[int, list[Start]] = {}
        self._returned: dict[int, AllGather[list[Any]]] = {}
        self._reducing: dict[int, Reducing] = {}
        self._lock = threading.Lock()
        self._busy = False
        self._unsaid: list[tuple[Any, ...]] = []
        self._said_s = 0.0
        self._asked = False

    def notify(self, change: Callable[[], None], *, stay: bool = False) -> None:
        """Something has come: do what is to be done now, on a thread of the pool, or on this one (``stay``)."""
        with self._lock:
            change()
            step = None if self._busy else self.turns.step()
            if step is None:
                return
            self._busy = True
        if stay:
            self._work(step)
        else:
            required_driver().executor.submit(partial(self._work, step))

    def start(self, start: Start) -> None:
        """(locked) An operation is to be carried out: with this part, or when its part has come with another start."""
        part = self.parts.get(start.plan) if start.part is None else start.part
        if part is None:
            self._early.setdefault(start.plan, []).append(start)
            return
        if start.plan >= 0:
            self.parts[start.plan] = part
        for each in (start, *self._early.pop(start.plan, ())):
            self.turns.start(each.operation, each.before, (each, part))

    def forget_plan(self, plan: int) -> None:
        """(locked) No operation of a plan will come any more."""
        self.parts.pop(plan, None)
        self._early.pop(plan, None)

    def _work(self, step: _Step | None) -> None:
        escaped: BaseException | None = None
        while step is not None and escaped is None:
            reply: _Reply | None
            try:
                reply = self._carry_out(step)
            except BaseException as error:  # noqa: BLE001 - as that of an activity it goes to place 0, whatever it is
                driver = required_driver()
                said = serialization.dump_error(error, driver.core.here, driver.here.node)
                reply = _Reply(error=said, unsent=isinstance(step, Begin))
                if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
                    escaped = error  # it ends the program
            with self._lock:
                if reply is not None:
                    self._unsaid.append((step.operation, *reply))
                    self._asked = self._asked or not isinstance(step, Run) or step.start[0].wanted or bool(reply.error)
                    self.turns.end()
                step = self.turns.step()
                waits = step is None and not self.turns.idle and escaped is None
                self._busy = step is not None or waits
                news = () if isinstance(step, Begin) else self._due()  # others wait for the rows that it sends
            if news:
                _say_done(news)
            if waits:
                # the rows will most often come soon, and no other thread has to wake this one then
                call_within(None, nullcontext, required_driver().transport.loop.lead, self.turns.ready, LEAD_S)
                with self._lock:
                    step = self.turns.step()
                    self._busy = step is not None
        if escaped is not None:
            if step is not None:
                required_driver().executor.submit(partial(self._work, step))
            raise escaped

    def _due(self) -> Sequence[tuple[Any, ...]]:
        """What place 0 is to be informed of now: it need not hear of each step of a loop by itself."""
        unsaid, now_s = self._unsaid, time.monotonic()
        late = len(unsaid) >= _MOST_UNSAID or now_s > self._said_s + _UNSAID_S
        if not unsaid or not (late or self._asked or self.turns.idle):
            return ()
        self._unsaid, self._said_s, self._asked = [], now_s, False
        return unsaid

    def _carry_out(self, step: _Step) -> _Reply | None:
        match step:
            case Begin(operation, (start, part)):
                self._send(operation, part)
                needed = [each.operation for each in start.given if isinstance(each, Awaited)]
                with self._lock:
                    self.turns.await_rows(part.awaited, needed)
                    self._forget(start.oldest)
                return None
            case Run(_, (start, part), rows):
                return self._run(start, part, rows)
            case _:
                return _Reply()

    def _send(self, operation: int, part: Part) -> None:
        """Rows are copied, for functions may write to them while they are under way."""
        copies: dict[tuple[int, tuple[Range, ...]], Parts] = {}
        for target, wanted in part.sends.items():
            rows = []
            for number, ranges in wanted:
                if (same := (number, tuple(ranges))) not in copies:
                    copies[same] = [(first, found.copy()) for first, found in _operand(part, number).held.parts(ranges)]
                rows.append((number, copies[same]))
            required_driver().transport.throttle(target)
            immediate(target, _come, operation, rows)

    def _forget(self, oldest: int) -> None:
        """(locked) No value of an operation before this one will be needed."""
        if self._returned:
            self.turns.forget(oldest)
            for kept in (self._returned, self._reducing):
                for operation in [each for each in kept if each < oldest]:
                    del kept[operation]

    def gather(self, operation: int, change: Callable[[AllGather[list[Any]]], Sequence[Share[list[Any]]]]) -> None:
        """Something is known of what an operation has returned: others may have to know it, too."""

        def note() -> None:
            gather = self._returned.setdefault(operation, AllGather())
            for to, number, values in change(gather):
                immediate(to, _share, operation, number, values)
            if gather.all() is not None:
                self.turns.know(operation)

        self.notify(note)

    def _reduced(self, operation: int) -> Any:
        returned = self._returned[operation].all()
        assert returned is not None, "an operation runs when it has what it needs"
        return deepcopy(self._reducing[operation].reduce(returned))

    def _run(self, start: Start, part: Part, come: Sequence[Rowset]) -> _Reply:
        for rows in come:
            for number, parts in rows:
                _operand(part, number).take(parts)
        values = [self._reduced(each.operation) if isinstance(each, Awaited) else each for each in start.given]
        arguments = [*zip(part.operands, values, strict=True)]
        for operand, given in arguments:
            if operand is not None:
                operand.prepare(given)
        columns = [repeat(given) if operand is None else operand.each() for operand, given in arguments]
        driver = required_driver()
        scope = _OwnScope(driver)
        waiting = driver.executor.waiting if this_thread.scope is None else this_thread.waiting
        return call_within(cast("Scope", scope), waiting, self._call, scope, start, part, columns)

    def _call(self, scope: _OwnScope, start: Start, part: Part, columns: Sequence[Iterable[Any]]) -> _Reply:
        driver = required_driver()
        began_s = time.perf_counter()
        self.thread = threading.get_ident()
        try:
            values = _call_each(part.fn, columns)
            worked_s = time.perf_counter() - began_s
            if part.reducing is not None:
                return _Reply(worked_s, self._exchanged(start.operation, part, part.reducing, values))
            if not start.wanted or all(value is None for value in values):
                return _Reply(worked_s)
            driver.transport.throttle(0)
            if driver.core.here == 0 or simple(values):
                return _Reply(worked_s, values)
            at(0, _keep_values, start.operation, driver.core.here, values)  # they may be anything, even unreadable
            return _Reply(worked_s)
        finally:
            self.thread = 0
            driver.end_forked_child()
            scope.close()

    def _exchanged(self, operation: int, part: Part, reducing: Reducing, values: list[Any]) -> list[Any]:
        if not simple(values):
            raise UsageError("what is reduced without waiting is made of numbers and arrays, and is no other object")
        own = deepcopy(values)  # they may be views of blocks
        self._reducing[operation] = reducing
        self.gather(operation, lambda gather: gather.begin(part.places, required_driver().core.here, own))
        return own


def _operand(part: Part, number: int) -> Operand:
    operand = part.operands[number]
    assert operand is not None, "rows are of arrays"
    return operand


@runs("fn")
def _call_each(fn: Callable[..., Any], columns: Sequence[Iterable[Any]]) -> list[Any]:
    with span(serialization.name_of(fn), "blocks"):
        return [fn(*each) for each in zip(*columns, strict=False)]  # as often as there are blocks


_worker: Final = PlaceState(_Worker)


def _begin(start: Iterable[Any], *, stay: bool = False) -> None:
    worker = _worker.get()
    worker.notify(partial(worker.start, Start(*start)), stay=stay)


def _come(operation: int, rows: Rowset) -> None:
    """(io thread) Rows have come, of one or more arguments."""
    worker = _worker.get()
    worker.notify(partial(worker.turns.come, operation, rows))


def _share(operation: int, number: int, values: Sequence[list[Any]]) -> None:
    """(io thread) Other places have returned this."""
    _worker.get().gather(operation, lambda gather: gather.come(number, values))


def _skip(operation: int, before: int) -> None:
    """(io thread) The operation has failed elsewhere."""
    worker = _worker.get()
    worker.notify(partial(worker.turns.skip, operation, before))


def _forget(plan: int) -> None:
    """(io thread) No operation of this plan will come any more."""
    worker = _worker.get()
    worker.notify(partial(worker.forget_plan, plan))


def _say_done(news: Sequence[tuple[Any, ...]]) -> None:
    if (here := required_driver().core.here) == 0:
        _done(0, news)
    else:
        immediate(0, _done, here, news)


# place 0 -------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Operation:
    """(place 0) An operation that has begun.

    Attributes:
        before: At each place that has part in it the number of the operation before it there.
        ended: Its end: None, or all errors as one.
        needs: The operations whose values it needs.
        args: What is to live until its end.
        remaining: The places that have not said that it is over there.
        replies: What the others have said.
        ended_s: When it ended, by ``time.monotonic``.
        on_end: Called with the errors as one, or None.
        relying: The places that have their part from an operation before it.
        spoiled: Whether one that it needs has failed, and it therefore.
    """

    number: int
    before: dict[int, int]
    remaining: set[int]
    ended: Future[None]
    plan: Plan
    needs: Sequence[Operation]
    args: Sequence[Any]
    replies: dict[int, _Reply] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)
    ended_s: float = 0.0
    on_end: Callable[[BaseException | None], None] = lambda _: None
    relying: set[int] = field(default_factory=set)
    spoiled: bool = False

    def wait(self) -> None:
        """Wait for its end; raises what went wrong."""
        required_driver().wait(self.ended)

    def reduced(self) -> Any:
        """Wait for what it returns, reduced; raises what went wrong."""
        self.wait()
        reducing = next(iter(self.plan.parts.values())).reducing
        assert reducing is not None, "who asks for it has said how"
        return reducing.reduce(self.values())

    def values(self) -> dict[int, Iterable[Any]]:
        """What each place has returned for its blocks, if that was wanted."""
        found = {place: reply.values for place, reply in self.replies.items()}
        return {place: repeat(None) if values is None else values for place, values in found.items()}


class Reduction:
    """A value that is reduced over all blocks, while place 0 goes on: what ``reduce_blocks(..., wait=False)`` returns.

    As an argument of a later operation the function gets the value itself, which places then have of one another,
    without place 0.

    Example:
        >>> from apgas import arrays
        >>> numbers = arrays.from_function(lambda i: i, 10)
        >>> largest = arrays.reduce_blocks(lambda block: block.local.max(), numbers, op=max, wait=False)
        >>> def turn_round(block, largest):
        ...     block.local = largest - block.local
        >>> arrays.update_blocks(turn_round, numbers, largest)
        >>> float(largest.result()), numbers.gather()[:3].tolist()
        (9.0, [9.0, 8.0, 7.0])
    """

    def __init__(self, value: Callable[[], Any], operation: Operation | None = None) -> None:
        self._value = value
        self._operation = operation

    def __reduce__(self) -> str:
        raise TypeError("a reduction stays on place 0: give it to a function on blocks as an argument of its own")

    def result(self) -> Any:
        """Wait for the value, and return it.

        Raises:
            ExceptionGroup: The function has failed, on one or more places.
        """
        return self._value()

    def pending(self, plan: Plan) -> Operation | None:
        """Its operation, if that is not over and the places of a plan will have the value by themselves."""
        operation = self._operation
        if operation is None or not operation.remaining or operation.errors:
            return None
        return operation if operation.plan.parts.keys() == plan.parts.keys() else None


class Work:
    """How long the places have worked on their blocks, and until when; the rest of the time they have waited.

    Attributes:
        until_s: When the last operation ended, by ``time.monotonic``, and the seconds of each place, by id, until then.
    """

    def __init__(self) -> None:
        self.until_s: tuple[float, dict[int, float]] = (time.monotonic(), {})
        self._measured_s = self.until_s

    def add(self, ended_s: float, seconds_of: Iterable[tuple[int, float]]) -> None:
        """An operation has ended: add the seconds that each place worked in it."""
        worked_s = self.until_s[1].copy()
        for place, seconds in seconds_of:
            worked_s[place] = worked_s.get(place, 0.0) + seconds
        self.until_s = ended_s, worked_s

    def measure(self) -> Measured | None:
        """What part of their time the nodes have worked since the last call; None: no operation has ended since."""
        (before_s, before), self._measured_s = self._measured_s, self.until_s
        until_s, worked_s = self._measured_s
        if until_s <= before_s:
            return None
        seconds, nodes = until_s - before_s, [[place.id for place in node] for node in nodes_of_job()]
        busy = [sum(worked_s.get(place, 0.0) - before.get(place, 0.0) for place in node) / len(node) for node in nodes]
        known = all(place in before for node in nodes for place in node)
        return Measured(until_s, seconds, [min(1.0, each / seconds) for each in busy], ready=known)


class Operations:
    """(place 0) Starts operations, and hears of their ends; ``work`` is how long functions have worked in them."""

    def __init__(self) -> None:
        self.work = Work()
        self._driver = required_driver()
        self._driver.on_place_died.append(self._died)
        self._lock = threading.RLock()
        self._numbers, self._plan_numbers = count(), count()
        self._last: dict[int, int] = {}
        self._open: dict[int, Operation] = {}
        self._claims: list[Operation] = []
        self._values: dict[tuple[int, int], list[Any]] = {}
        self._plans: OrderedDict[object, Plan] = OrderedDict()

    def plan(self, key: object, layouts: Sequence[object], make: Callable[[], Mapping[int, Part]]) -> Plan:
        """The plan of operations that are alike.

        Args:
            key: The same for those that are; None: there is one only.
            layouts: Of the arrays; a plan holds as long as these are the same objects.
            make: Makes the parts of all places.
        """
        if key is None:
            return Plan(-1, layouts, make(), set())
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None and all(map(operator.is_, plan.layouts, layouts)):
                self._plans.move_to_end(key)
                return plan
            self._forget(key)
            plan = self._plans[key] = Plan(next(self._plan_numbers), layouts, make(), set())
            if len(self._plans) > _MOST_PLANS:
                self._forget(next(iter(self._plans)))
            return plan

    def _forget(self, key: object) -> None:
        plan = self._plans.pop(key, None)
        if plan is not None:
            for place in plan.known:
                with suppress(ApgasError):
                    immediate(place, _forget, plan.number)

    def start(self, plan: Plan, given: Sequence[Any], args: Sequence[Any], *, wanted: bool) -> Operation:
        """Start an operation; ``args`` live until its end.

        If what it returns is ``wanted``, the caller waits for it, and this place carries its part out at once, on this
        thread; else the finish around waits for it.

        Raises:
            CancelledError: The finish around is cancelled.
            ExceptionGroup: One of the places has gone.
            UsageError: The caller runs in no activity, or in a function on blocks.
        """
        if _worker.get().thread == threading.get_ident():
            raise UsageError("a function on blocks does not work with arrays itself: it is a part of an operation")
        if not self._driver.core.may_begin(capture().finish):
            raise CancelledError("the finish around is cancelled")
        reductions = [arg for arg in given if isinstance(arg, Reduction)]
        with self._lock:  # the places keep values that are claimed
            pending = {each: operation for each in reductions if (operation := each.pending(plan)) is not None}
            self._claims += pending.values()
        try:
            values = [_argument(arg, pending) if isinstance(arg, Reduction) else arg for arg in given]
            return self._start(plan, values, [*pending.values()], args, wanted=wanted)
        finally:
            with self._lock:
                for operation in pending.values():
                    self._claims.remove(operation)

    def _start(
        self, plan: Plan, given: Sequence[Any], needs: Sequence[Operation], args: Sequence[Any], *, wanted: bool
    ) -> Operation:
        driver, scope, own = self._driver, capture(), self._driver.core.here
        light = plan.number >= 0 and simple(given)
        own_given = given if wanted else deepcopy(given) if light else by_value(given)()
        release = None if wanted else driver.hold(scope)
        try:
            operation, oldest = self._opened(plan, needs, args)
        except BaseException:
            if release is not None:
                release(None)
            raise
        operation.on_end = release or operation.on_end
        for place in plan.parts:
            if place != own:
                start = Start(operation.number, operation.before[place], plan.number, given, wanted, oldest)
                self._send(operation, place, start, scope, light=light)
        driver.transport.loop.flush_now()  # others begin while we do
        if own in plan.parts:
            start = Start(operation.number, operation.before[own], -1, own_given, wanted, oldest, plan.parts[own])
            _begin(start, stay=wanted)
        return operation

    def _opened(self, plan: Plan, needs: Sequence[Operation], args: Sequence[Any]) -> tuple[Operation, int]:
        with self._lock:
            try:
                for place in plan.parts:
                    self._driver.core.membership.require(place)
            except PlaceGoneError as error:
                raise _failure([error]) from None
            number = next(self._numbers)
            before = {place: self._last.get(place, -1) for place in plan.parts}
            operation = Operation(number, before, set(before), self._driver.expected(), plan, needs, args)
            self._last.update(dict.fromkeys(before, number))
            self._open[number] = operation
            for each in needs:
                if each.errors:  # since it was asked for
                    self._spoil(each)
            return operation, min(next(iter(self._open)), *(each.number for each in self._claims), number)

    def _send(self, operation: Operation, place: int, start: Start, scope: Scope, *, light: bool) -> None:
        plan = operation.plan
        with self._lock:  # the place may turn out just now not to have the part
            first = place not in plan.known
            relies = light and not first
            (operation.relying if relies else plan.known).add(place)
        try:
            if relies:
                immediate(place, _begin, tuple(start))  # what is made of plain types is pickled faster
                return
            call: serialization.Call = (_begin, (start._replace(part=plan.parts[place]),), {})
            begun = self._driver.spawn(scope, self._driver.place(place), call, to_caller=True)
        except Exception as error:  # noqa: BLE001 - what cannot be sent fails the operation, which has begun elsewhere
            self._fail(operation, place, error, first=first)
        else:
            begun.add_done_callback(partial(self._begun, operation, place, first))

    def _begun(self, operation: Operation, place: int, first: bool, begun: concurrent.futures.Future[None]) -> None:
        if (error := begun.exception()) is not None:
            self._fail(operation, place, error, first=first)

    def _fail(self, operation: Operation, place: int, error: BaseException, *, first: bool) -> None:
        """A place does not know of the operation, nor of its part if this is the first that brings it."""
        with self._lock:
            operation.plan.known.discard(place)
            same = [each for each in self._open.values() if each.plan is operation.plan and place in each.relying]
            failed = [operation, *(same if first else ())]
            for each in failed:
                if place in each.remaining:
                    each.errors.append(error)
                    self._skip(each)
                    self._spoil(each)
        for each in failed:
            self.done(each.number, place, _Reply())

    def _died(self, place: Place) -> None:
        with self._lock:
            self._last.pop(place.id, None)
            involved = [operation for operation in self._open.values() if place.id in operation.before]
            for operation in involved:
                if not any(isinstance(error, DeadPlaceError) and error.place == place.id for error in operation.errors):
                    operation.errors.append(self._driver.death(place.id, 1))
                self._skip(operation)
        for operation in involved:
            self.done(operation.number, place.id, _Reply())

    def _skip(self, operation: Operation) -> None:
        for place in operation.remaining:
            if place == self._driver.core.here:
                _skip(operation.number, operation.before[place])
            else:
                immediate(place, _skip, operation.number, operation.before[place])

    def _spoil(self, failed: Operation) -> None:
        """(locked) What needs the value of an operation that has failed fails, too."""
        for operation in self._open.values():
            if failed in operation.needs and not operation.errors:
                operation.spoiled = True
                operation.errors.append(CancelledError("an operation whose value this one needs has failed"))
                self._skip(operation)
                self._spoil(operation)

    def keep(self, operation: int, place: int, values: list[Any]) -> None:
        """Keep what a place has returned, before it says that the operation is over."""
        self._values[operation, place] = values

    def done(self, number: int, place: int, reply: _Reply) -> None:
        """An operation is over at a place; without effect where that is known."""
        with self._lock:
            operation = self._open.get(number)
            if operation is None or place not in operation.remaining:
                return
            operation.remaining.remove(place)
            if (values := self._values.pop((number, place), None)) is not None:
                reply = reply._replace(values=values)
            operation.replies[place] = reply
            if reply.error is not None:
                operation.errors.append(serialization.load_error(reply.error))
                self._spoil(operation)
            if reply.unsent:
                self._skip(operation)
            if operation.remaining:
                return
            del self._open[number]
            operation.args = operation.needs = ()  # what has not waited yet keeps no arrays
            operation.ended_s = time.monotonic()
            self.work.add(operation.ended_s, ((each, said.worked_s) for each, said in operation.replies.items()))
        error = _failure(operation.errors) if operation.errors else None
        with suppress(InvalidStateError):  # the program has ended without it
            if error is None:
                operation.ended.set_result(None)
            else:
                operation.ended.set_exception(error)
        self._driver.transport.loop.nudge()
        operation.on_end(None if operation.spoiled else error)


operations: Final = PlaceState(Operations)


def _argument(reduction: Reduction, pending: Mapping[Reduction, Operation]) -> Any:
    return Awaited(pending[reduction].number) if reduction in pending else reduction.result()


def in_order(owners: Iterable[int], values: Mapping[int, Iterable[T]]) -> list[T]:
    """The values of the places, which are in the order of their own blocks, in that of all blocks."""
    of_place = {place: iter(each) for place, each in values.items()}
    return [next(of_place[place]) for place in owners]


def reduced(op: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    """Combine values in their order; of tuples, each element by itself."""
    if isinstance(values[0], tuple):
        return tuple(reduce(op, each) for each in zip(*values, strict=True))
    return reduce(op, values)


def _failure(errors: Sequence[BaseException]) -> BaseExceptionGroup[BaseException]:
    return BaseExceptionGroup(f"{len(errors)} error(s) of an operation on arrays", errors)


def _done(place: int, news: Sequence[tuple[Any, ...]]) -> None:
    """(io thread) Operations are over at a place."""
    for number, *reply in news:
        operations.get().done(number, place, _Reply(*reply))


def _keep_values(operation: int, place: int, values: list[Any]) -> None:
    operations.get().keep(operation, place, values)


# what travels ---------------------------------------------------------------------------------------------------------


def simple(value: object) -> bool:
    """Whether any place can read it, and whether it may be read on the io thread."""
    kind = type(value)
    if kind is tuple or kind is list:
        parts: Sequence[object] = value  # type: ignore[assignment]  # as its type says
        return len(parts) <= _MOST_LOOKED_AT and all(map(simple, parts))
    if kind is np.ndarray:
        return not cast("Rows", value).dtype.hasobject
    return kind in _SIMPLE or isinstance(value, np.number | np.bool_)


def by_value(value: T) -> Callable[[], T]:
    """Make copies of it as it is now, whatever becomes of it."""
    payload = serialization.dumps(value)
    copied = serialization.like(payload, [bytearray(buffer) for buffer in payload])
    return lambda: serialization.loads(copied)
