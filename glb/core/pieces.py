"""Cutting a bag into pieces."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from glb.bag import Bag
from glb.errors import LedgerError
from glb.statistics import tasks_in

R = TypeVar("R")


def half(bag: Bag[R]) -> Bag[R] | None:
    """Split about half of the tasks off ``bag``; None if that cannot be done."""
    return bag.split(False) if bag.is_splittable() else None


def halve(bag: Bag[R], count: int) -> list[Bag[R]]:
    """Cut ``bag`` into at most ``count`` pieces of about the same size by halving the oldest piece again and again.

    ``bag`` itself is one of the pieces.
    """
    whole: list[Bag[R]] = []
    cuttable: deque[Bag[R]] = deque([bag])
    while cuttable and len(whole) + len(cuttable) < count:
        piece = cuttable.popleft()
        part = half(piece)
        if part is None:
            whole.append(piece)
        else:
            cuttable.extend((piece, part))
    return [*whole, *cuttable]


def take_all(bag: Bag[R]) -> Bag[R] | None:
    """Split all tasks off ``bag``, which keeps its result only; None if it has no task.

    Raises:
        LedgerError: The bag kept, lost or doubled tasks.
    """
    held = tasks_in(bag)
    everything = bag.split(True)
    taken = 0 if everything is None else tasks_in(everything)
    if not bag.is_empty() or taken != held:
        left = tasks_in(bag)
        raise LedgerError(f"split(True) of a {type(bag).__name__} with {held} tasks gave {taken} and kept {left}")
    return everything
