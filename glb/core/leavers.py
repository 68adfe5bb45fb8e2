"""Who leaves when the job shrinks, and how a place that leaves gives its work away."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final, TypeVar

import msgspec

from glb.bag import Bag, Result
from glb.core.pool import cut_in_pieces, split_everything
from glb.errors import LedgerError
from glb.statistics import tasks_in

PIECES: Final = 8
"""A leaver's work is cut into about this number of pieces at least, which go to the survivors with the least work."""


class Load(msgspec.Struct, frozen=True):
    """How much a place has to do.

    Attributes:
        workers: Workers that run.
        tasks: Tasks that they held when they last looked, where bags have a length.
        bytes: Size of those bags, where they know it (``nbytes``): what would have to move.
    """

    place: int
    workers: int
    tasks: int
    bytes: int = 0


def cost_of_leaving(loads: Sequence[Load], *, beside: bool) -> tuple[int, ...]:
    """Return what it costs if the places of a node leave, which have these ``loads``; the first numbers count most.

    Nodes ``beside`` place 0, on its host, leave last, for that frees no host. Then work counts: first of all workers
    that run, then tasks. Of nodes with about as many tasks (up to a factor of two, for the counts are never of this
    moment) the one with the fewest bytes to move is the cheapest.
    """
    workers = sum(load.workers for load in loads)
    tasks = sum(load.tasks for load in loads)
    return beside, workers, tasks.bit_length(), sum(load.bytes for load in loads), tasks


def deal(leavers: Sequence[Load], survivors: Sequence[Load]) -> dict[int, list[int]]:
    """Say which survivors get the pieces of each leaver's work, a survivor once per piece.

    One piece after another goes to the survivor with the least work, counting what it was dealt before; of those with
    as much, to one with fewer workers at work. So all survivors end up with about as much as each other, as far as the
    leavers' work reaches; without lengths of bags every survivor gets as many pieces as the next.
    """
    heap = [(load.tasks, load.workers, load.place) for load in survivors]
    heapq.heapify(heap)
    dealt: dict[int, list[int]] = {}
    for leaver in sorted(leavers, key=lambda load: (-load.tasks, load.place)):
        pieces = max(PIECES, leaver.workers)
        size = max(1, leaver.tasks // pieces)
        turns = dealt[leaver.place] = []
        for _ in range(pieces):
            tasks, workers, place = heap[0]
            turns.append(place)
            heapq.heapreplace(heap, (tasks + size, workers, place))
    return dealt


# How a place that leaves gives its work away -------------------------------------------------------------------------
#
# | state   | meaning                                    | left by          |
# |---------|--------------------------------------------|------------------|
# | staying | the place takes part                       | begin -> leaving |
# | leaving | every worker deals its bag out as it stops | end -> staying   |
#
# Place 0 names the survivors that are to have the work, in turns: one with little work comes up more often
# (``deal``). Nothing may be lost on the way: each worker's bag must be empty afterwards, and where bags have a length,
# the pieces together must be as long as it was.

R = TypeVar("R", bound=Result)


class Evacuation:
    """Whose turn it is to get a piece."""

    __slots__ = ("_turns", "leaving")

    def __init__(self) -> None:
        self.leaving = False
        self._turns: deque[int] = deque()

    def begin(self, turns: Sequence[int]) -> None:
        """Leave; ``turns`` lists survivors, a place once for each piece that it is to get."""
        self.leaving = True
        self._turns = deque(turns)

    def end(self) -> None:
        """Stay after all."""
        self.leaving = False

    def next_in_turn(self) -> int:
        """Return the survivor that gets what still arrives."""
        self._turns.rotate(-1)
        return self._turns[-1]

    def hand_out(self, bag: Bag[R], workers: int) -> list[tuple[int, Bag[R]]]:
        """Cut everything out of a worker's bag, which keeps its result, and say who gets what.

        Args:
            bag: What the worker and its place hold.
            workers: How many workers of this place have still to hand out, this one included.

        Raises:
            LedgerError: The bag lost or doubled tasks.
        """
        held = tasks_in(bag)
        everything = split_everything(bag)
        if everything is None:
            return []
        targets = [*islice(self._turns, max(1, -(-len(self._turns) // workers)))]
        self._turns.rotate(-len(targets))
        pieces: dict[int, Bag[R]] = {}
        given = 0
        for to, piece in zip(targets, cut_in_pieces(everything, len(targets)), strict=False):
            given += tasks_in(piece)
            if to in pieces:
                pieces[to].merge(piece)
            else:
                pieces[to] = piece
        if given != held:
            raise LedgerError(f"a place that leaves had {held} tasks and gives {given} away")
        return list(pieces.items())
