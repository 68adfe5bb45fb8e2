"""The bag that the workers of a place share.

| state | meaning                               | left by                                      |
|-------|---------------------------------------|----------------------------------------------|
| empty | the next worker to look may stock it  | put, stock -> full                           |
| full  | the next worker that runs dry gets it | pour, cut of an unsplittable bag -> empty    |

A place whose pool is full has a worker: whoever fills it holds the place's lock and is alive or sees one alive, and a
worker ends only after it has found the pool empty under the same lock.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from glb.bag import Bag, Result
from glb.core.pieces import half

R = TypeVar("R", bound=Result)


class Pool(Generic[R]):
    """Holds one bag or none."""

    __slots__ = ("bag",)

    def __init__(self) -> None:
        self.bag: Bag[R] | None = None

    def put(self, bag: Bag[R]) -> None:
        """Add ``bag`` whole."""
        if self.bag is None:
            self.bag = bag
        else:
            self.bag.merge(bag)

    def pour(self, into: Bag[R]) -> bool:
        """Move everything into a worker's bag; False if there is nothing."""
        if self.bag is None:
            return False
        into.merge(self.bag)
        self.bag = None
        return True

    def take(self) -> Bag[R] | None:
        """Remove and return the bag."""
        taken, self.bag = self.bag, None
        return taken

    def stock(self, own: Bag[R]) -> None:
        """Fill an empty pool with a part of a worker's bag."""
        if self.bag is None:
            self.bag = half(own)

    def cut(self, own: Bag[R]) -> Bag[R] | None:
        """Cut loot from a worker's bag, else from the pool, whose bag goes whole if it cannot be split.

        The pool keeps what a worker with nothing in hand needs itself.
        """
        loot = half(own)
        if loot is None and self.bag is not None and not own.is_empty():
            loot = half(self.bag)
            if loot is None:
                loot = self.take()
        return loot
