"""Who leaves when the job shrinks, and who gets their work: nodes leave as a whole, each of one or several places."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

PIECES: Final = 8
"""A leaver's work is cut into about so many pieces at least, which go to the survivors with the least work."""


@dataclass(frozen=True, slots=True)
class Load:
    """How much a place has to do.

    Attributes:
        place: Its id.
        workers: Workers that run.
        tasks: Tasks that they held when they last looked, where bags have a length.
        bytes: Size of those bags, where they tell it (``nbytes``): what would have to move.
    """

    place: int
    workers: int
    tasks: int
    bytes: int = 0


def sum_of(loads: Sequence[Load]) -> Load:
    """What the places of one node have to do together; it is known by its first place."""
    return Load(
        loads[0].place,
        sum(load.workers for load in loads),
        sum(load.tasks for load in loads),
        sum(load.bytes for load in loads),
    )


def choose_leavers(count: int, loads: Sequence[Load], wished: Collection[int], beside: Collection[int]) -> list[int]:
    """Choose ``count`` nodes: the wished ones first, those beside place 0 last, of the rest those with the least work.

    Work is first of all workers that run, then tasks. Of nodes with about as many tasks (up to a factor of two, for the
    counts are never of this moment) the one with the fewest bytes to move leaves, and the newer of two equals.

    Args:
        count: How many.
        loads: The candidates, each known by its first place; place 0 is none.
        wished: Ids of those that the scheduler would like back.
        beside: Ids of those on the host of place 0, whose release frees no host.

    Raises:
        ValueError: There are not enough candidates.
    """
    if count > len(loads):
        raise ValueError(f"{count} nodes are to leave, but only {len(loads)} can")
    ranked = sorted(
        loads,
        key=lambda load: (
            load.place not in wished,
            load.place in beside,
            load.workers,
            load.tasks.bit_length(),
            load.bytes,
            load.tasks,
            -load.place,
        ),
    )
    return sorted(load.place for load in ranked[:count])


def deal(leavers: Sequence[Load], survivors: Sequence[Load]) -> dict[int, list[int]]:
    """Say which survivors get the pieces of each leaver's work, a survivor once per piece.

    One piece after another goes to the survivor with the least work, counting what it was dealt before; of those with
    as much, to one with fewer workers at work. So all survivors end up with about as much as each other, as far as the
    leavers' work reaches; without lengths of bags every survivor gets as many pieces as the next.

    Args:
        leavers: What the leavers have to do.
        survivors: What the others have to do; at least one.
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
