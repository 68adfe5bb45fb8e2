"""How a place that leaves gives its work away.

| state   | meaning                                    | left by          |
|---------|--------------------------------------------|------------------|
| staying | the place takes part                       | begin -> leaving |
| leaving | every worker deals its bag out as it stops | end -> staying   |

Place 0 names the survivors that are to have the work, in turns: one with little work comes up more often (``deal`` of
``leavers.py``). Without its word, places that are known to wait come first, then any. Nothing may be lost on the way:
each worker's bag must be empty afterwards, and where bags have a length, the pieces together must be as long as it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from glb.bag import Bag, Result
from glb.core.pieces import halve, take_all
from glb.core.view import View
from glb.errors import LedgerError
from glb.statistics import tasks_in

if TYPE_CHECKING:
    from random import Random

R = TypeVar("R", bound=Result)

MOST_TARGETS = 8
"""A worker that hands out its bag spreads it over at most so many survivors."""


class Evacuation:
    """Whose turn it is to get a piece.

    Args:
        view: Whom the place knows.
        rng: Source of survivors where place 0 names none.
    """

    __slots__ = ("_rng", "_turns", "_view", "leaving")

    def __init__(self, view: View, rng: Random) -> None:
        self.leaving = False
        self._view = view
        self._rng = rng
        self._turns: deque[int] = deque()

    def begin(self, turns: Sequence[int]) -> None:
        """Leave; ``turns`` lists survivors, a place once for each piece that it is to get; none: any survivor."""
        self.leaving = True
        self._turns = deque(turns)

    def end(self) -> None:
        """Stay after all."""
        self.leaving = False
        self._turns.clear()

    def anybody(self) -> int:
        """Return the survivor that gets what still arrives."""
        if self._turns:
            self._turns.rotate(-1)
            return self._turns[-1]
        return self._view.others(1, self._rng)[0]

    def hand_out(self, bag: Bag[R], workers: int, waiting: Sequence[int]) -> list[tuple[int, Bag[R]]]:
        """Cut everything out of a worker's bag, which keeps its result, and say who gets what.

        Args:
            bag: What the worker and its place hold.
            workers: How many workers of this place have still to hand out, this one included.
            waiting: Places known to wait for work.

        Raises:
            LedgerError: The bag lost or doubled tasks.
        """
        held = tasks_in(bag)
        everything = take_all(bag)
        if everything is None:
            return []
        targets = self._targets(workers, waiting)
        pieces: dict[int, Bag[R]] = {}
        given = 0
        for to, piece in zip(targets, halve(everything, len(targets)), strict=False):
            given += tasks_in(piece)
            if to in pieces:
                pieces[to].merge(piece)
            else:
                pieces[to] = piece
        if given != held:
            raise LedgerError(f"a place that leaves had {held} tasks and gives {given} away")
        return list(pieces.items())

    def _targets(self, workers: int, waiting: Sequence[int]) -> list[int]:
        if self._turns:
            count = max(1, -(-len(self._turns) // workers))
            targets = [self._turns[index] for index in range(min(count, len(self._turns)))]
            self._turns.rotate(-len(targets))
            return targets
        hungry = [place for place in waiting if place in self._view]
        others = len(self._view.members) - (self._view.me in self._view)
        count = max(1, min(MOST_TARGETS, -(-others // workers)))
        any_others = self._view.others(count + len(hungry), self._rng)
        return [*hungry, *(place for place in any_others if place not in hungry)][:count]
