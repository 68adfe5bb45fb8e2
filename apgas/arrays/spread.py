"""(place 0) Over which places the arrays of a program are spread, and how their rows come back when a place is lost.

Rows come back to the very point that the program has reached
-------------------------------------------------------------

With ``redundancy=1`` every place copies its rows at the boundary of two steps, for itself, and for a neighbour to keep.
All copies of one boundary are a *version*. When a place dies, its rows exist in the neighbour's copy only, and those of
the others are newer. Rows of one boundary and rows of a later moment must not be mixed. To go back with all of them
is not enough: ``main`` has gone on, it has swapped arrays and added up what blocks returned, and nothing takes it back.
So the rows follow ``main``:

1. *A version is of one boundary.* Everything that changes rows is an operation (``map_blocks``, ``from_array``) that
   place 0 starts, one at a time, and waits for, until nothing of the operation runs any more at any place, also if it
   fails. Copies are made between two operations. So all show the same state.
2. *A version counts when it is complete.* Place 0 takes it as valid after the ``finish`` around the copying has fired
   without an error: then each row is at its owner and at its neighbour. Until then the one before counts, and places
   keep it. Each attempt has a number of its own, so what is left of a failed one is never taken for a part of another.
3. *What has happened since is known.* Place 0 keeps a log of the operations since the valid version, with their
   arguments by value, frozen before the operation began. The state that ``main`` has seen is the valid version with
   the operations of the log applied in their order.
4. *Recovery* has the survivors hold the rows of the valid version, of the dead from the neighbours' copies; the copies
   stay as they are, so that it can begin anew if another place dies meanwhile. Then it applies the log, and takes a
   new version. What the operations return this time is dropped: ``main`` has it. Then the operation that failed, which
   is not in the log yet, is tried again. So ``main`` does not notice, but for the time.

A constant array is copied once for each layout. The next version takes the copies over, at the owner and at the
neighbour: no row has changed since the valid version (``freeze`` takes one if rows may have), and owners and neighbours
are the same. The owner's part of a version is its rows themselves. No recovery or resize writes to them: rows of a
version go to fresh memory, and a row that stays in memory that is used again stays where it is.

This gives the same rows under the condition under which resizes do not change results, either: a function computes
rows from its arguments in the same way wherever they are. What else a function does (prints, files) it may do twice.
Rows are lost for good when a place and the neighbour with its copy die before a new version is complete; the operation
then raises, and arrays are without copies from there on. Place 0 needs no neighbour: with it the job ends.

A resize moves rows between two operations, and takes a new version before leavers are released: no version depends on a
place that may leave.

Constant arrays are copied while steps go on
--------------------------------------------

Rows of a constant array are the same at every moment, so they may be read at any moment, by another thread than that of
``main``, and kept at their new owners beside what these hold. Each move has a number, under which a place keeps what
has come; nothing else is changed before the switch, between two steps. The copies then count if

1. all have been made: the ``finish`` around the copying has fired without an error;
2. no rows have moved since, by another resize or a recovery: the last number that was given is still that of the move;
3. the layouts that are wanted now are those that were planned: no place has been lost meanwhile.

Else, and for arrays that were made or became constant in between, all rows are sent at the switch, as those of other
arrays are.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from apgas.arrays import layout as layouts
from apgas.arrays.block import NOW, Held, Range, Rows
from apgas.arrays.layout import Form, Layout, Move
from apgas.arrays.operations import Operation, Ranges
from apgas.core.identity import Place
from apgas.errors import ApgasError, PlaceGoneError, UsageError
from apgas.runtime.api import async_at, finish, here, places
from apgas.runtime.context import Future
from apgas.runtime.driver import PlaceState
from apgas.runtime.refs import PlaceLocal

T = TypeVar("T")
HeldRef: TypeAlias = PlaceLocal[Held]

_LONGEST_LOG: Final = 1000
"""Operations; to apply more of them again would take too long, and their arguments too much memory."""
_NEWS_S: Final = 30.0
"""How long a place that failed another one's call may be unknown to place 0 as dead."""
_LOOK_S: Final = 0.01
_MOST_AHEAD: Final = 8
_AHEAD_S: Final = 0.1
"""By how many updates, and by how long, place 0 is ahead: a resize waits for them."""


