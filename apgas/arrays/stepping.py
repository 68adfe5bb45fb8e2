"""The steps of a program with arrays: between two of them the rows follow the places that come and go."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, SupportsIndex

from apgas.arrays.layout import whole_number
from apgas.arrays.operations import operations
from apgas.arrays.spread import Ahead, Spread, spread_of_program
from apgas.core.identity import Place
from apgas.core.resize import Deadlines
from apgas.errors import ApgasError, UsageError
from apgas.malleability.handler import Leader
from apgas.malleability.sizing import Sizing
from apgas.runtime.api import places
from apgas.runtime.driver import PlaceState
from apgas.runtime.malleable import (
    at_safe_point,
    choose_nodes,
    define_malleable_handler,
    nodes,
    progress,
    resilient,
    safe_point,
)
from apgas.runtime.sizing import SelfSizing, hold_efficiency

_log = logging.getLogger("apgas.arrays")

_A_STEP_S: Final = 86_400.0
"""A step may take long, and rows move after it only."""
_LOOK_EVERY_S: Final = 0.001


def steps(
    count: SupportsIndex | None = None, *, redundancy: int = 0, target_efficiency: float | Sizing | None = None
) -> Iterator[int]:
    """(place 0) Number the steps of a loop, and let the program grow and shrink between them.

    The first call registers a malleable handler for the program. When an order of the scheduler comes, the rows of all
    arrays move before the next step; within a step, everything stays where it is. Constant arrays (``array.freeze()``)
    are copied while steps go on, and the others move when that is done. Each step is reported as progress.
    An order that comes after the loop waits for the next loop, or for the end of the program; the loop ends when copies
    that have begun are where they are to be.

    Args:
        count: How many steps; None: until the loop is left.
        redundancy: 1: before each step every place copies its rows, for itself and for a neighbour to keep. If a place
            of a resilient job dies, its rows come back from there, what has been done since is done again, and the
            call that needed the place goes on, as if nothing had happened. In a job that is not resilient the loss of
            a place ends it, so no copies are made.
        target_efficiency: The share of the nodes' time, like 0.9, that is to go into functions on blocks, and not into
            waiting for rows of others or for place 0: the job asks for nodes and gives some back to hold it. With the
            same target the next loop goes on. An ``apgas.Sizing`` has more settings. None: the job leaves its size to
            others.

    Returns:
        The numbers of the steps, from 0.

    Raises:
        UsageError: Not on place 0, or ``count`` is negative or no whole number, or ``redundancy`` is not 0 or 1, or the
            program has a handler of its own; or the target is out of range.

    Example:
        >>> from apgas import arrays
        >>> ones = arrays.from_function(lambda i: 1, 100)
        >>> for step in arrays.steps():
        ...     if step == 0:
        ...         apgas.schedule_orders("0:+2,0:-1")
        ...     if len(apgas.resizes()) == 2:
        ...         break
        >>> float(ones.sum()), [record.outcome for record in apgas.resizes()]
        (100.0, ['done', 'done'])
    """
    last = None if count is None else whole_number(count, "a loop has a whole number of steps, or None")
    if last is not None and last < 0:
        raise UsageError(f"a loop has 0 steps or more, not {count}")
    if redundancy not in (0, 1):
        raise UsageError(f"redundancy is 1, for a copy of all rows at a neighbour, or 0, not {redundancy}")
    stepping = _stepping.get()
    stepping.register()
    stepping.size(target_efficiency)
    return _between(stepping, last, copies=redundancy == 1 and resilient())


def _between(stepping: _Stepping, count: int | None, *, copies: bool) -> Iterator[int]:
    try:
        for step in itertools.count() if count is None else range(count):
            safe_point()
            if copies:
                spread_of_program().save()
            yield step
            progress(step + 1, count, "steps")
    finally:
        stepping.finish_move()


class _Stepping(Leader):
    """The handler: moves rows off those who leave, and gives some to those who come.

    Others move what they have before a shrink moves the rows, for an order that is given up meanwhile ends a wait for a
    step, and rows could not move back.
    """

    def __init__(self) -> None:
        super().__init__()
        self._registered = False
        self._copying = False
        """Whether arrays are copied while steps go on."""
        self._target: float | Sizing | None = None
        self.sizing: SelfSizing | None = None

    def register(self) -> None:
        """Let the program be malleable, from the first loop on."""
        spread_of_program()  # or it refuses another place than 0
        if self._registered:
            return
        try:
            define_malleable_handler(self, deadlines=Deadlines(pre_s=_A_STEP_S, post_s=_A_STEP_S))
        except UsageError as error:
            text = (
                "arrays.steps registers a handler of the arrays, and the program has one; "
                f"with glb and executors, arrays.steps is called first: {error}"
            )
            raise UsageError(text) from None
        self._registered = True

    def size(self, target: float | Sizing | None) -> None:
        """Let the job size itself from now on, or no more; with the same target it goes on as before."""
        if target == self._target:
            return
        measure = operations.get().work.measure
        sizing = None if target is None else hold_efficiency(target, measure)  # or it refuses the target
        if self.sizing is not None:
            self.sizing.stop()
        self._target, self.sizing = target, sizing

    def finish_move(self) -> None:
        """(after a loop) Wait until arrays that are copied are where they are to be: the program may end after that."""
        while self._copying:
            safe_point()
            time.sleep(_LOOK_EVERY_S)

    def _move_to(self, wanted: Sequence[Place]) -> None:
        spread = spread_of_program()

        def begin() -> Ahead | None:
            ahead = spread.begin(wanted)
            self._copying = ahead is not None
            return ahead

        ahead = at_safe_point(begin)
        if ahead is None:
            return
        try:
            at_safe_point(spread.over, wanted, ahead if _copied(spread, ahead) else None)
        except BaseException:
            with suppress(ApgasError, ExceptionGroup):  # a place may have been lost, or the program have ended
                spread.give_up(ahead)
            raise
        finally:
            self._copying = False

    def preShrink(self, nb_places: int) -> list[Place]:
        """Choose whom the scheduler wishes to have, then the newest nodes, and empty them."""
        leavers = choose_nodes(nb_places, nodes()[1:])
        staying = [place for place in places() if place not in leavers]
        self.evacuate(leavers, lambda: self._move_to(staying))
        return leavers

    def shrinkAborted(self, stay: Sequence[Place]) -> None:
        """Give those who stay rows again."""
        super().shrinkAborted(stay)
        self._move_to(places())

    def preGrow(self, nb_places: int) -> None:
        """Nothing needs to be prepared."""

    def postGrow(self, nb_places: int, continued_places: Sequence[Place], new_places: Sequence[Place]) -> None:
        """Give the newcomers rows."""
        super().postGrow(nb_places, continued_places, new_places)
        self._move_to([*continued_places, *new_places])


def _copied(spread: Spread, ahead: Ahead) -> bool:
    """Copy while steps go on; False if that failed, as when a place is lost: then all rows move between two steps."""
    try:
        spread.copy(ahead)
    except (ApgasError, ExceptionGroup) as error:
        _log.info("copies of arrays could not be made while steps went on: %s", error)
        return False
    return True


_stepping: Final = PlaceState(_Stepping)


def sizing_of_loops() -> SelfSizing | None:
    """(place 0) What sizes the program, by the target of its last loop; None: nothing does."""
    return _stepping.get().sizing
