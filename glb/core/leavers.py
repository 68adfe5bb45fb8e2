"""Which places leave when the job shrinks: nodes as a whole, each of one or several places."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """How much a place has to do.

    Attributes:
        place: Its id.
        workers: Workers that run.
        tasks: Tasks that they held when they last looked, where bags have a length.
    """

    place: int
    workers: int
    tasks: int


def sum_of(loads: Sequence[Load]) -> Load:
    """What the places of one node have to do together; it is known by its first place."""
    return Load(loads[0].place, sum(load.workers for load in loads), sum(load.tasks for load in loads))


def choose_leavers(count: int, loads: Sequence[Load], wished: Collection[int], beside: Collection[int]) -> list[int]:
    """Choose ``count`` nodes: the wished ones first, those beside place 0 last, of the rest those with the least work.

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
            load.tasks,
            -load.place,
        ),
    )
    return sorted(load.place for load in ranked[:count])