class Pace(NamedTuple):
    """How a place sends rows.

    Attributes:
        portion_bytes: So much of them at a time, so that memory is used again that other places have let go of.
        under_way: How many portions have been sent, at most, and not come.
        rest: How long a place rests after a portion, as a multiple of the time that it took; at most 0.1 s.
    """

    portion_bytes: int
    under_way: int
    rest: float


AT_ONCE: Final = Pace(portion_bytes=8 << 20, under_way=2, rest=0.0)
_IN_BACKGROUND: Final = Pace(portion_bytes=1 << 20, under_way=1, rest=15.0)
"""What steps send waits behind one portion at most, and fifteen sixteenths of a place's time are theirs."""


class _RowsLostError(ApgasError):
    """No place has them any more."""


class SpreadArray(Protocol):
    """What is known here of an array."""

    form: Form
    held: HeldRef
    constant: bool


class Ahead(NamedTuple):
    """A move, by its number: which constant arrays are copied while steps go on, each from and to which layout."""

    move: int
    moving: list[tuple[HeldRef, Layout, Layout]]


class Logged(NamedTuple):
    """An operation that can be applied again, and whether it failed the first time, as it will again."""

    apply: Callable[[], object]
    failed: bool


class Spread:
    """The arrays of the program: their layouts, the copies of them, and what has happened since these were made."""

    def __init__(self) -> None:
        self._places = [place.id for place in places()]
        self._layouts: dict[Form, Layout] = {}
        self._arrays: weakref.WeakSet[SpreadArray] = weakref.WeakSet()
        self._saved: weakref.WeakSet[SpreadArray] = weakref.WeakSet()
        self._saved_layouts: dict[Form, tuple[Layout, dict[int, int]]] = {}
        self._version = NOW
        self._attempts = 0
        self._moves = 0
        self._log: list[Logged] = []
        self._one = threading.Lock()
        self._updates: deque[Operation] = deque()
        self._ended_s: deque[float] = deque(maxlen=_MOST_AHEAD + 1)

    def layout(self, form: Form) -> Layout:
        """That of all arrays of a form."""
        return self._layouts.setdefault(form, Layout.first(form, self._places))

    @property
    def copied(self) -> bool:
        """Whether there are copies, so that rows survive the loss of a place."""
        return self._version != NOW

    def add(self, array: SpreadArray) -> None:
        """Let every place make its rows of an array."""

        def settle() -> None:
            with finish():
                for place, ranges in ranges_of(self.layout(array.form)).items():
                    async_at(place, _begin, array.held, self._moves, ranges)

        self.carry_out(settle)
        self._arrays.add(array)

    # another set of places -------------------------------------------------------------------------------------------

    def begin(self, wanted: Sequence[Place]) -> Ahead | None:
        """Plan to spread all arrays over other places.

        Returns:
            What can be copied while steps go on; None: there is nothing of the kind, and all rows have moved.

        Raises:
            ExceptionGroup: As for ``over``.
        """

        def plan() -> Ahead | None:
            _, new = self._planned(wanted)
            constant = [array for array in self._arrays if array.constant]
            moving = [(array.held, self._layouts[array.form], new[array.form]) for array in constant]
            if all(old == new for _, old, new in moving):
                self._over(wanted, None)
                return None
            self._moves += 1
            return Ahead(self._moves, moving)

        return self.carry_out(plan)

    def copy(self, ahead: Ahead) -> None:
        """(any thread) Copy constant arrays to where they are to be; where they are, they stay.

        Raises:
            ExceptionGroup: Not all could be copied; ``over`` is to do without.
        """
        _send(ahead.moving, ahead.move, background=True)

    def over(self, wanted: Sequence[Place], ahead: Ahead | None = None) -> None:
        """Spread all arrays over other places; until all rows have come, all stays as it was.

        What has been copied ``ahead`` counts if no rows have moved since, and for arrays that are to have the same
        layout as was planned; all rows of others are sent now.

        Raises:
            ExceptionGroup: Rows could not be sent; all have theirs as before.
        """
        self.carry_out(lambda: self._over(wanted, ahead))

    def give_up(self, ahead: Ahead) -> None:
        """(any thread) Let go of what has been copied."""
        _forget_all([held for held, _, _ in ahead.moving], ahead.move, self._living())

    def _planned(self, wanted: Sequence[Place]) -> tuple[list[int], dict[Form, Layout]]:
        living = self._living()
        new_places = [place.id for place in wanted if place.id in living]
        return new_places, {form: layouts.rebalanced(layout, new_places) for form, layout in self._layouts.items()}

    def _over(self, wanted: Sequence[Place], ahead: Ahead | None) -> None:
        new_places, new = self._planned(wanted)
        moving = [(array.held, self._layouts[array.form], new[array.form]) for array in self._arrays]
        come = [each for each in moving if each in ahead.moving] if ahead and ahead.move == self._moves else []
        others = [each for each in moving if each not in come]
        self._moves += 1
        try:
            _send(others, self._moves)
        except BaseException:
            _forget_all([held for held, _, _ in moving], self._moves, self._living())
            raise
        with finish():
            if ahead:
                _settle_all(come, ahead.move)
            _settle_all(others, self._moves)
        self._places, self._layouts = new_places, new
        if self.copied:
            self._save()

    # operations ------------------------------------------------------------------------------------------------------

    def carry_out(
        self,
        operation: Callable[[], T],
        freeze: Callable[[], Callable[[], object]] | None = None,
        *,
        in_turn: bool = False,
    ) -> T:
        """Carry an operation out; where there are copies, again after a loss, when all rows are as before it.

        Args:
            operation: What to do.
            freeze: If it changes rows: makes what does the same again later. Called before the operation, and only if
                it may be needed.
            in_turn: Whether places do it after the updates before it anyway.

        Returns:
            What the operation returned.

        Raises:
            UsageError: There are copies, and another operation is being carried out.
            ApgasError: Rows are lost for good.
            BaseException: What the operation raised, or an update before it.
        """
        if not in_turn:
            self.await_updates()
        if not self.copied:
            result = operation()
            self.await_updates()
            return result
        if not self._one.acquire(blocking=False):
            raise UsageError("where arrays have copies, one operation is carried out at a time: wait for the other one")
        try:
            return self._recorded(operation, freeze)
        finally:
            self._one.release()

    def update(self, start: Callable[[], Operation]) -> Operation:
        """Start an operation that nothing waits for, but for later ones: place 0 is some, and 0.1 s, ahead at most."""
        first_s, last_s = (self._ended_s[0], self._ended_s[-1]) if self._ended_s else (0.0, 0.0)
        each_s = (last_s - first_s) / (len(self._ended_s) - 1) if last_s > first_s else _AHEAD_S
        self.await_updates(but=max(1, min(_MOST_AHEAD, int(_AHEAD_S / each_s))))
        self._updates.append(operation := start())
        return operation

    def await_updates(self, but: int = 0) -> None:
        """(any thread) Wait for updates that have begun, but for the last ``but``; raises what one failed with."""
        for update in [*self._updates][: max(0, len(self._updates) - but)]:
            try:
                update.wait()
                self._ended_s.append(update.ended_s)
            finally:
                with suppress(ValueError):  # another thread may have waited for it as well
                    self._updates.remove(update)

    def _recorded(self, operation: Callable[[], T], freeze: Callable[[], Callable[[], object]] | None) -> T:
        if len(self._log) >= _LONGEST_LOG:
            self._despite_losses(self._save)
        apply = freeze() if freeze is not None else None
        failed = True
        try:
            result = self._despite_losses(operation)
            failed = False
        finally:
            if apply is not None:
                self._log.append(Logged(apply, failed))
        return result

    def save(self) -> None:
        """Copy all rows, for the neighbours to keep; not again if no operation has changed any."""
        if self._log or not self.copied:
            self.carry_out(self._save)

    def _despite_losses(self, operation: Callable[[], T]) -> T:
        while True:
            known = self._living()
            try:
                return operation()
            except Exception as error:
                if not self._lost_since(known, error):
                    raise
            self._recover()

    def _living(self) -> set[int]:
        return {place.id for place in places()}

    def _lost_since(self, known: set[int], error: Exception) -> bool:
        """Whether places have been lost, of those that were known or that hold rows."""
        until_s = time.monotonic() + (_NEWS_S if _is_of_loss(error) else 0)
        while not (lost := (known | set(self._places)) - self._living()) and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        return bool(lost)

    # copies, and recovery from them ----------------------------------------------------------------------------------

    def _save(self) -> None:
        self._attempts += 1
        arrays = list(self._arrays)
        saved = {form: (layout, layouts.neighbours(layout, self._places)) for form, layout in self._layouts.items()}
        known = self._saved_layouts if self.copied else {}
        there = [a for a in arrays if a.constant and a in self._saved and known.get(a.form) == saved[a.form]]
        others = [array for array in arrays if array not in there]
        with finish():
            for place in self._places:
                heirs = [saved[array.form][1].get(place) if place else None for array in others]
                copied = [(array.held, array.constant, heir) for array, heir in zip(others, heirs, strict=True)]
                async_at(place, _save, copied, [array.held for array in there], self._attempts, self._version)
        self._version, self._log = self._attempts, []
        self._saved, self._saved_layouts = weakref.WeakSet(arrays), saved

    def _recover(self) -> None:
        """Let all rows be what they were before the operation that failed, without the places that are lost.

        Raises:
            ApgasError: Rows are lost for good; there are no copies any more.
        """
        while True:
            known = self._living()
            try:
                self._restore(known)
                for entry in self._log:
                    with suppress(*[Exception] * entry.failed):
                        entry.apply()
                self._save()
            except Exception as error:
                if not isinstance(error, _RowsLostError) and self._lost_since(known, error):
                    continue
                self._version, self._log = NOW, []
                raise
            return

    def _restore(self, living: set[int]) -> None:
        """Have survivors hold the rows of the valid version."""
        base: dict[Form, Layout] = {}
        for form, (layout, heirs) in self._saved_layouts.items():
            if lost := layouts.lost_for_good(layout, heirs, living):
                raise _RowsLostError(
                    f"rows of arrays are lost: place {lost[0]} has died, and place {heirs.get(lost[0])}, "
                    "which kept its copy"
                )
            base[form] = layouts.inherited(layout, {dead: heir for dead, heir in heirs.items() if dead not in living})
        self._places = [place for place in self._places if place in living]
        self._layouts = {
            form: layouts.rebalanced(base[form], self._places) if form in base else Layout.first(form, self._places)
            for form in self._layouts
        }
        saved = [(array.held, base[array.form], self._layouts[array.form]) for array in self._saved]
        # what was made since begins as zeros again, and operations of the log fill it
        newer = [array for array in self._arrays if array not in self._saved]
        made = [(array.held, Layout((), (0,)), self._layouts[array.form]) for array in newer]
        self._moves += 1
        _send([*saved, *made], self._moves, self._version)
        _settle_all([*saved, *made], self._moves, living)


