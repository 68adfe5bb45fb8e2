"""(place 0) Over which places the arrays of a program are spread, and how their rows come back when a place is lost.

Rows come back to the very point that the program has reached
-------------------------------------------------------------

With ``redundancy=1`` every place copies its rows at the boundary of two steps, for itself, and for a neighbour to keep.
All copies of one boundary are a *version*. When a place dies, its rows exist in the neighbour's copy only, and those of
the others are newer. Rows of one boundary and rows of a later moment must not be mixed. To go back with all of them
is not enough: ``main`` has gone on, it has swapped arrays and added up what blocks returned, and nothing takes it back.
So the rows follow ``main``:

1. *A version is of one boundary.* Everything that changes rows is an operation (``map_blocks``, ``from_array``) that
   place 0 starts, one at a time, and waits for with a ``finish``; that fires only when nothing of the operation runs
   any more at any place, also if it fails. Copies are made between two operations. So all show the same state.
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

This gives the same rows under the condition under which resizes do not change results, either: a function computes
rows from its arguments in the same way wherever they are. What else a function does (prints, files) it may do twice.
Rows are lost for good when a place and the neighbour with its copy die before a new version is complete; the operation
then raises, and arrays are without copies from there on. Place 0 needs no neighbour: with it the job ends.

A resize moves rows between two operations, and takes a new version before leavers are released: no version depends on a
place that may leave.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from apgas.arrays import layout as layouts
from apgas.arrays.block import NOW, Held, Range, Rows
from apgas.arrays.layout import Form, Layout, Move
from apgas.core.identity import Place
from apgas.errors import ApgasError, PlaceGoneError, UsageError
from apgas.runtime.api import async_at, finish, here, places
from apgas.runtime.driver import PlaceState
from apgas.runtime.refs import PlaceLocal

T = TypeVar("T")
HeldRef: TypeAlias = PlaceLocal[Held]

_LONGEST_LOG: Final = 1000
"""Operations; to apply more of them again would take too long, and their arguments too much memory."""
_NEWS_S: Final = 30.0
"""How long a place that failed another one's call may be unknown to place 0 as dead."""
_LOOK_S: Final = 0.01


class _RowsLostError(ApgasError):
    """No place has them any more."""


class SpreadArray(Protocol):
    """What is known here of an array."""

    form: Form
    held: HeldRef


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
        self._log: list[Logged] = []
        self._one = threading.Lock()

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
                    async_at(place, _settle, array.held, ranges, NOW)

        self.carry_out(settle)
        self._arrays.add(array)

    def over(self, wanted: Sequence[Place]) -> None:
        """Spread all arrays over other places; until all rows have come, all stays as it was.

        Raises:
            ExceptionGroup: Rows could not be sent; all have theirs as before.
        """
        self.carry_out(lambda: self._over([place.id for place in wanted]))

    def _over(self, wanted: Sequence[int]) -> None:
        living = self._living()
        new_places = [place for place in wanted if place in living]
        new = {form: layouts.rebalanced(layout, new_places) for form, layout in self._layouts.items()}
        moving = [(array.held, self._layouts[array.form], new[array.form]) for array in self._arrays]
        try:
            _send(moving)
        except BaseException:
            self._forget()
            raise
        _settle_all(moving)
        self._places, self._layouts = new_places, new
        if self.copied:
            self._save()

    # operations ------------------------------------------------------------------------------------------------------

    def carry_out(self, operation: Callable[[], T], freeze: Callable[[], Callable[[], object]] | None = None) -> T:
        """Carry an operation out; where there are copies, again after a loss, when all rows are as before it.

        Args:
            operation: What to do.
            freeze: If it changes rows: makes what does the same again later. Called before the operation, and only if
                it may be needed.

        Returns:
            What the operation returned.

        Raises:
            UsageError: There are copies, and another operation is being carried out.
            ApgasError: Rows are lost for good.
            BaseException: What the operation raised.
        """
        if not self.copied:
            return operation()
        if not self._one.acquire(blocking=False):
            raise UsageError("where arrays have copies, one operation is carried out at a time: wait for the other one")
        try:
            return self._recorded(operation, freeze)
        finally:
            self._one.release()

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
        with finish():
            for place in self._places:
                copied = [(array.held, saved[array.form][1].get(place) if place else None) for array in arrays]
                async_at(place, _save, copied, self._attempts, self._version)
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
        self._forget()
        saved = [(array.held, base[array.form], self._layouts[array.form]) for array in self._saved]
        # what was made since begins as zeros again, and operations of the log fill it
        newer = [array for array in self._arrays if array not in self._saved]
        made = [(array.held, Layout((), (0,)), self._layouts[array.form]) for array in newer]
        _send(saved, self._version)
        _settle_all([*saved, *made], self._version, living)

    def _forget(self) -> None:
        living, held = self._living(), [array.held for array in self._arrays]
        with finish():
            for place in living:
                async_at(place, _forget, held)


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
Ranges: TypeAlias = list[Range]


def by_route(moves: Iterable[Move]) -> dict[int, dict[int, Ranges]]:
    """What each source sends to each target."""
    found: dict[int, dict[int, Ranges]] = {}
    for source, target, first, end in moves:
        found.setdefault(source, {}).setdefault(target, []).append((first, end))
    return found


def _send(moving: Moving, version: int = NOW) -> None:
    """Send rows, or copies of them, to those who will have them."""
    with finish():
        for held, old, new in moving:
            ranges = ranges_of(new)
            for source, sends in by_route(layouts.moves(old, new)).items():
                async_at(source, _send_rows, held, {to: (ranges[to], parts) for to, parts in sends.items()}, version)


def _settle_all(moving: Moving, version: int = NOW, others: Iterable[int] = ()) -> None:
    """Let all owners hold their rows, and old owners, and ``others``, no more than those."""
    with finish():
        for held, old, new in moving:
            nothing: dict[int, Ranges] = {place: [] for place in (*old.owners, *others)}
            for place, ranges in (nothing | ranges_of(new)).items():
                async_at(place, _settle, held, ranges, version)


def _send_rows(held: HeldRef, sends: dict[int, tuple[Ranges, Ranges]], version: int) -> None:
    for target, (ranges, parts) in sends.items():
        rows = [(first, held.get().part(first, end, version)) for first, end in parts]
        async_at(target, _take_rows, held, ranges, rows)


def _take_rows(held: HeldRef, ranges: Ranges, parts: list[tuple[int, Rows]]) -> None:
    for first, rows in parts:
        held.get().take(ranges, first, rows)


def _settle(held: HeldRef, ranges: Ranges, version: int) -> None:
    held.get().settle(ranges, version)


def _forget(held: list[HeldRef]) -> None:
    for each in held:
        each.get().forget()


def _save(copied: list[tuple[HeldRef, int | None]], version: int, valid: int) -> None:
    for held, neighbour in copied:
        made = held.get().save(version, valid)
        if neighbour is not None:
            async_at(neighbour, _keep, held, version, made)


def _keep(held: HeldRef, version: int, copies: list[tuple[int, Rows]]) -> None:
    # large rows lie in memory of the place that sent them: what is to survive it is copied
    held.get().keep(version, [(first, rows.copy()) for first, rows in copies])
