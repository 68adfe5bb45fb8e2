"""The bags that the workers of a place share, and that other places may have: no worker holds them.

| state | meaning                                                | left by                                       |
|-------|--------------------------------------------------------|-----------------------------------------------|
| empty | the next worker to look may stock it                   | put, stock, set_out -> full                   |
| full  | the next worker that runs dry gets a bag, or all of it | pour, pour_newest, loot, take, clear -> empty |

A place whose pool is full has a worker: whoever fills it holds the place's lock and is alive or sees one alive, and a
worker ends only after it has found the pool empty under the same lock.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from glb.bag import Bag, Result
from glb.core.pieces import half
from glb.statistics import tasks_in

R = TypeVar("R", bound=Result)


class Pool(Generic[R]):
    """Holds bags, the largest of what one worker has set out before the smaller ones."""

    __slots__ = ("_bags",)

    def __init__(self) -> None:
        self._bags: deque[Bag[R]] = deque()

    def __bool__(self) -> bool:
        return bool(self._bags)

    @property
    def bags(self) -> tuple[Bag[R], ...]:
        """The bags, oldest first."""
        return tuple(self._bags)

    def put(self, bag: Bag[R]) -> None:
        """Add ``bag`` whole."""
        self._bags.append(bag)

    def pour(self, into: Bag[R]) -> bool:
        """Move everything into a worker's bag; False if there is nothing."""
        poured = bool(self._bags)
        while self._bags:
            into.merge(self._bags.pop())
        return poured

    def pour_newest(self, into: Bag[R]) -> bool:
        """Move the bag that was added last into a worker's bag; False if there is none."""
        if not self._bags:
            return False
        into.merge(self._bags.pop())
        return True

    def take(self) -> Bag[R] | None:
        """Remove and return the oldest bag."""
        return self._bags.popleft() if self._bags else None

    def clear(self) -> None:
        """Drop everything."""
        self._bags.clear()

    def stock(self, own: Bag[R]) -> None:
        """Fill an empty pool with a part of a worker's bag."""
        if not self._bags and (part := half(own)) is not None:
            self._bags.append(part)

    def set_out(self, own: Bag[R], tasks: int) -> None:
        """Add all of a worker's bag but what it processes next, about ``tasks`` where bags have a length, else one.

        Halves of halves: each task is split off about once until it is processed, however many there are.
        """
        while not 0 < tasks_in(own) <= tasks and (part := half(own)) is not None:
            self._bags.append(part)

    def loot(self) -> Bag[R] | None:
        """Remove and return about half of everything: the oldest bag, or half of the only one if it can be split."""
        if len(self._bags) == 1 and (part := half(self._bags[0])) is not None:
            return part
        return self.take()

    def cut(self, own: Bag[R]) -> Bag[R] | None:
        """Cut loot from a worker's bag, else from the pool.

        The pool keeps what a worker with nothing in hand needs itself.
        """
        loot = half(own)
        if loot is None and not own.is_empty():
            loot = self.loot()
        return loot