def spread_of_program() -> Spread:
    """The one of the program.

    Raises:
        UsageError: Not on place 0.
    """
    if here().id != 0:
        raise UsageError(f"arrays are made and used on place 0, not on {here()}; map_blocks runs code where rows are")
    return _spread.get()


_spread: Final = PlaceState(Spread)


def _is_of_loss(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_of_loss, error.exceptions))
    return isinstance(error, PlaceGoneError)


def ranges_of(layout: Layout) -> dict[int, list[Range]]:
    """The blocks of each place that has some, in the order of the rows."""
    found: dict[int, list[Range]] = {}
    for place, first, end in layout.blocks():
        found.setdefault(place, []).append((first, end))
    return found


# between places ------------------------------------------------------------------------------------------------------

Moving: TypeAlias = Iterable[tuple[HeldRef, Layout, Layout]]
Errand: TypeAlias = tuple[HeldRef, dict[int, Ranges]]
"""An array, and which of its rows a place is to send to which place."""


def by_route(moves: Iterable[Move]) -> dict[int, dict[int, Ranges]]:
    """What each source sends to each target."""
    found: dict[int, dict[int, Ranges]] = {}
    for source, target, first, end in moves:
        found.setdefault(source, {}).setdefault(target, []).append((first, end))
    return found


def _send(moving: Moving, move: int, version: int = NOW, *, background: bool = False) -> None:
    """Bring rows, or copies of them, to those who will have them."""
    errands: dict[int, list[Errand]] = {}
    with finish():
        for held, old, new in moving:
            for place, ranges in ranges_of(new).items():
                async_at(place, _expect, held, move, ranges, version)
            for source, sends in by_route(layouts.ways(old, new)).items():
                errands.setdefault(source, []).append((held, sends))
    with finish():
        for source, of_source in errands.items():
            async_at(source, _send_rows, of_source, move, version, _IN_BACKGROUND if background else AT_ONCE)


def _settle_all(moving: Moving, move: int, others: Iterable[int] = ()) -> None:
    """Let all owners hold their rows, and old owners, and ``others``, no more than those."""
    with finish():
        for held, old, new in moving:
            owners = ranges_of(new)
            for place in {*owners, *old.owners, *others}:
                async_at(place, _settle if place in owners else _begin, held, move)


def _begin(held: HeldRef, move: int, ranges: Sequence[Range] = ()) -> None:
    held.get().expect(move, ranges)
    held.get().settle(move)


def _expect(held: HeldRef, move: int, ranges: Ranges, version: int) -> None:
    held.get().expect(move, ranges, version)


def _send_rows(errands: list[Errand], move: int, version: int, pace: Pace) -> None:
    """Bring rows to all who will have them, this place among them, a portion at a time."""
    under_way: deque[Future[None]] = deque()
    for held, sends in errands:
        mine = held.get()
        for target, parts in sends.items():
            for portion in layouts.portions(parts, max(1, pace.portion_bytes // max(1, mine.row_bytes))):
                began_s = time.monotonic()
                rows = mine.parts(portion, version)
                if target == here().id:
                    _take_rows(held, move, rows)
                else:
                    under_way.append(async_at(target, _take_rows, held, move, rows))
                if len(under_way) >= pace.under_way:
                    under_way.popleft().result()
                if pace.rest:  # a sleep of no time gives the core away, too; what took long has waited for a step
                    time.sleep(min(0.1, pace.rest * (time.monotonic() - began_s)))


def _take_rows(held: HeldRef, move: int, parts: list[tuple[int, Rows]]) -> None:
    for first, rows in parts:
        held.get().take(move, first, rows)


def _settle(held: HeldRef, move: int) -> None:
    held.get().settle(move)


def _forget_all(held: list[HeldRef], move: int, living: Iterable[int]) -> None:
    with finish():
        for place in living:
            async_at(place, _forget, held, move)


def _forget(held: list[HeldRef], move: int) -> None:
    for each in held:
        each.get().forget(move)


def _save(copied: list[tuple[HeldRef, bool, int | None]], there: list[HeldRef], version: int, valid: int) -> None:
    for held in there:
        held.get().carry(version, valid)
    for held, constant, neighbour in copied:
        made = held.get().save(version, valid, constant=constant)
        if neighbour is not None:
            async_at(neighbour, _keep, held, version, made)


def _keep(held: HeldRef, version: int, copies: list[tuple[int, Rows]]) -> None:
    # large rows lie in memory of the place that sent them: what is to survive it is copied
    held.get().keep(version, [(first, rows.copy()) for first, rows in copies])
